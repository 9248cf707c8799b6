"""The static rung for Triton kernels: trace if a call is given, compile everywhere asked, answer with an observation.

    compilation = compile_kernels(Ask(python=..., kernel="pkg.mod:kernel", architectures=("sm_90",), cache=dir))

Covered: traced and assumed signatures, variants (constants and options), a compiler that crashes on one of several.
Not covered: CUDA C++ (`probes.static.cuda_compile`), running anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probes.base import Against, Cost, Json, Observation, Quantity, Rung, Verdict, Where
from probes.kernels.process import KernelProbeError, ask, folders, launched_name
from probes.static.triton_compile.facts import Facts, facts_of
from probes.static.triton_compile.table import lines, row

NAME = "static.triton_compile"
TRACE = "probes.kernels.trace_worker"
WORKER = "probes.static.triton_compile.worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is to be compiled. `call` is MODULE:FUNCTION whose launches are traced; without it `given` and guesses.

    `kernel` with `call` keeps only launches of that kernel. `variants`: [{"set": {...}, "options": {...}}].
    """

    python: str
    cache: Path
    architectures: tuple[str, ...]
    kernel: str = ""
    call: str = ""
    given: Mapping[str, Json] = field(default_factory=dict)
    variants: tuple[Mapping[str, Json], ...] = ()
    paths: tuple[str, ...] = ()
    config: int = 0
    timeout_s: float = 300.0


def compile_kernels(wanted: Ask) -> list[Facts]:
    """Facts for every launch, variant and architecture. Raises KernelProbeError when nothing can be compiled."""
    launches = _launches(wanted)
    request: dict[str, Json] = {
        "architectures": list(wanted.architectures), "cache": str(wanted.cache), "set": dict(wanted.given),
        "variants": [dict(variant) for variant in wanted.variants],
        "paths": [*wanted.paths, *folders(wanted.call, wanted.kernel)],
        "kernel": wanted.kernel, "launches": launches,
    }  # fmt: skip
    try:
        reply = ask(wanted.python, WORKER, request, timeout_s=wanted.timeout_s)
        return [facts_of(compiled) for compiled in reply["compiled"]]
    except KernelProbeError as error:
        if error.kind != "died" or len(wanted.architectures) == 1:
            raise
    # The compiler took the process with it: one architecture at a time tells which.
    return [facts for one in wanted.architectures for facts in _alone(wanted, request, one)]


def observe(wanted: Ask) -> Observation:
    """The same as an observation: `fail` when a kernel does not compile or cannot be launched, else `pass`.

    What cannot be traced or compiled at all is `inconclusive`, with the reason.
    """
    place = Where(kernel=wanted.kernel or wanted.call)
    try:
        found = compile_kernels(wanted)
    except KernelProbeError as error:
        return Observation(
            probe=NAME, rung=Rung.STATIC, verdict=Verdict.INCONCLUSIVE, where=place, cost=Cost(wall_s=0.0),
            summary=f"cannot tell: {error.message}",
            signals={"reason": error.kind}, detail={"kind": error.kind, "hint": error.hint, "lines": list(error.lines)},
        )  # fmt: skip
    return observation_of(found, place)


def observation_of(found: Sequence[Facts], place: Where) -> Observation:
    """Facts as an observation."""
    cost = Cost(wall_s=sum(facts.wall_s for facts in found))
    checks = tuple(check for facts in found for check in facts.checks)
    broken = [check for check in checks if not check.ok]
    detail = {"kernels": [row(facts) for facts in found], "table": lines(found)}
    against = Against(kind="limit", name="architecture limits")
    if broken:
        return Observation(
            probe=NAME, rung=Rung.STATIC, verdict=Verdict.INVALID, where=place, cost=cost, checks=tuple(broken),
            summary=f"the compiler's figures contradict the binary's: {broken[0].measured}", against=against,
        )  # fmt: skip
    bad = [facts for facts in found if facts.failure is not None or facts.violations]
    return Observation(
        probe=NAME, rung=Rung.STATIC, verdict=Verdict.FAIL if bad else Verdict.PASS, where=place, cost=cost,
        summary=_sentence(found, bad), against=against, checks=checks, quantities=tuple(_quantities(found)),
        signals=_signals(found, bad), detail=detail,
    )  # fmt: skip


def _launches(wanted: Ask) -> list[Json]:
    if not wanted.call:
        return []
    request = {"call": wanted.call, "paths": list(wanted.paths), "config": wanted.config}
    reply = ask(wanted.python, TRACE, request, timeout_s=wanted.timeout_s, extra_env={"TRITON_INTERPRET": "1"})
    seen: list[Json] = []
    name = launched_name(wanted.kernel)
    for launch in reply["launches"]:
        same = name in ("", launch["kernel"]) or launch["kernel"].endswith(f":{name}")
        if same and launch not in seen:
            seen.append(launch)
    if not seen:
        names = ", ".join(sorted({launch["kernel"] for launch in reply["launches"]}))
        raise KernelProbeError(
            "not-traceable", f"{wanted.call} does not launch {wanted.kernel}", hint=f"it launches: {names}"
        )
    return seen


def _alone(wanted: Ask, request: Mapping[str, Json], architecture: str) -> list[Facts]:
    try:
        alone = {**request, "architectures": [architecture]}
        reply = ask(wanted.python, WORKER, alone, timeout_s=wanted.timeout_s)
    except KernelProbeError as error:
        if error.kind != "died":
            raise
        entry = {
            "kernel": wanted.kernel or wanted.call, "architecture": architecture, "file": "", "line": 0, "ok": False,
            "stage": "crash", "error": error.message, "lines": list(error.lines), "cached": False, "wall_s": 0.0,
            "directory": "",
        }  # fmt: skip
        return [facts_of(entry)]
    return [facts_of(compiled) for compiled in reply["compiled"]]


def _sentence(found: Sequence[Facts], bad: Sequence[Facts]) -> str:
    if bad:
        first = bad[0]
        why = first.failure.message if first.failure else first.violations[0]
        name = first.kernel.rpartition(":")[2]
        return f"{len(bad)} of {len(found)} compilations fail; {name} on {first.architecture}: {why}"
    guesses = max((len(facts.notes) for facts in found), default=0)
    under = f", under {guesses} stated assumptions" if guesses else ""
    spilling = sum(bool(facts.resources and facts.resources.spill_store_bytes) for facts in found)
    return f"{len(found)} compiled, {spilling} with spills{under}"


def _quantities(found: Sequence[Facts]) -> list[Quantity]:
    if len(found) != 1 or found[0].resources is None:
        return []
    resources, one = found[0].resources, found[0]
    figures = [
        Quantity(name="registers", value=resources.registers, unit="1"),
        Quantity(name="spill_store_bytes", value=resources.spill_store_bytes, unit="B"),
        Quantity(name="spill_load_bytes", value=resources.spill_load_bytes, unit="B"),
        Quantity(name="shared_bytes", value=one.shared_bytes, unit="B"),
    ]
    if one.occupancy is not None:
        figures.append(Quantity(name="occupancy", value=one.occupancy.share, unit="1"))
    return figures


def _signals(found: Sequence[Facts], bad: Sequence[Facts]) -> dict[str, float | str | bool]:
    good = [facts.resources for facts in found if facts.resources is not None]
    return {
        "compiles": not any(facts.failure for facts in bad), "launchable": not bad,
        "spills": any(resources.spill_store_bytes > 0 for resources in good),
        "assumptions": max((len(facts.notes) for facts in found), default=0),
        "most_registers": max((resources.registers for resources in good), default=0),
    }  # fmt: skip
