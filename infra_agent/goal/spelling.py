"""Correction of one typing error in a word of five or more letters.

Covered: one insertion, deletion, substitution or swap of neighbours after the first letter, when one meaning is near.
Not covered: short words, number words (a corrected number could be a wrong number), real words near a known one.
"""

from __future__ import annotations

from functools import cache

from infra_agent.goal.words import lemmas, number_words

_MIN_LETTERS = 5
# Real words one letter away from a known one: correcting them would change what was said.
_REAL_WORDS = """
    abort abound actor after alert alien alloc alloy alone along aloud annoy arise arises arising arose arrived
    averaged averages avoids balls beast beeping beings bites blocks bolts books bools boosters booting boring
    bounce bound breast butter bytes cable called callee caller calling calls candle cats cattle cedar chance
    chances changer chaos charge charged charging chars chart charts cheats child clash clashes codes coding
    coffee comet comps cores count counts couple course cover cropped cropping cures curse dating dear decay
    decide decided deciding decoder decodes deduce deduced delivery derive derives deriving diffed differs
    domino doublets doubly drawn driven driver drivers drought dumped dumping dumps dunder durable eased eaten
    effect effected effects elapsed ender enhancer enter equals error except exciting exiting facto factors
    factory failing fails fasten father fatter feature filling fills fist fitting flash flat flaws flies flights
    float flood folding folds forest former foster fuel funk gained gainful getter greeter grocer gross groups
    halting handed handing handler handlers hanging hatch heady hinting holed holes horse hounds house impress
    improbable improper infer inner instant intel interim intern inters invert itself jumping keeled keeling
    keyed kilns knack knots large latent later latest learn lease leased letter level lever levers liked likely
    limiter listed listing lists lives living loaded loser lovers lowest maintainer maker makers males manes
    mapped marking masking master matches matter maxes maximus media medial medians memoir memos mention miles
    minuet minus mistake mixture modest modifier modifiers mollis months mouth moved mover movie mutes nearest
    needle needy neural newer noisy notes obtained obtains offset often orders other others outage outdo outlet
    outlook outpost patched patcher peach peaked pending permits phase phrase pitch pitches place placed players
    poison pouch power powers praise prepare presented presents preset prevent prevents proceed producer
    producers product products profound provide provider provides pull pulls pushed pushes puts putting
    quadrupole quantity quarry queried quiet quirk quite quota quoted raisin raster rather react reacting reacts
    reading reads really recede recode redaction reducer reedy reject relay relays relies replay replied report
    reports resent reserve reserved reserves reset resets resist resort restart rides ridge rights risking risks
    roots rotate rough rounds routes rushing scale scream screams screen seeding seeds sending sends series
    setter shade shades shading shape shapes shaping share shared shares sharing shirt short shorts shorty shove
    shower shown shrank shrunk sitting slate slave sleep slice slight slots slowed slowly smart smarts smell
    solved sorted sorter sourced spare sparse spawn spelt spent split spread staff stage stale stamp stand stare
    stark stars stash stashed state states static stating stats staves steam steps stick store stored strain
    strange strat strict string strip stuck study style subjects sunder surge swept taken taker tales talking
    taller tasks taste teach tends tense tenth texts their there these thing think those threat through
    throughout thrown tiles timed timer timers titles tones tools topic torch totals tough towed tower trail
    train treat trial tried tries tripled triplet triplets tripped tripping trips truly trust tuner turned
    turning twine types undef undue union unite untie upper usable usual valued values valve waits walls waste
    watch watches water weeds whale wheel which whine white widths winds wishes woken words works world worst
    worth yours
"""


def correct(word: str) -> str | None:
    """The one known word at one edit from `word`, if its meaning is unique."""
    if len(word) < _MIN_LETTERS or not word.isalpha() or word in _real_words():
        return None
    near = {known for known in lemmas() if len(known) >= _MIN_LETTERS and _one_edit(word, known)}
    meanings = {lemmas()[known] for known in near}
    close_number = any(len(known) >= _MIN_LETTERS and _one_edit(word, known) for known in number_words())
    if len(meanings) != 1 or close_number:
        return None
    return min(near, key=lambda known: (abs(len(known) - len(word)), known))


@cache
def _real_words() -> frozenset[str]:
    return frozenset(_REAL_WORDS.split())


def _one_edit(a: str, b: str) -> bool:
    """Whether one edit after the first letter turns `a` into `b`."""
    if abs(len(a) - len(b)) > 1 or a == b or a[0] != b[0]:
        return False
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    rest_a, rest_b = a[start:], b[start:]
    if len(a) == len(b):
        swapped = rest_a[1:2] + rest_a[0:1] + rest_a[2:]
        return rest_a[1:] == rest_b[1:] or swapped == rest_b
    return rest_a[1:] == rest_b if len(a) > len(b) else rest_a == rest_b[1:]
