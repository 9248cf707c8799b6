"""Words to atoms: the phrase table of the goal language, matched longest first.

An atom is a meaning of one letter (`kind`) with its payload. The letters are the alphabet of `rules`:

    M metric       L vague metric   S statistic   V verb          D up/down         C comparator    h "or less"
    N number       F fraction       z unit        K constraint    Z SLO             B budget        T spend/use
    I in/within    c concurrent     u users       q requests      o concurrency     a arrivals      A answers
    U same         W change         v preserve    d code          p parameters      J only          w allowed
    ! negation     , separator      y by          t to            f of              m from          s as
    k current      j factor         ~ about       @ at            + plus            = is            g go/rise
    E get/reach    n than           H max           l limit       i article
    r percentile   # ordinal end    Y as much       e disk            ? unknown
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from infra_agent.goal.lexer import Token
from infra_agent.goal.spelling import correct
from infra_agent.goal.words import is_filler, lemmas

_METRICS: dict[str, str] = {
    "ttft_s": "ttft|time to first token|time until first token|first token latency|first token time|first token|"
    "latency to first token|latency of first token",
    "tpot_s": "tpot|time per output token|time per token|per token latency|per output token latency|latency per token|"
    "latency per output token|output token latency|tpot latency",
    "itl_s": "itl|inter token latency|intertoken latency|tbt|time between token|inter token time|gap between token|"
    "token to token latency|latency between token",
    "e2e_s": "e2e|e2e latency|e2e time|end to end|end to end latency|end to end time|end to end answer time|"
    "end to end request latency|end to end duration|request latency|request duration|request time|"
    "answer latency|answer time|total latency|total answer time|full answer time",
    "goodput_per_s": "goodput",
    "startup_s": "start|start UP|start time|start UP time|start latency|cold start|cold start time|cold start latency|"
    "time to start|time to ready|come UP|come UP time|launch time|start duration|start UP duration",
    "memory_bytes": "memory|memory footprint|memory use|memory consumption|rss|rss memory|peak memory|peak memory use|"
    "peak rss|resident memory|resident set size|memory peak|memory rss|rss footprint",
}
_RATES: dict[str, str] = {
    "output_tok_per_s": "output token throughput|output token rate|output throughput|gen throughput|gen speed|"
    "gen token throughput|token gen throughput|token gen rate|token gen speed|output speed|output tps|gen tps|gen rate|"
    "output rate",
    "total_tok_per_s": "total token throughput|total throughput|total tps|total token rate",
    "requests_per_s": "request throughput|request rate|rps|qps",
}
_RATE_STEMS: dict[str, str] = {
    "output_tok_per_s": "output token|gen token|token gen|completion token|token output",
    "total_tok_per_s": "total token",
    "requests_per_s": "request",
}
_PLAIN = "plain"
_SIMPLE: dict[str, str] = {
    "K with": "with|as long as|subject to|such that|so that|w /",
    "K keep": "keep",
    "K using": "using",
    "Z": "slo|slo of",
    "B": "budget|time budget|time limit|budgeted",
    "T": "take|use|you have|you have got",
    "I in": "in|inside",
    "I within": "within",
    "c": "concurrent|at once|in concurrent|at a time|at same time|in flight|way concurrent|way concurrency",
    "u": "user",
    "q": "request",
    "o": "concurrency",
    "a": "arrival|arrival rate|offered load|load of|under load of|under offered load of|under arrival rate of",
    "A": "answer|output|output answer|output token",
    "U": "same|exactly same",
    "W": "change",
    "v": "preserve",
    "d": "code|code code",
    "p": "parameter|launch parameter|start parameter",
    "J": "only",
    "w": "allowed",
    "!": "not|w / o",
    ",": "and|&|as well as",
    "y": "by",
    "t": "to|DOWN to",
    "f": "of",
    "m": "from",
    "s": "as",
    "k": "now|as now|than now",
    "j": "factor|factor of",
    "~": "about|~|≈",
    "@": "at|@",
    "+": "+",
    "=": ":|=",
    "g": "go",
    "n": "than",
    "H": "max",
    "l": "limit",
    "i": "a|an|the",
    "r": "percentile",
    "#th": "th",
    "D up": "UP",
    "D down": "DOWN",
    "S p50": "median",
    "S mean": "mean",
    "V up": "up",
    "V more": "more|more than now",
    "V down": "down",
    "V less": "less|less than now",
    "V better": "better|better than now",
    "V faster": "faster|speed UP|faster than now|as faster|as faster as",
    "V slower": "slower|slower than now",
    "V double": "double",
    "V triple": "triple",
    "V quadruple": "quadruple",
    "V halve": "halve",
    "E": "get|gen",
    "X2": "twofold|twice",
    "X3": "threefold|thrice",
    "X4": "fourfold",
    "X5": "fivefold",
    "X10": "tenfold",
    "Y much": "as much|as many|as more|as long|as high|as so",
    "C at_most": "at most|not more than|not over|not to over|not go over|<=|=<|≤|UP to|limit to|"
    "not slower than|at or under|max of|under or equal to",
    "C at_least": "at least|not less than|not under|>=|=>|≥|minimum of|minimum|at or over|not go under",
    "C under": "under|less than|<|faster than|down than",
    "C over": "over|more than|>|north of",
    "h at_most": "or less|or under|or faster|or better",
    "h at_least": "or more|or over",
    "z s": "s",
    "z per_s": "per s|/ s|each s|every s",
    "z ms": "ms",
    "z μs": "μs",
    "z min": "min",
    "z m": "m",
    "z h": "h",
    "z gb": "gb",
    "z gib": "gib",
    "z mb": "mb",
    "z mib": "mib",
    "z byte": "byte",
    "z %": "percent|%|per cent",
    "z x": "x|fold",
    "z usd": "usd|$",
    "z cents": "cents",
    "z tokens": "token",
    "z launches": "launch",
    "e": "disk|disk space",
    "L latency": "latency|token latency|latency time",
    "L speed": "speed",
    "L performance": "performance",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """One meaning. `name` and `number` are the payload; `spelled`: the metric's words name its unit."""

    kind: str
    text: str = ""
    name: str = ""
    number: Fraction = Fraction(0)
    spelled: bool = False
    stat: str = ""
    cmp: str = ""
    prep: str = ""
    since: Fraction = Fraction(0)


