"""Atoms to facts: an ordered list of rewriting rules over the letters of `phrases`.

Each rule is a pattern over one-letter kinds and a function that replaces the matched atoms. New letters made here:

    Q time   G bytes   R rate   P percent   X multiple   7 bound or measure   6 change
    1 load   2 budget  3 answers unchanged  4 scope      5 "within" + time (budget or bound: `statements` decides)
    8 money, tokens, launches or disk       9 a ceiling of one of these

Covered: everything that is local to a few neighbouring words. What no rule consumes stays, and is refused later.
Not covered: which bound belongs to which metric (`statements`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

from infra_agent.goal.phrases import Atom

Make = Callable[[list[Atom]], list[Atom]]
_TIME = {
    "s": Fraction(1),
    "ms": Fraction(1, 1000),
    "μs": Fraction(1, 1_000_000),
    "min": Fraction(60),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_BYTES = {
    "byte": Fraction(1),
    "mb": Fraction(10**6),
    "gb": Fraction(10**9),
    "mib": Fraction(2**20),
    "gib": Fraction(2**30),
}
_SPENT = {"usd": ("usd", Fraction(1)), "cents": ("usd", Fraction(1, 100))} | {
    name: (name, Fraction(1)) for name in ("tokens", "launches")
}
SET_VERBS = frozenset({"double", "triple", "quadruple", "halve"})
_INVERSE = {"under": "at_least", "over": "at_most"}
_PLAIN_CMP = {"under": "at_most", "over": "at_least"}


def apply_rules(atoms: list[Atom]) -> list[Atom]:
    """Run all rules once, in order."""
    for pattern, make in _rules():
        atoms = _rewrite(atoms, pattern, make)
    return atoms


def _rewrite(atoms: list[Atom], pattern: re.Pattern[str], make: Make) -> list[Atom]:
    letters = "".join(atom.kind for atom in atoms)
    out: list[Atom] = []
    done = 0
    for match in pattern.finditer(letters):
        if match.start() == match.end():
            continue
        out += atoms[done : match.start()]
        out += make(atoms[match.start() : match.end()])
        done = match.end()
    return out + atoms[done:]


def _text(atoms: list[Atom]) -> str:
    return " ".join(atom.text for atom in atoms if atom.text)


def _pick(atoms: list[Atom], kinds: str) -> Atom | None:
    return next((atom for atom in atoms if atom.kind in kinds), None)


def _drop(_: list[Atom]) -> list[Atom]:
    return []


def _as(kind: str, name: str = "") -> Make:
    """Replace the match by one atom of `kind`."""
    return lambda atoms: [Atom(kind=kind, name=name, text=_text(atoms))]


def _quantity(atoms: list[Atom]) -> list[Atom]:
    unit = atoms[-1]
    number = atoms[0].number if atoms[0].kind in "NF" else Fraction(1)
    text = _text(atoms)
    if atoms[0].kind == "i" and (unit.name not in _TIME or atoms[0].text == "the"):
        return atoms
    if unit.name == "per_s":
        return [Atom(kind="R", number=number, name="per_s", text=text)]
    if unit.name in _TIME:
        return [Atom(kind="Q", number=number * _TIME[unit.name], name=unit.name, text=text)]
    if unit.name in _BYTES:
        return [Atom(kind="G", number=number * _BYTES[unit.name], name=unit.name, text=text)]
    if unit.name in _SPENT:
        name, scale = _SPENT[unit.name]
        return [Atom(kind="8", number=number * scale, name=name, text=text)]
    return [Atom(kind="P" if unit.name == "%" else "X", number=number, text=text)]


def _money(atoms: list[Atom]) -> list[Atom]:
    """Read "$2" and "USD 2"."""
    unit, number = atoms
    return [Atom(kind="8", number=number.number, name="usd", text=_text(atoms))] if unit.name == "usd" else atoms


def _disk(atoms: list[Atom]) -> list[Atom]:
    return [Atom(kind="8", number=atoms[0].number, name="disk_bytes", text=_text(atoms))]


def _ceiling(atoms: list[Atom]) -> list[Atom]:
    """A ceiling by its own words; tokens need one of spending: "with at most 200 tokens" may mean the answers."""
    said = any(atom.kind in "TIB" or (atom.kind, atom.name) == ("K", "using") for atom in atoms)
    tokens = any(atom.kind == "8" and atom.name == "tokens" for atom in atoms)
    return atoms if tokens and not said else _next_ceiling(atoms)


def _next_ceiling(atoms: list[Atom]) -> list[Atom]:
    """One more ceiling on money, tokens, launches or disk; left as it is when the words bound it from below."""
    spent, cmp, after = _pick(atoms, "8"), _pick(atoms, "C"), _pick(atoms, "h")
    if spent is None or any(word and _plain(word.name) != "at_most" for word in (cmp, after)):
        return atoms
    kept = [atoms[0]] if atoms[0].kind == "," else []
    return [*kept, Atom(kind="9", number=spent.number, name=spent.name, text=_text(atoms[len(kept) :]))]


def _sum_times(atoms: list[Atom]) -> list[Atom]:
    """Read "1 h 30 min": units must fall, or it is not one duration."""
    times = [atom for atom in atoms if atom.kind == "Q"]
    falling = all(
        _TIME[a.name] > _TIME[b.name] and a.number >= _TIME[a.name] for a, b in zip(times, times[1:], strict=False)
    )
    parted = any(atom.kind == "," for atom in atoms) and times[0].name not in ("h", "min")
    if not falling or parted:
        return atoms
    return [replace(times[0], number=sum((t.number for t in times), Fraction(0)), text=_text(atoms))]


def _and_a_part(atoms: list[Atom]) -> list[Atom]:
    time = atoms[0]
    if atoms[1].text != "and":
        return atoms
    return [replace(time, number=time.number + atoms[-1].number * _TIME[time.name], text=_text(atoms))]


def _rate(atoms: list[Atom]) -> list[Atom]:
    number, metric = atoms
    if not metric.spelled:
        return atoms
    scale = metric.number or Fraction(1)
    return [Atom(kind="R", number=number.number * scale, name=metric.name, text=_text(atoms))]


def _at_least_double(atoms: list[Atom]) -> list[Atom]:
    """Read "at least double" as "double": a target is always a bound."""
    fits = atoms[-1].name in SET_VERBS and _plain(atoms[0].name) == "at_least"
    return [replace(atoms[-1], text=_text(atoms))] if fits else atoms


def _percentile(atoms: list[Atom]) -> list[Atom]:
    number = _pick(atoms, "N")
    return [Atom(kind="S", name=f"p{float(number.number):g}" if number else "p?", text=_text(atoms))]


def _closed_load(atoms: list[Atom]) -> list[Atom]:
    number = _pick(atoms, "N")
    return [Atom(kind="1", name="closed", number=number.number if number else Fraction(0), text=_text(atoms))]


def _poisson_load(atoms: list[Atom]) -> list[Atom]:
    rate = _pick(atoms, "R")
    marked = _pick(atoms, "K")
    cmp = _pick(atoms, "C")
    arrivals = _pick(atoms, "a") is not None
    names = ("requests_per_s", "per_s") if arrivals else ("requests_per_s",)
    if rate is None or rate.name not in names or (marked is not None and marked.name != "with"):
        return atoms
    if cmp is not None and cmp.text != "under":
        return atoms
    return [Atom(kind="1", name="poisson", number=rate.number, text=_text(atoms))]


def _budget(atoms: list[Atom]) -> list[Atom]:
    time, cmp = _pick(atoms, "Q"), _pick(atoms, "C")
    if time is None or (cmp and _plain(cmp.name) != "at_most"):
        return atoms
    return [Atom(kind="2", number=time.number, name=time.name, text=_text(atoms))]


def _lone_time(atoms: list[Atom]) -> list[Atom]:
    """A time that stands alone between separators ("…, 20 minutes") is a budget; seconds stay as they are."""
    time = _pick(atoms, "Q")
    return _budget(atoms) if time is not None and time.name in ("min", "h", "m") else atoms


def _within(atoms: list[Atom]) -> list[Atom]:
    time, cmp = _pick(atoms, "Q"), _pick(atoms, "C")
    if time is None or (cmp and _plain(cmp.name) != "at_most"):
        return atoms
    prep = "within" if cmp else atoms[0].name
    return [Atom(kind="5", number=time.number, name=time.name, prep=prep, text=_text(atoms))]


def _plain(cmp: str) -> str:
    return _PLAIN_CMP.get(cmp, cmp)


def _negated(atoms: list[Atom]) -> list[Atom]:
    """A limit such as "without TTFT going above 500 ms"; left as it is when verb and comparator disagree."""
    cmp = atoms[-1]
    verb = _pick(atoms, "V")
    fits = verb is None or {"up": "over", "more": "over", "down": "under", "less": "under"}.get(verb.name) == cmp.name
    if cmp.name not in _INVERSE or not fits:
        return atoms
    kept = [atom for atom in atoms if atom.kind in "MS"]
    marker = [Atom(kind="K", name="without", text=atoms[0].text)] if atoms[0].text in ("without", "never") else []
    return [*marker, *kept, Atom(kind="C", name=_INVERSE[cmp.name], text=_text(atoms))]


def _postfix(atoms: list[Atom]) -> list[Atom]:
    """Read "10 s at most" as "at most 10 s"."""
    return [replace(atoms[0], kind="h")] if atoms[0].name in ("at_most", "at_least") else atoms


def _under_rate(atoms: list[Atom]) -> list[Atom]:
    """Read "under 5 requests per second" as a load, unless the metric is itself a rate."""
    metric, cmp, rate = _pick(atoms, "M"), atoms[-2], atoms[-1]
    bounds = metric is not None and metric.name in ("requests_per_s", "goodput_per_s", "plain")
    if cmp.text != "under" or rate.name != "requests_per_s" or bounds:
        return atoms
    return [*atoms[:-2], Atom(kind="1", name="poisson", number=rate.number, text=_text(atoms[-2:]))]


def _max(atoms: list[Atom]) -> list[Atom]:
    return [Atom(kind="V", name="up", text=_text(atoms))]


def _limit_word(atoms: list[Atom]) -> list[Atom]:
    kept = [atom for atom in atoms if atom.kind in "MS"]
    text = _text([atom for atom in atoms if atom.kind not in "MS"])
    return [Atom(kind="K", name="limit", text=text), *kept, Atom(kind="C", name="at_most")]


def _with_stat(atoms: list[Atom]) -> list[Atom]:
    metric, stat = _pick(atoms, "M7"), _pick(atoms, "S")
    if metric is None or stat is None or metric.stat:
        return atoms
    return [replace(metric, stat=stat.name, text=_text(atoms))]


def _change(atoms: list[Atom]) -> list[Atom]:
    """A relative target.

    `name`: pct, mult, part (by a third), ratio (to a third) or share (a third of); `prep`: sense; `cmp`: bound.
    """
    amount = _pick(atoms, "PXFN")
    if amount is None or any(atom.kind == "I" and atom.name == "within" for atom in atoms):
        return atoms
    sense, cmp = _pick(atoms, "V"), _pick(atoms, "C")
    kinds = {atom.kind for atom in atoms}
    name = {"P": "pct", "X": "mult", "F": "part", "N": "mult"}[amount.kind]
    number = amount.number / 100 if amount.kind == "P" else amount.number
    by_or_sense = "y" in kinds or "+" in kinds or sense is not None
    if not by_or_sense and kinds & set("tIY"):
        name = "ratio"
    elif not by_or_sense and (amount.kind == "F" or {"P", "k"} <= kinds):
        name = "share"
    return [
        Atom(
            kind="6",
            name=name,
            number=number,
            prep=sense.name if sense else ("more" if "+" in kinds else ""),
            cmp=_plain(cmp.name) if cmp else "",
            spelled="~" in kinds,
            text=_text(atoms),
        )
    ]


def _not_beyond(atoms: list[Atom]) -> list[Atom]:
    """Read "without raising TTFT by more than" as "TTFT within"; left as it is where the comparator does not fit."""
    verb, cmp = _pick(atoms, "V"), atoms[-1]
    if cmp.name != "over" or verb is None:
        return atoms
    kept = [atom for atom in atoms if atom.kind in "MS"]
    marker = Atom(kind="K", name="without", text=atoms[0].text)
    return [marker, *kept, Atom(kind="I", name="within", prep=verb.name, text=_text([verb, atoms[-2], cmp]))]


def _allowance(atoms: list[Atom]) -> list[Atom]:
    """A constraint against what it was before: "within 5 %". `prep`: the way it must not go, where that was said."""
    within, share = atoms[0], _pick(atoms, "P")
    if within.name != "within" or share is None:
        return atoms
    number = share.number / 100
    return [Atom(kind="7", name="rel", number=number, cmp="within", prep=within.prep, text=_text(atoms))]


def _bound(atoms: list[Atom]) -> list[Atom]:
    """A level: comparator (may be empty), preposition, number and its dimension (`name`: Q, G, N or a metric)."""
    amounts = [atom for atom in atoms if atom.kind in "QGRN"]
    amount = amounts[-1]
    cmp, after = _pick(atoms, "C"), _pick(atoms, "h")
    if cmp and after and _plain(cmp.name) != after.name:
        return atoms
    preps = [atom.kind for atom in atoms if atom.kind in "tfym=I"]
    prep = "t" if "t" in preps else "".join(preps[:1])
    within = any(atom.kind == "I" and atom.name for atom in atoms)
    word = _plain(cmp.name) if cmp else after.name if after else "at_most" if within else ""
    dim = amount.name if amount.kind == "R" else amount.kind
    start = amounts[0].number if len(amounts) > 1 else Fraction(0)
    if amounts[0].kind == "N":
        start *= (_TIME | _BYTES).get(amount.name, Fraction(1))
    return [
        Atom(
            kind="7",
            name=dim,
            number=amount.number,
            cmp=word,
            prep=prep,
            spelled=amount.name == "m",
            since=start,
            text=_text(atoms),
        )
    ]


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Make], ...]:
    return tuple((re.compile(pattern), make) for pattern, make in _RULES)


_ANSWERS = _as("3")
_RULES: tuple[tuple[str, Make], ...] = (
    # quantities (articles are still there)
    (r"N#r|rN", _percentile),
    (r"zN", _money),
    (r"[N]z|Ff?i?z|i(?=z)z", _quantity),
    (r"Q,i?F(?!i?f?i?[MSzV])", _and_a_part),
    (r"Q(?:,?Q)+", _sum_times),
    (r"NM", _rate),
    (r"i", _drop),
    (r"z(?=N)N", lambda a: [Atom(kind="X", number=a[1].number, text=_text(a))] if a[0].name == "x" else a),
    (r"Gf?e", _disk),
    # comparators
    (r"H(?=f?~?[QGRPNX8])", lambda a: [Atom(kind="C", name="at_most", text=_text(a))]),
    (r"(?<=[QGR8])H", lambda a: [Atom(kind="h", name="at_most", text=_text(a))]),
    (r"H", _max),
    (r"(?<=[QGR8])C(?=,|$)", _postfix),
    (r"![gVDE]*(?:S?f?M@?S?)[gVDt]*C|!K?[gVDET]*C", _negated),
    # answers, scope
    (r"![gE]*V[gE]*S?f?M@?S?[gE]*yC(?=~?P)", _not_beyond),
    (r"I~?P(?:f?k)?", _allowance),
    (r"!W[Itf]?A|!AW|A!W|!WA", _ANSWERS),
    (r"UA(?:sk|k|s(?=,|$))?|A[KEst]{0,3}U(?:t?A?k|sk)?|vA|Av|As?k(?=,|$)|As(?=,|$)", _ANSWERS),
    (r"!Wt?d|!dW?|d!W|dW?!w", _as("4", "parameters")),
    (r"(?<!!)Wt?d(?!W?w)", _as("4", "code")),
    (r"y?(?:W?Jp|JWp|pJ|WpJ)", _as("4", "parameters")),
    (r"dW?w|wW?[tf]?d|wdW?|wW[tf]d", _as("4", "code")),
    # load
    (r"a?[=f]?Nc[uq]?c?|a?[=f]?N[uq]c|a?[=f]?Nu|o[f=@]?N|No|c[uq][=f]?N", _closed_load),
    (r"[@K]a?f?R(?:f?a)*|C?q?a+[f=@]?R(?:f?a)*|C?R(?:f?a)+", _poisson_load),
    (r"(?:Mf?@?S?)?CR", _under_rate),
    (r"C(?=1)", lambda a: [] if a[0].text == "under" else a),
    # budget
    (r"I?B[f=t]?C?Qh?|[CK]?QB|(?<![MS])TC?Qh?", _budget),
    (r"(?:^|,)C?Qh?(?=,|$)", _lone_time),
    (r"IC?Qh?", _within),
    # ceilings beside time
    (r"I?B[f=t]?C?8h?|[CK]?8B|[KTI]+C8h?|[KTI]+8h|[TI]8|C8h?|8h", _ceiling),
    (r"(?<=[259]),C?8h?", _next_ceiling),
    # a limit as a noun or verb
    (r"S?f?M@?S?l[f@=t]?(?=[QGR])", _limit_word),
    (r"l[ft]?S?f?M@?S?[t@]?(?=[QGR])", _limit_word),
    (r"l[ft@]?(?=G)", _limit_word),
    # relative targets
    (r"[fty]?C?~?[PXF]Vk?", _change),
    (r"yC?~?[PFX]|yC?jf?N|yj[XF]", _change),
    (r"tC?~?[PFX](?:f?k)?|IF(?![zQ])", _change),
    (r"C?~?[XF]Y(?:s?k)?|\+P", _change),
    (r"C?~?Pfk|fC?~?[PX]|C?~?X(?:f?k)?|C?~?P|C?~?Ff?k?|jf?N", _change),
    (r"CV", _at_least_double),
    # levels
    (r"m(?:k)?[QGRN]t?C?~?[QGRN](?:h)?|[tfy=I]?[=]?C?~?[QGR](?:h)?|[tf=]?C~?N(?:h)?|t~?N", _bound),
    # percentiles
    (r"Sf?M|M,?@?S(?!f?M),?", _with_stat),
    (r"7,?@?S(?!f?M)", _with_stat),
    # connecting words that have done their work
    (r"@(?=M)", _as("K")),
    (r"[CI]Z", _as("Z")),
)
