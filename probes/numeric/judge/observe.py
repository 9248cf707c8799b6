"""An examination as an observation: verdict, place, figures, and the reasons behind them.

Covered: `pass`, `fail`, `inconclusive` (no held-out sizes), `invalid` (weak oracle); kill rate in every one.
Not covered: printing (`card`).
"""

from __future__ import annotations

import statistics
from dataclasses import asdict
from pathlib import Path

from probes.base import Against, Cost, Json, Observation, Quantity, Rung, Verdict, Where
from probes.numeric.judge.examine import Result
from probes.numeric.judge.faults import Fault, Kind
from probes.numeric.judge.source import Source
from probes.numeric.judge.spec import Spec

PROBE = "numeric"
KEPT_KINDS = frozenset(
    {Kind.VALUE, Kind.NAN, Kind.INFINITY, Kind.SHAPE, Kind.DTYPE, Kind.DEVICE, Kind.TYPE, Kind.COUNT}
    | {Kind.INPUT_CHANGED, Kind.UNWRITTEN, Kind.STATE_CHANGED, Kind.NOT_ENGAGED}
)
"""Faults that the same candidate shows again, whatever else the machine does."""


def observe(result: Result, spec: Spec, source: Source, reference: str, digest: str, runner: str) -> Observation:
    """The observation of one examination."""
    verdict, summary = _verdict(result, spec)
    withheld = verdict is Verdict.INVALID
    return Observation(
        probe=PROBE,
        rung=Rung.NUMERIC,
        verdict=verdict,
        summary=summary,
        where=_where(result.fault, source),
        against=Against(kind="reference", name=reference, digest=digest),
        cost=Cost(wall_s=result.wall_s, launches=1 if result.engaged is None else 3, requests=len(result.calls)),
        quantities=() if withheld else _quantities(result),
        signals=_signals(result),
        detail=_detail(result, spec, runner),
    )


def keepable(observation: Observation) -> bool:
    """Whether the same verdict would come again."""
    fault = str(observation.signals.get("fault", ""))
    return observation.verdict is Verdict.PASS or (
        observation.verdict is Verdict.FAIL and fault in {kind.value for kind in KEPT_KINDS}
    )


def _verdict(result: Result, spec: Spec) -> tuple[Verdict, str]:
    weak = result.weak
    if weak is not None:
        refused = " (it refuses honest outputs)" if weak.refused_honest else ""
        return Verdict.INVALID, f"weak oracle{refused}: under {weak.rule}, {weak.sentence()}"
    if result.fault is not None:
        return Verdict.FAIL, str(result.fault)
    if not result.held_out:
        hint = "give ranges under held_out, or say fixed_sizes = true"
        return Verdict.INCONCLUSIVE, f"right on the sizes it knows; no other size was tried: {hint}"
    worst = result.worst
    return Verdict.PASS, (
        f"right in {result.cases} cases: worst relative error {worst.relative:.1e} where {worst.allowed:.1e} "
        f"is allowed ({spec.precision} promised)"
    )


def _where(fault: Fault | None, source: Source) -> Where:
    file = fault.file if fault is not None and fault.file else (source.file.name if source.file else None)
    line = fault.line if fault is not None and fault.line else None
    return Where(
        file=file, line=line, kernel=source.name or source.command or source.text,
        input=fault.case if fault is not None and fault.case else None,
    )  # fmt: skip


def _quantities(result: Result) -> tuple[Quantity, ...]:
    found = []
    if result.fault is None and result.derivations:
        found.append(Quantity(name="worst_relative_error", value=result.worst.relative, unit="1", n=result.cases))
        found.append(Quantity(name="largest_ulp_error", value=result.worst_ulp, unit="ULP", n=result.cases))
    if result.calls:
        calls = sorted(result.calls)
        middle = statistics.median(calls)
        found.append(Quantity(name="call_s", value=middle, unit="s", low=calls[0], high=calls[-1], n=len(calls)))
        found.append(Quantity(name="round_trip_s", value=result.round_trip_s, unit="s", n=3))
    return tuple(found)


def _signals(result: Result) -> dict[str, float | str | bool]:
    signals: dict[str, float | str | bool] = {"fault": "" if result.fault is None else result.fault.kind.value}
    if result.strengths:
        signals["kill_rate"] = min(each.rate for each in result.strengths)
    if result.engaged is not None:
        signals["engaged"] = result.engaged
    return signals


def _detail(result: Result, spec: Spec, runner: str) -> dict[str, Json]:
    detail: dict[str, Json] = {
        "spec": spec.name,
        "promised": spec.precision,
        "walls": runner,
        "seed": str(result.seed),
        "cases": result.cases,
        "worst": asdict(result.worst),
        "strength": [asdict(each) | {"rate": each.rate} for each in result.strengths],
        "tolerance": [asdict(each) for each in result.derivations],
    }
    if result.fault is not None:
        detail["fault"] = asdict(result.fault) | {"kind": result.fault.kind.value}
    if result.failing is not None:
        trial = result.failing.trial
        names = zip(spec.inputs, trial.inputs, strict=True)
        detail["failing_case"] = {
            "name": trial.name,
            "sizes": dict(trial.sizes),
            "shapes": {tensor.name: list(value.shape) for tensor, value in names},
            "smallest": result.shrunk,
        }
    return detail


def reference_name(path: Path, name: str) -> str:
    """How a reference is called in an observation."""
    return f"{path.name}:{name}"
