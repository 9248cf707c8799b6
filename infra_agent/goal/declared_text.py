"""A goal about a metric that the stack declares, read from its sentence; what is left over goes to the grammar.

Covered: whole sentences that the stack gives; levels ("merge error below 1e-6", "the gap must stay within 5 %" where
the stack says so) and changes ("cut the error by 30 %", "halve", "by a factor of 4"); limits on other declared metrics
after "with" or "keeping". Only these forms are read, each in full: a phrase in any other form is refused.
Not covered: percentiles, loads and answers, which an experiment does not have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from infra_agent.errors import GoalError
from infra_agent.goal.declared import VALUE, DeclaredMetric, MetricSpec
from infra_agent.goal.model import Limit, Statistic, Target

_NUMBER = r"(?<![\w.,+-])(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?!\.?\d|,\d)"
_UNIT = r"(?:\s*([%a-zµμ][\w%/µμ²³^-]*|%))?"
_BELOW = r"below|under|less than|at most|no more than|not more than|not exceed(?:ing)?|<=|≤|<|no higher than|up to"
_ABOVE = r"above|over|more than|at least|no less than|not less than|>=|≥|>|no lower than"
_STAY = r"(?:(?:must|should|shall|has to|have to|is to|to)\s+)?(?:(?:be|stay|remain|is|stays)\s+)?"
_DOWN = r"cut|reduce|lower|decrease|shrink|minimi[sz]e"
_UP = r"raise|increase|improve|lift|maximi[sz]e"
_NEUTRAL = r"keep|get|bring|hold|make|reach|push|have|drive"
_LED = r"(?:,\s*)?\b(?:with|while|keeping|while keeping|and keep|and keeping|and)\s+(?:the\s+)?"
_SCALES = {
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "min": 60.0},
    "B": {"b": 1.0, "bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1024.0, "mib": 2.0**20, "gib": 2.0**30},
    "%": {"%": 1.0, "percent": 1.0},
    "1": {"": 1.0, "x": 1.0, "times": 1.0},
}
Specs = Mapping[str, MetricSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What was read, and the words that are left for the grammar."""

    metric: DeclaredMetric
    target: Target
    limits: tuple[Limit, ...]
    rest: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    end: int
    metric: DeclaredMetric
    target: Target
    words: str


def read_declared(text: str, specs: Specs) -> Declared | None:
    """The goal, or None when the text names no declared metric. GoalError when it does, in a form that is not read."""
    plain = _plain(text)
    if not specs or not any(_occurs(plain, name, spec) for name, spec in specs.items()):
        return None
    objective = _objective(plain, specs)
    rest = f"{plain[: objective.start]} {plain[objective.end :]}"
    limits: list[Limit] = []
    while (limit := next(_limits(rest, specs), None)) is not None:
        limits.append(_limit_of(limit, objective.metric, limits))
        rest = f"{rest[: limit.start]} {rest[limit.end :]}"
    for name, spec in specs.items():
        if any(re.search(_whole(phrase), rest) for phrase in spec.spoken(name)):
            raise _unread(f"'{rest.strip(' ,.;')}' speaks of {name} in a way that is not read", specs)
    note = f"'{objective.words}' read as {_told(objective)}"
    return Declared(
        metric=objective.metric, target=objective.target, limits=tuple(limits), rest=rest.strip(" ,.;!"), notes=(note,)
    )


def _plain(text: str) -> str:
    return " ".join(text.replace("’", "'").replace("\u00a0", " ").split()).casefold()


def _occurs(plain: str, name: str, spec: MetricSpec) -> bool:
    phrases = any(re.search(_whole(phrase), plain) for phrase in spec.spoken(name))
    return phrases or any(re.search(_sentence(each.says), plain) for each in spec.sentences)


def _whole(phrase: str) -> str:
    return rf"(?<![\w]){_spaced(_plain(phrase))}(?!\w)"


