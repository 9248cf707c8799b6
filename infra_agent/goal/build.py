"""Statements to a Goal: every check of sense, with all problems collected before anything is refused.

Covered: targets as ratios or levels, directions, units, percentiles, constraints, SLO, load, budget, scope.
Not covered: what the stack can do with the goal.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from infra_agent.goal.allowance import RELATIVE, allowed_ratio
from infra_agent.goal.draft import Draft
from infra_agent.goal.facts import read_facts
from infra_agent.goal.model import (
    HIGHER_IS_BETTER,
    LATENCIES,
    Limit,
    Metric,
    Statistic,
    Target,
)
from infra_agent.goal.phrases import Atom
from infra_agent.goal.statements import CONNECTORS, Sentence, Statement, fits, implied_metric
from infra_agent.goal.targets import TargetProblem, leaves_nothing, ratio_of

_STATS = {stat.value: stat for stat in Statistic if stat is not Statistic.VALUE}
_LATENCY_CHOICES = "TTFT, TPOT, ITL or end-to-end latency"
_VAGUE = {
    "latency": f"'latency' may mean {_LATENCY_CHOICES}",
    "speed": f"'speed' may mean output tokens/s, requests/s, {_LATENCY_CHOICES}",
    "performance": f"'performance' may mean output tokens/s, requests/s, {_LATENCY_CHOICES}",
}


def build(sentence: Sentence) -> Draft:
    """Check everything and collect problems; `problems` is empty exactly when the draft is complete."""
    draft = Draft()
    read_facts(draft, sentence)
    objective, limits = _roles(draft, sentence.statements)
    _objective(draft, objective)
    for statement in limits:
        _limit(draft, statement)
    _slo(draft)
    _left_over(draft, sentence)
    return draft


def _roles(draft: Draft, statements: list[Statement]) -> tuple[Statement | None, list[Statement]]:
    """The one objective, and the constraints."""
    statements = _without_orphans(draft, statements)
    bare = [s for s in statements if not s.marker]
    led = [s for s in statements if s.marker_text in CONNECTORS and not s.inherited]
    asking = [s for s in statements if s.relative and (s in bare or s in led)] or bare
    if len(asking) > 1:
        names = " and ".join(f"'{s.text}'" for s in asking)
        draft.problems.append(f'two objectives: {names}; keep one, make the other a constraint ("with … under …")')
        return None, [s for s in statements if s not in asking]
    objective = asking[0] if asking else None
    return objective, [s for s in statements if s is not objective]


def _without_orphans(draft: Draft, statements: list[Statement]) -> list[Statement]:
    """Drop, as problems, a second target or percentile that has no metric of its own."""
    kept: list[Statement] = []
    for statement in statements:
        alone = statement.metric is None and not implied_metric(statement.target) and not statement.verbs
        if not kept or not alone or (statement.target is None and not statement.stats):
            kept.append(statement)
        elif statement.target is None:
            draft.problems.append(
                f"contradiction: a second percentile ('{statement.text}'); one value has one percentile"
            )
        else:
            time = statement.target.name == "Q"
            advice = f"; a budget is said as 'within {statement.target.text}'" if time else ""
            draft.problems.append(f"contradiction: two targets ('{kept[-1].text}' and '{statement.text}'){advice}")
    return kept


def _objective(draft: Draft, statement: Statement | None) -> None:
    if statement is None:
        if not draft.problems or not any(p.startswith("two objectives") for p in draft.problems):
            draft.problems += [
                "metric missing: say what to improve (output tokens per second, TTFT, memory, …)",
                "target missing: say how much (by 30 %, double, below 400 ms, …)",
            ]
        return
    metric = _metric_of(draft, statement)
    draft.metric = metric
    if metric is not None:
        draft.statistic = _statistic(draft, statement, metric)
    if statement.target is None and not statement.sets:
        draft.problems.append("target missing: say how much (by 30 %, double, at least 100 tok/s, below 400 ms, …)")
        if metric is not None:
            _check_direction(draft, statement, metric)
        return
    if metric is not None:
        _target(draft, statement, metric)
    elif leaves_nothing([verb.name for verb in statement.verbs], statement.target):
        draft.problems.append(f"number out of range: '{statement.text}' would leave nothing")


def _check_direction(draft: Draft, statement: Statement, metric: Metric) -> None:
    wrong = {"up", "more"} if metric not in HIGHER_IS_BETTER else {"down", "less"}
    if any(verb.name in wrong | {"slower"} for verb in statement.verbs):
        draft.problems.append(_opposite(statement, metric))


def _opposite(statement: Statement, metric: Metric) -> str:
    word = "raised" if metric in HIGHER_IS_BETTER else "lowered"
    return f"contradiction: '{statement.text}' goes the wrong way; {metric.value} is to be {word}"


def _metric_of(draft: Draft, statement: Statement) -> Metric | None:
    atom = statement.metric
    if atom is not None and atom.kind == "L":
        draft.problems.append(f"metric ambiguous: {_VAGUE[atom.name]}; name one")
        return None
    target = statement.target
    name = atom.name if atom is not None else implied_metric(target)
    if atom is not None and target is not None and target.kind == "7" and not fits(atom, target):
        draft.problems.append(f"unit mismatch: '{target.text}' is not a value of '{atom.text}'")
        return None
    if target is not None and target.kind == "7" and target.name not in ("Q", "G", "N", "plain", RELATIVE):
        name = name if name not in ("", "plain") else target.name
    if name == "plain":
        words = atom.text if atom is not None else target.text if target else ""
        draft.notes.append(f"'{words}' read as output tokens/s")
        name = Metric.OUTPUT_TOK_PER_S.value
    if not name:
        draft.problems.append("metric missing: say what to improve (output tokens per second, TTFT, memory, …)")
        return None
    if name not in set(Metric):
        rate = target.text if target is not None else name
        draft.problems.append(f"metric missing: '{rate}' does not say of what (output tokens, requests, …)")
        return None
    _metric_notes(draft, atom)
    return Metric(name)


def _metric_notes(draft: Draft, atom: Atom | None) -> None:
    if atom is None or atom.kind != "M":
        return
    words = atom.text
    if atom.name == "e2e_s" and not any(word in words for word in ("e2e", "end")):
        draft.notes.append(f"'{words}' read as end-to-end latency")
    if atom.name == "tpot_s" and "tpot" not in words and "output" not in words:
        draft.notes.append(f"'{words}' read as TPOT")


def _statistic(draft: Draft, statement: Statement, metric: Metric, *, slo: bool = False) -> Statistic | None:
    """The one percentile, p50 by default for latencies; None after a problem."""
    names = statement.stats
    bad = [name for name in names if name not in _STATS]
    if bad:
        draft.problems.append(f"percentile '{bad[0]}' is not measured; use p50, p90, p95, p99 or mean")
        return None
    if len(names) > 1:
        draft.problems.append(f"contradiction: two percentiles for one value ({', '.join(names)})")
        return None
    if metric not in LATENCIES:
        if names:
            draft.problems.append(f"percentile '{names[0]}' has no meaning for {metric.value}, which has one value")
            return None
        return Statistic.VALUE
    if names:
        return _STATS[names[0]]
    if slo:
        return Statistic.VALUE
    draft.notes.append(f"{metric.value.removesuffix('_s').upper()} without a percentile read as p50")
    return Statistic.P50


def _target(draft: Draft, statement: Statement, metric: Metric) -> None:
    higher = metric in HIGHER_IS_BETTER
    target = statement.target
    if target is not None and target.spelled and target.kind == "6":
        draft.notes.append(f"'{target.text}' read as exactly that amount")
    try:
        if target is None or target.kind == "6":
            ratio = ratio_of([verb.name for verb in statement.verbs], target, metric, statement.text)
            draft.notes += ratio.notes
            draft.target = Target(kind="ratio", value=float(ratio.value))
        else:
            value = _level(statement, metric, higher=higher)
            if target.since:
                _check_since(target, higher=higher)
                draft.notes.append("the start value in the text is not used; the baseline is measured")
            draft.target = Target(kind="absolute", value=float(value))
    except TargetProblem as problem:
        draft.problems.append(str(problem))


def _check_since(target: Atom, *, higher: bool) -> None:
    if (target.number > target.since) != higher:
        raise TargetProblem(f"contradiction: '{target.text}' goes the wrong way")


def _level(statement: Statement, metric: Metric, *, higher: bool) -> Fraction:
    """An absolute target's value, after all checks."""
    target = statement.target
    if target is None:
        raise TargetProblem("target missing")
    if target.name == RELATIVE:
        raise TargetProblem(f"target unclear: '{target.text}' is a limit for another metric; say by how much")
    _check_unit(statement, target)
    if statement.sets:
        raise TargetProblem(f"contradiction: '{statement.text}' names two targets")
    if target.prep == "y":
        raise TargetProblem(
            f"target unclear: '{target.text}' is a difference; say a percentage or the value to reach (to at most …)"
        )
    wrong = {"up", "more"} if not higher else {"down", "less", "halve"}
    if any(verb.name in wrong | {"slower"} for verb in statement.verbs):
        raise TargetProblem(_opposite(statement, metric))
    if not target.cmp and target.prep != "t" and not (statement.neutral and not statement.verbs):
        raise TargetProblem(f"target unclear: '{statement.text}'; say 'to', 'at least' or 'at most' before the value")
    if target.cmp and (target.cmp == "at_least") != higher:
        raise TargetProblem(_opposite(statement, metric))
    return target.number


