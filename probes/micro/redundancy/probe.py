"""What the programs of a kernel repeat, as an observation: counted under the interpreter, judged against hardware.

Verdict: `fail` when something is wrong (accesses outside an operand, addresses several programs write), `pass`
otherwise; the redundancy is a finding, not a fault, and is in quantities, signals and the table. `inconclusive` with
the reason when the call cannot be traced. A share of the *binding* resource below `noise` is said to be nothing.
Covered: loads, stores, atomics, transcendentals, divisions, arithmetic, dots. Not covered: what caches give back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from probes.base import Against, Cost, Json, Observation, Quantity, Rung, Verdict, Where
from probes.capacity.roofline.bound import Work, limit
from probes.capacity.roofline.hardware import Hardware, hardware
from probes.kernels.process import KernelProbeError, ask, launched_name

NAME = "micro.redundancy"
WORKER = "probes.micro.redundancy.worker"
HARD = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "divide")
SOFT = ("flop", "reduce")
NOISE = 0.02
WASTEFUL = 0.5
"""Part of the moved sectors that is used, below which an access counts as uncoalesced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One launch: what binds on a device, and how much of it is repeated work."""

    kernel: str
    binding: str
    redundant_share: float
    reuse: Mapping[str, float]
    wrong: tuple[str, ...]
    wasteful: tuple[str, ...]
    table: tuple[str, ...]


def observe(
    python: str,
    call: str,
    kernel: str = "",
    *,
    paths: tuple[str, ...] = (),
    device: str = "H100",
    noise: float = NOISE,
    timeout_s: float = 280.0,
) -> Observation:
    """Count the launches of a call; the answer is about the launch with the largest redundant share."""
    request = {"call": call, "kernel": launched_name(kernel), "paths": list(paths)}
    place = Where(kernel=kernel or call)
    try:
        reply = ask(python, WORKER, request, timeout_s=timeout_s, extra_env={"TRITON_INTERPRET": "1"})
    except KernelProbeError as error:
        return Observation(
            probe=NAME, rung=Rung.MICRO, verdict=Verdict.INCONCLUSIVE, where=place, cost=Cost(wall_s=0.0),
            summary=f"cannot tell: {error.message}", signals={"reason": error.kind},
            detail={"kind": error.kind, "hint": error.hint, "lines": list(error.lines)},
        )  # fmt: skip
    launches = reply["launches"]
    found = [finding(launch, hardware(device)) for launch in launches]
    worst = max(found, key=lambda one: (bool(one.wrong), one.redundant_share))
    wrong = [text for one in found for text in one.wrong]
    return Observation(
        probe=NAME, rung=Rung.MICRO, verdict=Verdict.FAIL if wrong else Verdict.PASS,
        where=Where(kernel=worst.kernel), cost=Cost(wall_s=sum(float(one["wall_s"]) for one in launches)),
        against=Against(kind="limit", name=device), summary=_sentence(worst, wrong, noise),
        quantities=(
            Quantity(name="redundant_share", value=worst.redundant_share, unit="1"),
            Quantity(name="most_reuse", value=max(worst.reuse.values(), default=1.0), unit="1"),
        ),
        signals={
            "binding": worst.binding, "redundant_share": worst.redundant_share, "outside_or_race": bool(wrong),
            "most_reuse": max(worst.reuse.values(), default=1.0), "uncoalesced": bool(worst.wasteful),
        },
        detail={"launches": launches, "table": [line for one in found for line in one.table]},
    )  # fmt: skip


def finding(launch: Mapping[str, Json], device: Hardware) -> Finding:
    """One launch judged against a device."""
    issued = sum(row["issued_bytes"] for row in launch["operands"])
    distinct = sum(row["distinct_bytes"] for row in launch["operands"])
    hard, soft = _sum(launch, HARD), _sum(launch, SOFT)
    matrix = _sum(launch, ("dot flop",))
    work = Work(bytes=issued, transcendentals=hard[0], flop={"fp32": soft[0], "bf16": matrix[0]})
    whole = limit(work, device)
    amounts = {"memory": (issued, distinct), "transcendental": hard, "fp32": soft, "bf16": matrix}
    total, left = amounts[whole.binding]
    return Finding(
        kernel=launch["kernel"], binding=whole.binding, redundant_share=1 - left / total if total else 0.0,
        reuse={row["operand"]: row["reuse"] for row in launch["operands"] if row["direction"] == "load"},
        wrong=tuple(_wrong(launch)), wasteful=tuple(_wasteful(launch)),
        table=tuple(_table(launch, whole.binding)),
    )  # fmt: skip


def _sum(launch: Mapping[str, Json], kinds: tuple[str, ...]) -> tuple[float, float]:
    rows = [row for row in launch["work"] if row["kind"] in kinds]
    return float(sum(row["total"] for row in rows)), float(sum(row["distinct"] for row in rows))


def _wrong(launch: Mapping[str, Json]) -> list[str]:
    outside = [
        f"{row['elements']} elements of {row['operand']} {row['direction']}ed outside it (line {row['line']})"
        for row in launch["outside"]
    ]
    races = [
        f"{row['elements']} elements of {row['operand']} {row['kind']} (lines {', '.join(map(str, row['lines']))})"
        for row in launch["races"]
    ]
    return outside + races


def _wasteful(launch: Mapping[str, Json]) -> list[str]:
    rows = [row for row in launch["access"] if row["efficiency"] < WASTEFUL]
    found = [f"{row['operand']} line {row['line']}: {row['efficiency']:.0%} of the moved sectors used" for row in rows]
    odd = [row for row in launch["access"] if row["misaligned"]]
    return found + [f"{row['operand']} line {row['line']}: starts off a 16-byte boundary" for row in odd]


def _table(launch: Mapping[str, Json], binding: str) -> list[str]:
    lines = [f"{launch['kernel']}  grid {launch['grid']}  {launch['programs']} programs; {binding} binds"]
    for row in launch["operands"]:
        free = ", ".join(f"{name} (x{extent})" for name, extent in row["independent_of"].items())
        lines.append(
            f"  {row['direction']:<7}{row['operand']:<16}{row['issued_bytes']:>12} B  asked x{row['reuse']:.1f}"
            + (f"  independent of {free}" if free else "")
        )
    for row in launch["work"]:
        along = ", ".join(f"{n} along {name}" for name, n in row["along_index"].items() if n)
        repeated = row["total"] - row["distinct"]
        lines.append(f"  {row['kind']:<23}{row['total']:>12}    repeated {repeated}" + (f": {along}" if along else ""))
    return lines + [f"  {text}" for text in (*_wasteful(launch), *_wrong(launch))]


def _sentence(one: Finding, wrong: list[str], noise: float) -> str:
    if wrong:
        return wrong[0]
    if one.redundant_share < noise:
        return f"nothing above the noise floor: {one.redundant_share:.1%} of {one.binding} is repeated work"
    most = 1 / (1 - one.redundant_share)
    return f"{one.redundant_share:.1%} of {one.binding}, which binds, is repeated work: at most x{most:.2f} to gain"
