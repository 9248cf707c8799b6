"""The closed vocabulary: surface forms of each lemma, and filler words.

Covered: every word the grammar knows, in British and American spelling. Lemmas are the keys of the phrase table.
Not covered: spelling mistakes (`spelling`), numbers as words (`numerals`).
"""

from __future__ import annotations

from functools import cache

# One line per lemma: the lemma, a colon, its forms. An indented line continues the one above.
_FORMS = """
token: token tokens tok toks
request: request requests req reqs query queries
user: user users client clients session sessions stream streams connection connections caller callers people
    conversation conversations chat chats
s: s sec secs second seconds
ms: ms msec msecs millisecond milliseconds millis
μs: μs microsecond microseconds usec
min: min mins minute minutes
m: m
h: h hr hrs hour hours
gb: gb gigabyte gigabytes
gib: gib gibibyte gibibytes
mb: mb megabyte megabytes
mib: mib mebibyte mebibytes
byte: byte bytes
percent: percent pct % percents
cent: cent
cents: cents
usd: usd dollar dollars bucks
disk: disk disks storage
launch: launch launches
x: x times
fold: fold
twofold: twofold
threefold: threefold
fourfold: fourfold
fivefold: fivefold
tenfold: tenfold
twice: twice
thrice: thrice
factor: factor
up: raise raises raised raising increase increases increased increasing boost boosts boosted boosting lift lifts
    lifted lifting bump bumps bumped bumping grow grows growing rise rises rising climb climbs climbing maximise
    maximize maximising maximizing maximised maximized gain gains maximizes maximises
more: more higher greater bigger larger
down: cut cuts cutting reduce reduces reduced reducing lower lowers lowered lowering decrease decreases
    decreased decreasing fall falls falling shrink shrinks shrinking drop drops dropped dropping trim trims
    trimming slash slashes slashing minimise minimize minimising minimizing minimised minimized shorten
    shortens shortening shortened reduction shave shaves shaving save saves saving saved knock knocks
    knocking minimizes minimises
    reductions slashed
less: less fewer smaller shorter off
better: improve improves improved improving improvement optimise optimize optimising optimizing optimised
    optimized better enhance enhances enhancing tune tunes tuned tuning improvements
faster: faster quicker speedup fast quick accelerate accelerates accelerated accelerating speedups
slower: slower slow worse worsen worsens
speed: speed speeds speeding
double: double doubles doubled doubling
triple: triple triples tripled tripling treble trebled
quadruple: quadruple quadrupled quadrupling
halve: halve halves halved halving
get: get gets getting make makes making reach reaches reaching reached achieve achieves achieving achieved hit
    hits hitting bring brings bringing attain push pushes pushing drive drives driving give gives deliver
    delivers delivering serve serves served serving handle handles handling sustain sustains sustaining fit fits
    move process processing obtain generate generates generating produce produces producing need needs want
    wants target aim goal objective require requires meet meets meeting targets required produced handled
UP: up
DOWN: down
with: with while whilst provided given but where having
keep: keep keeps keeping kept hold holds holding held maintain maintains maintaining maintained ensure ensures
    ensuring ensured
using: using
use: use uses usage usages
come: come comes coming
take: take takes taking spend spends spending
limit: limit limits limited limiting cap caps capped ceiling
slo: slo slos sla
budget: budget budgets
concurrent: concurrent concurrently simultaneous simultaneously parallel
concurrency: concurrency conc
arrival: poisson arrival arrivals arriving arrive traffic arrives
answer: answer answers outputs response responses result results completions replies reply text
output: output
same: same identical unchanged intact
change: change changes changing changed alter alters altering altered modify modifies modifying modified touch
    touching touched affect affects affecting affected differ
preserve: preserve preserves preserving preserved
code: code source sources patch patches kernel kernels
parameter: parameter parameters param params flag flags option options setting settings
only: only
allowed: allowed allow allowing permitted permit ok okay fine welcome
not: not don't dont doesn't doesnt never no without won't mustn't shouldn't cannot can't nor avoid avoiding
and: and
now: now today before current currently existing present baseline stock original
about: about around roughly approximately approx
max: max maximum
minimum: minimum
under: under below beneath
over: over above exceed exceeds exceeding exceeded beyond
go: go goes going let lets letting
than: than
th: th st nd rd
percentile: percentile percentiles
median: median
mean: mean average avg
throughput: throughput thruput
gen: generated generation decode decoding decoded
latency: latency latencies delay delays
performance: performance perf
memory: memory ram mem
start: start starts starting startup boot boots
"""
_BARE = """
    by to from of as at in within inside per a an the each every first time until between inter end ttft tpot
    itl tbt e2e goodput rss rps qps tps total peak resident set size footprint consumption rate cold ready
    duration full tail way once flight least most or so long such that subject w o t lat any gap offered
    load budgeted you have got spent space all well completion i equal north exactly speed token much many high
    intertoken
"""
_FILLERS = """
    please the our my your their its it this that these those a an server servers service stack system engine
    model deployment endpoint setup inference llm i we you us would like should must shall will can could may
    might is are be been being was stay stays staying remain remains remaining so for on try help thanks thank
    hi hello hey just value figure number level let's all there them they when each do does any also me kindly
    team run running have has having s whole
"""
_NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand dozen
    single half third thirds quarter quarters fifth fifths tenth tenths
"""


@cache
def lemmas() -> dict[str, str]:
    """Surface form to lemma, for every word with a meaning."""
    lines = _FORMS.replace("\n    ", " ").strip().splitlines()
    table = {form: lemma for lemma, _, forms in (line.partition(": ") for line in lines) for form in forms.split()}
    for word in _BARE.split():
        table.setdefault(word, word)
    return table


@cache
def fillers() -> frozenset[str]:
    """Words that may remain unread."""
    return frozenset(_FILLERS.split())


@cache
def number_words() -> frozenset[str]:
    """Words that the number reader knows."""
    return frozenset(_NUMBERS.split())


def is_filler(word: str) -> bool:
    """Whether the word may remain unread; contractions of fillers count ("we're", "it's")."""
    stem, _, ending = word.partition("'")
    return word in fillers() or (stem in fillers() and ending in ("re", "ve", "ll", "d", "s", "m"))