def _check_unit(statement: Statement, target: Atom) -> None:
    if target.name == "N" and not (statement.metric is not None and statement.metric.spelled):
        raise TargetProblem(f"unit missing: '{target.text}' needs a unit (ms, s, tok/s, req/s, GB, %)")
    if target.name == "N" and not (target.cmp or target.prep):
        raise TargetProblem(f"unit missing: the number '{target.text}' stands alone")
    if target.spelled:
        raise TargetProblem(f"unit unclear: '{target.text}' may be minutes or milliseconds; write min or ms")
    if target.number <= 0:
        raise TargetProblem(f"number out of range: '{target.text}' must be above zero")


def _limit(draft: Draft, statement: Statement) -> None:
    """A constraint: another metric held at a level."""
    target = statement.target
    name = statement.text or statement.marker_text
    if statement.relative:
        draft.problems.append(f"constraint unclear: '{name}'; say a level, such as 'with p99 TTFT under 500 ms'")
        return
    if target is None:
        draft.problems.append(f"constraint incomplete: '{name}' names no level (such as 'under 500 ms')")
        return
    metric = _metric_of(draft, statement)
    if metric is None:
        return
    try:
        _check_unit(statement, target)
    except TargetProblem as problem:
        draft.problems.append(str(problem))
        return
    higher = metric in HIGHER_IS_BETTER
    in_slo = statement.marker == "Z"
    if target.name == RELATIVE:
        try:
            ratio = allowed_ratio(target, metric, name, in_slo=statement.marker == "Z")
        except TargetProblem as problem:
            draft.problems.append(str(problem))
            return
        _place_limit(draft, statement, metric, replace(target, number=ratio), in_slo=False)
        return
    cmp = target.cmp or ("at_most" if in_slo and not higher else "")
    if not cmp:
        draft.problems.append(f"constraint unclear: '{name}'; say 'at most' or 'at least'")
        return
    if (cmp == "at_least") != higher:
        draft.problems.append(f"contradiction: '{name}' limits {metric.value} from the wrong side")
        return
    _place_limit(draft, statement, metric, target, in_slo=in_slo)


