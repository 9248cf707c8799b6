"""Facts about one compiled kernel, put together from the worker's answer and the texts it left in the cache.

Covered: resources, instructions, occupancy, legality; ptxas's figures checked against the binary's own (cuobjdump).
Not covered: how long it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from probes.base import Check, Json
from probes.static.triton_compile import listing
from probes.static.triton_compile.listing import Instructions, Resources
from probes.static.triton_compile.occupancy import Occupancy, illegal, occupancy

RESERVED_SHARED_BYTES = 1024
"""cuobjdump counts what sm_90 and later keep for the system in every block; ptxas does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a kernel does not compile for an architecture: stage, sentence, and the compiler's lines."""

    stage: str
    message: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One kernel, specialised one way, for one architecture. Either `failure` is set or all the figures are."""

    kernel: str
    architecture: str
    file: str
    line: int
    constants: Mapping[str, Json]
    signature: Mapping[str, str]
    options: Mapping[str, Json]
    notes: tuple[str, ...]
    key: str
    cached: bool
    wall_s: float
    directory: str
    failure: Failure | None = None
    resources: Resources | None = None
    instructions: Instructions | None = None
    dots: Mapping[str, int] | None = None
    shared_bytes: int = 0
    warps: int = 0
    stages: int | None = None
    occupancy: Occupancy | None = None
    violations: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()


def facts_of(compiled: Mapping[str, Json]) -> Facts:
    """The facts of one entry of the worker's answer."""
    shared = {
        "kernel": compiled["kernel"], "architecture": compiled["architecture"], "file": compiled["file"],
        "line": int(compiled["line"]), "constants": compiled.get("constants", {}),
        "signature": compiled.get("signature", {}), "options": compiled.get("options", {}),
        "notes": tuple(compiled.get("notes", ())), "key": compiled.get("key", ""), "cached": bool(compiled["cached"]),
        "wall_s": float(compiled["wall_s"]), "directory": compiled["directory"],
    }  # fmt: skip
    if not compiled["ok"]:
        failure = Failure(stage=compiled["stage"], message=compiled["error"], lines=tuple(compiled["lines"]))
        return Facts(failure=failure, **shared)
    place = Path(compiled["directory"])
    nvidia = compiled["architecture"].startswith("sm_")
    listed = _read(place / ("kernel.ptx" if nvidia else "kernel.amdgcn"))
    resources = listing.ptxas_log(_read(place / "ptxas.log")) if nvidia else listing.amd_resources(listed)
    checks = _checks(compiled["architecture"], resources, _read(place / "usage.txt")) if nvidia else ()
    static = resources.static_shared_bytes if resources is not None and nvidia else 0
    shared_bytes = int(compiled["shared_bytes"]) + static
    needs = {
        "registers": resources.registers if resources else 0, "shared_bytes": shared_bytes, "warps": compiled["warps"],
    }  # fmt: skip
    wrong = illegal(
        compiled["architecture"], **needs, grid=compiled.get("grid"), ctas=compiled.get("ctas", 1),
        tensor_memory_columns=compiled.get("tensor_memory_bytes", 0),
    )  # fmt: skip
    return Facts(
        **shared, resources=resources, shared_bytes=shared_bytes, warps=compiled["warps"], stages=compiled["stages"],
        instructions=listing.ptx_instructions(listed) if nvidia else listing.amd_instructions(listed),
        dots=listing.dot_precisions(_read(place / "kernel.ttir")), violations=tuple(wrong), checks=checks,
        occupancy=occupancy(compiled["architecture"], **needs) if resources else None,
    )  # fmt: skip


def _checks(architecture: str, resources: Resources | None, table: str) -> tuple[Check, ...]:
    if resources is None:
        return (Check(name="ptxas log", ok=False, measured="no line with registers", limit="one per kernel"),)
    usage = listing.resource_usage(table)
    if usage is None:
        return ()
    reserved = RESERVED_SHARED_BYTES if int(architecture[3:].rstrip("af")) >= 90 else 0
    mine = (resources.registers, resources.stack_bytes, resources.static_shared_bytes)
    theirs = (usage.registers, usage.stack_bytes, max(usage.shared_bytes - reserved, 0))
    return (
        Check(
            name="ptxas and cuobjdump agree", ok=mine == theirs, limit="registers, stack, static shared memory equal",
            measured=f"ptxas {mine}, cuobjdump {theirs}",
        ),
    )  # fmt: skip


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