def _spaced(phrase: str) -> str:
    return r"\s+".join(re.escape(word) for word in phrase.split())


def _sentence(says: str) -> str:
    head, found, tail = _plain(says).partition(VALUE)
    if not found:
        return _whole(says)
    parts = (_spaced(head), r"\s*" if head.endswith(" ") else "", _NUMBER, r"\s*", _spaced(tail))
    return rf"(?<!\w){''.join(parts)}(?!\w)"


def _objective(plain: str, specs: Specs) -> _Found:
    """The one statement of a target. Whole sentences count first, then the earliest form without a leading "with"."""
    told = sorted(_said(plain, specs), key=lambda found: found.start - found.end)
    forms = told[:1] or [each for each in _forms(plain, specs) if not _is_led(plain, each)]
    if not forms:
        raise _unread("a metric of the stack is named, but no level or change of it that can be read", specs)
    first = min(forms, key=lambda found: (found.start, -found.end))
    others = [f for f in forms if f.metric != first.metric and (f.start >= first.end or f.end <= first.start)]
    if others:
        names = " and ".join(f"'{each.words}'" for each in (first, *others))
        raise _unread(f'two objectives: {names}; mark one with "with" or "keeping"', specs)
    return first


def _said(plain: str, specs: Specs) -> Iterator[_Found]:
    for name, spec in specs.items():
        for sentence in spec.sentences:
            for match in re.finditer(_sentence(sentence.says), plain):
                stated = sentence.at_most if sentence.at_most is not None else sentence.at_least
                value = _number(match[1]) if stated is None else stated
                target = Target(kind="absolute", value=_positive(value, match[0], specs))
                yield _Found(match.start(), match.end(), spec.declared(name), target, match[0])


def _forms(plain: str, specs: Specs) -> Iterator[_Found]:
    for name, spec in specs.items():
        metric = spec.declared(name)
        named = rf"(?:the\s+)?(?:{'|'.join(_spaced(_plain(phrase)) for phrase in spec.spoken(name))})"
        yield from _levels(plain, metric, named, specs)
        yield from _changes(plain, metric, named, specs)


def _levels(plain: str, metric: DeclaredMetric, named: str, specs: Specs) -> Iterator[_Found]:
    down = metric.direction == "minimise"
    verbs = f"{_NEUTRAL}|{_DOWN if down else _UP}"
    compared = rf"(?<!\w)(?:(?:{verbs})\s+)?{named}\s+{_STAY}({_BELOW}|{_ABOVE}|to)\s+{_NUMBER}{_UNIT}"
    for match in re.finditer(compared.replace(r")\s+" + _NUMBER, r")\s*" + _NUMBER), plain):
        words = match[0]
        upper = re.fullmatch(_BELOW, match[1]) is not None
        if match[1] != "to" and upper != down:
            raise _unread(f"contradiction: '{words}' limits {metric.name} from the wrong side", specs)
        end, value = _measured(match, 2, metric, specs)
        yield _Found(match.start(), end, metric, Target(kind="absolute", value=value), plain[match.start() : end])


def _changes(plain: str, metric: DeclaredMetric, named: str, specs: Specs) -> Iterator[_Found]:
    down = metric.direction == "minimise"
    amount = rf"(?:{_NUMBER}\s*(%|percent)|(half)|a factor of\s+{_NUMBER}|{_NUMBER}\s*(?:x|times)(?!\w))"
    for match in re.finditer(rf"(?<!\w)({_DOWN}|{_UP})\s+{named}\s+by\s+{amount}", plain):
        if (re.fullmatch(_DOWN, match[1]) is not None) != down and not match[1].startswith("improve"):
            raise _unread(f"contradiction: '{match[0]}' goes the wrong way for {metric.name}", specs)
        yield _Found(match.start(), match.end(), metric, _ratio(match, metric, specs), match[0])
    for match in re.finditer(rf"(?<!\w)(halve|double)\s+{named}(?!\w)", plain):
        if (match[1] == "halve") != down:
            raise _unread(f"contradiction: '{match[0]}' goes the wrong way for {metric.name}", specs)
        target = Target(kind="ratio", value=0.5 if down else 2.0)
        yield _Found(match.start(), match.end(), metric, target, match[0])