def _place_limit(draft: Draft, statement: Statement, metric: Metric, target: Atom, *, in_slo: bool) -> None:
    relative = target.name == RELATIVE
    slo_like = draft.metric is Metric.GOODPUT_PER_S and metric in LATENCIES and not relative
    per_request = slo_like and (in_slo or not statement.stats)
    if in_slo and not per_request:
        draft.problems.append("contradiction: an SLO belongs to goodput, and holds latencies of one request")
        return
    if in_slo and statement.stats:
        draft.problems.append(f"percentile '{statement.stats[0]}' in an SLO: an SLO holds for each request by itself")
        return
    stat = _statistic(draft, statement, metric, slo=per_request)
    if stat is None:
        return
    bound = "at_least" if metric in HIGHER_IS_BETTER else "at_most"
    kind = "ratio" if relative else "absolute"
    limit = Limit.model_validate(
        {"metric": metric, "statistic": stat, "bound": bound, "value": float(target.number), "kind": kind}
    )
    place = draft.slo if per_request else draft.limits
    if any(other.metric is limit.metric and other.statistic is limit.statistic for other in place):
        draft.problems.append(f"contradiction: two limits on {metric.value} {stat.value}")
        return
    place.append(limit)


def _slo(draft: Draft) -> None:
    if draft.metric is Metric.GOODPUT_PER_S and not draft.slo:
        draft.problems.append("SLO missing: goodput counts requests that meet an SLO (with TTFT under 500 ms)")


def _left_over(draft: Draft, sentence: Sentence) -> None:
    for atom in sentence.left:
        if atom.kind == "!":
            draft.problems.append(f"negation not understood: '{atom.text}'")
        elif atom.name == "minus":
            draft.problems.append(
                f"number out of range: '{atom.text}…' is negative or a range; say by how much, as one number"
            )
        elif atom.kind == "N":
            draft.problems.append(f"not understood: '{atom.text}' (a unit missing, or a second value)")
        elif atom.name == "bad":
            draft.problems.append(f"number unclear: '{atom.text}'")
        else:
            draft.problems.append(f"not understood: '{atom.text}'")
