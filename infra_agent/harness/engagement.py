"""Was a change used at all? Judged by what is in effect inside the running engine, before any speed is compared.

Covered: a flag that was accepted and ignored, a value that was in effect already, an effect nobody can see.
Not covered: whether an engaged change does any good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra_agent.changes.change import LaunchChange
from infra_agent.stack.engines.base import Engagement, Parameter
from infra_agent.stack.model import ParameterValue
from probes.base import Against, Cost, Observation, Rung, Verdict, Where

Signals = Mapping[str, float | str | bool]
PROBE = "engagement"
_VARIES_BY_ITSELF = frozenset({"threads.count", "process.pid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """One change: is it engaged, what was seen, and why not."""

    change: LaunchChange
    flag: str
    engaged: bool
    reason: str
    signal: str = ""


def judge_engagement(
    changes: Sequence[LaunchChange],
    parameters: Sequence[Parameter],
    stock: Signals,
    base: Signals,
    candidate: Signals,
    cost: Cost,
) -> Observation:
    """Pass only if every change is visibly in effect. Without a snapshot of the candidate: inconclusive.

    `base` is what the candidate was built on; where its snapshot is empty, `stock` stands in for it.
    """
    table = {parameter.name: parameter for parameter in parameters}
    reference, name = (base, "base") if base else (stock, "stock")
    if not changes:
        return _observation(Verdict.PASS, "nothing was changed", (), name, cost)
    if not candidate:
        return _observation(Verdict.INCONCLUSIVE, "the running engine cannot tell what is in effect", (), name, cost)
    findings = tuple(_judge(change, table.get(change.parameter), reference, candidate) for change in changes)
    failed = [finding for finding in findings if not finding.engaged]
    if failed:
        text = "; ".join(f"{finding.flag} was accepted, but {finding.reason}" for finding in failed)
        return _observation(Verdict.FAIL, f"not engaged: {text}", findings, name, cost)
    text = "; ".join(f"{finding.flag}: {finding.reason}" for finding in findings)
    return _observation(Verdict.PASS, f"engaged: {text}", findings, name, cost)


def _judge(change: LaunchChange, parameter: Parameter | None, reference: Signals, candidate: Signals) -> _Finding:
    flag = parameter.flag.removeprefix("env:") if parameter else change.parameter
    engagement = parameter.engagement if parameter else None
    if engagement is None:
        engaged, reason = _by_difference(reference, candidate)
        return _Finding(change=change, flag=flag, engaged=engaged, reason=reason)
    engaged, reason = _by_signal(engagement, change.value, reference, candidate)
    return _Finding(change=change, flag=flag, engaged=engaged, reason=reason, signal=engagement.signal)


def _by_signal(
    engagement: Engagement, value: ParameterValue, reference: Signals, candidate: Signals
) -> tuple[bool, str]:
    signal = engagement.signal
    expected = _expected(engagement, value)
    if signal not in candidate:
        return False, f"cannot see it in the running engine ({signal} is absent)"
    seen = candidate[signal]
    if not _same(seen, expected):
        return False, f"{signal} is {_text(seen)}, not {_text(expected)}"
    if signal in reference and _same(reference[signal], expected):
        return False, f"no effect: already {_text(expected)} on the base ({signal})"
    before = f"{_text(reference[signal])} → " if signal in reference else ""
    return True, f"{signal} {before}{_text(seen)}"


def _by_difference(reference: Signals, candidate: Signals) -> tuple[bool, str]:
    """Without a signal of its own a change shows only as some difference to the base."""
    if not reference:
        return False, "there is no snapshot of the base to compare with"
    names = sorted((reference.keys() | candidate.keys()) - _VARIES_BY_ITSELF)
    different = [
        name
        for name in names
        if (name in reference) != (name in candidate) or not _same(reference[name], candidate[name])
    ]
    if not different:
        return False, "nothing in the running engine differs from the base"
    return True, f"{', '.join(different[:4])} differs from the base"


def _expected(engagement: Engagement, value: ParameterValue) -> float | str | bool:
    for key in (_text(value), str(value)):
        if key in engagement.expect:
            return engagement.expect[key]
    return value


def _same(one: float | str | bool, other: float | str | bool) -> bool:
    """Equal as text, or as numbers where both are numbers (64 and 64.0)."""
    if isinstance(one, bool) or isinstance(other, bool) or isinstance(one, str) or isinstance(other, str):
        return _text(one) == _text(other)
    return float(one) == float(other)


def _text(value: float | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _observation(
    verdict: Verdict, summary: str, findings: tuple[_Finding, ...], reference: str, cost: Cost
) -> Observation:
    names = [finding.change.parameter for finding in findings]
    where = Where(parameter=", ".join(names)) if names else Where(whole_system=True)
    return Observation(
        probe=PROBE,
        rung=Rung.STATIC,
        verdict=verdict,
        summary=summary,
        where=where,
        cost=cost,
        against=Against(kind="baseline", name=reference),
        signals={"engaged": verdict is Verdict.PASS},
        detail={
            "changes": [
                {
                    "parameter": finding.change.parameter,
                    "value": finding.change.value,
                    "engaged": finding.engaged,
                    "reason": finding.reason,
                    "signal": finding.signal,
                }
                for finding in findings
            ]
        },
    )