def _ratio(match: re.Match[str], metric: DeclaredMetric, specs: Specs) -> Target:
    down = metric.direction == "minimise"
    factor = match[5] or match[6]
    if factor is not None:
        value = 1 / _number(factor) if down and _number(factor) > 0 else _number(factor)
    else:
        share = 0.5 if match[4] else _number(match[2]) / 100
        value = 1 - share if down else 1 + share
    if not 0 < value < math.inf or (value < 1) != down or value == 1:
        raise _unread(f"number out of range: '{match[0]}' does not improve {metric.name}", specs)
    return Target(kind="ratio", value=value)


def _limits(plain: str, specs: Specs) -> Iterator[_Found]:
    for found in sorted(_forms(plain, specs), key=lambda each: each.start):
        lead = re.search(rf"{_LED}$", plain[: found.start])
        if lead is not None:
            yield _Found(lead.start(), found.end, found.metric, found.target, plain[lead.start() : found.end])


def _is_led(plain: str, found: _Found) -> bool:
    return re.search(rf"{_LED}$", plain[: found.start]) is not None or found.words.startswith("keep ")


def _limit_of(found: _Found, objective: DeclaredMetric, known: list[Limit]) -> Limit:
    if found.metric == objective or any(limit.metric == found.metric for limit in known):
        raise GoalError(f"contradiction: two levels of {found.metric.name}", where="goal")
    bound = "at_most" if found.metric.direction == "minimise" else "at_least"
    return Limit.model_validate(
        {
            "metric": found.metric, "statistic": Statistic.VALUE, "bound": bound,
            "value": found.target.value, "kind": found.target.kind,
        }
    )  # fmt: skip


def _measured(match: re.Match[str], group: int, metric: DeclaredMetric, specs: Specs) -> tuple[int, float]:
    """Where the level ends, and its value in the metric's unit. A number without the unit is not guessed at."""
    number, said = _number(match[group]), match[group + 1] or ""
    scales = _SCALES.get(metric.unit, {metric.unit.casefold(): 1.0})
    if said in scales:
        return match.end(), _positive(number * scales[said], match[0], specs)
    if "" in scales and said not in _ALL_UNITS:
        return match.end(group), _positive(number, match[0], specs)
    want = "no unit" if metric.unit == "1" else metric.unit
    raise _unread(f"the level of {metric.name} in '{match[0]}' needs its unit: {want}", specs)


_ALL_UNITS = frozenset(unit for scales in _SCALES.values() for unit in scales if unit)


def _number(text: str) -> float:
    return float(text)


def _positive(value: float, words: str, specs: Specs) -> float:
    if not 0 < value < math.inf:
        raise _unread(f"number out of range: '{words}' must be above zero", specs)
    return value


def _told(found: _Found) -> str:
    bound = "at most" if found.metric.direction == "minimise" else "at least"
    level = f"x{found.target.value:.4g} of stock" if found.target.kind == "ratio" else None
    return f"{found.metric.name} {bound} {level or found.metric.level(found.target.value)}"


def _unread(problem: str, specs: Specs) -> GoalError:
    name, spec = next(iter(specs.items()))
    metric = spec.declared(name)
    below = "below" if metric.direction == "minimise" else "above"
    unit = "" if metric.unit == "1" else f" {metric.unit}"
    example = spec.sentences[0].says.replace(VALUE, "5") if spec.sentences else f"{metric.label} {below} 5{unit}"
    message = f"the goal is not clear. {problem}. This stack declares {', '.join(specs)}"
    return GoalError(message, where="goal", hint=f"for example: {example}")