@cache
def phrase_table() -> dict[tuple[str, ...], Atom]:
    """Lemma sequence to atom."""
    table: dict[tuple[str, ...], Atom] = {}
    for name, phrases in _METRICS.items():
        for phrase in phrases.split("|"):
            table[tuple(phrase.split())] = Atom(kind="M", name=name)
    for name, phrases in _RATES.items():
        for phrase in phrases.split("|"):
            table[tuple(phrase.split())] = Atom(kind="M", name=name, spelled=phrase[-3:] in ("tps", "rps", "qps"))
    for name, stems in (_RATE_STEMS | {_PLAIN: "token"}).items():
        for stem in stems.split("|"):
            table.update(_per_time(name, stem))
    for phrase in ("tps", "t / s"):
        table[tuple(phrase.split())] = Atom(kind="M", name=_PLAIN, spelled=True)
    for phrase in ("throughput", "token throughput", "token rate", "token speed"):
        table[tuple(phrase.split())] = Atom(kind="M", name=_PLAIN)
    for key, phrases in _SIMPLE.items():
        for phrase in phrases.split("|"):
            table[tuple(phrase.split())] = _simple_atom(key)
    return table


def _per_time(name: str, stem: str) -> Iterator[tuple[tuple[str, ...], Atom]]:
    for per in ("per", "/", "a", "each", "every"):
        for unit, scale in (("s", Fraction(1)), ("min", Fraction(1, 60))):
            atom = Atom(kind="M", name=name, spelled=True, number=scale)
            for tail in ("", " throughput", " rate"):
                yield tuple(f"{stem} {per} {unit}{tail}".split()), atom


def _simple_atom(key: str) -> Atom:
    if key[0] == "X":
        return Atom(kind="X", number=Fraction(key[1:]))
    kind, _, name = key.partition(" ")
    return Atom(kind=kind[0], name=name)


def read_phrases(tokens: list[Token]) -> tuple[list[Atom], list[str]]:
    """The atoms of the tokens, and notes on corrected spelling."""
    notes: list[str] = []
    keys = [_key(token, notes) for token in tokens]
    atoms: list[Atom] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        found = _longest(keys, index) if token.kind in ("word", "op") else None
        if found is not None:
            atom, end = found
            text = " ".join(t.text for t in tokens[index:end])
            atoms.append(_with_text(atom, text))
            index = end
            continue
        index += 1
        if not is_filler(token.text):
            atoms.append(_plain_atom(token))
    return atoms, notes


def _with_text(atom: Atom, text: str) -> Atom:
    return Atom(kind=atom.kind, text=text, name=atom.name, number=atom.number, spelled=atom.spelled)


def _key(token: Token, notes: list[str]) -> str:
    if token.kind != "word":
        return token.text if token.kind == "op" else ""
    word = token.text
    for form in (word, word.removesuffix("'s")):
        if form in lemmas():
            return lemmas()[form]
        if is_filler(form):
            return form
    if word.endswith("n't"):
        return "not"
    fixed = correct(word)
    if fixed is None:
        return word
    notes.append(f"'{word}' read as '{fixed}'")
    return lemmas()[fixed]


def _longest(keys: list[str], start: int) -> tuple[Atom, int] | None:
    """The longest phrase at `start`; articles inside a phrase may be skipped."""
    table, prefixes = phrase_table(), _prefixes()
    best: tuple[Atom, int] | None = None
    open_paths: list[tuple[tuple[str, ...], int]] = [((), start)]
    while open_paths:
        path, index = open_paths.pop()
        if path in table and (best is None or index > best[1]):
            best = (table[path], index)
        if index >= len(keys):
            continue
        if (*path, keys[index]) in prefixes:
            open_paths.append(((*path, keys[index]), index + 1))
        if path and keys[index] in ("a", "an", "the"):
            following = keys[index + 1] if index + 1 < len(keys) else ""
            if (*path, following) in prefixes:
                open_paths.append(((*path, following), index + 2))
    return best


@cache
def _prefixes() -> frozenset[tuple[str, ...]]:
    return frozenset(key[:size] for key in phrase_table() for size in range(1, len(key) + 1))


def _plain_atom(token: Token) -> Atom:
    if token.kind == "num":
        return Atom(kind="N", text=token.text, number=token.number)
    if token.kind == "frac":
        return Atom(kind="F", text=token.text, number=token.number)
    if token.kind == "sep":
        return Atom(kind=",", text=token.text)
    if token.kind == "word" and token.text.startswith("p") and token.text[1:2].isdigit():
        return Atom(kind="S", text=token.text, name=token.text)
    return Atom(kind="?", text=token.text, name=token.kind)
