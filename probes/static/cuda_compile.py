"""The static rung for CUDA C++: every kernel of a file, compiled for NVIDIA architectures with nvcc, the same figures.

Covered: registers, spills, shared memory, instruction counts from PTX, occupancy for a stated block size, the
compiler's error as verdict. Not covered: files that nvcc cannot compile alone (a missing header is a compile
error here); AMD.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from probes.base import Against, Cost, Json, Observation, Rung, Verdict, Where
from probes.static.triton_compile import listing
from probes.static.triton_compile.occupancy import occupancy

NAME = "static.cuda_compile"
TIMEOUT_S = 300.0
THREADS = 256
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for")
_ERROR = re.compile(r"error", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Where nvcc is."""

    nvcc: str

    @classmethod
    def find(cls, which: Callable[[str], str | None] = shutil.which) -> Tools | None:
        """The tools on the path; None when nvcc is missing."""
        found = which("nvcc")
        return cls(nvcc=found) if found else None


def observe_cuda(
    source: Path, architectures: Sequence[str], *, tools: Tools | None = None, threads: int = THREADS
) -> Observation:
    """Facts of every kernel of a .cu file; inconclusive without nvcc or a file."""
    place = Where(file=str(source))
    chosen = tools or Tools.find()
    if not source.is_file():
        return _cannot(place, "no-kernel", f"there is no file {source}", "name a .cu file")
    if chosen is None:
        return _cannot(place, "no-nvcc", "nvcc is not installed", "install the CUDA toolkit (nvcc and ptxas)")
    wanted = [one for one in architectures if one.startswith("sm_")]
    start = time.perf_counter()
    rows = [row for architecture in wanted for row in compile_file(source, architecture, chosen, threads)]
    bad = [row for row in rows if row["verdict"] == "fail"]
    spilling = sum(bool(row.get("spill_store_bytes")) for row in rows)
    summary = (
        f"{len(rows)} compiled, {spilling} with spills" if not bad else f"{bad[0]['architecture']}: {bad[0]['error']}"
    )
    return Observation(
        probe=NAME, rung=Rung.STATIC, verdict=Verdict.FAIL if bad else Verdict.PASS, summary=summary, where=place,
        cost=Cost(wall_s=time.perf_counter() - start), against=Against(kind="limit", name="architecture limits"),
        signals={"compiles": not bad, "spills": spilling > 0}, detail={"kernels": rows, "table": table(rows)},
    )  # fmt: skip


def compile_file(source: Path, architecture: str, tools: Tools, threads: int = THREADS) -> list[dict[str, Json]]:
    """One row per kernel of the file, or one that says why it does not compile."""
    with tempfile.TemporaryDirectory() as scratch:
        ptx = Path(scratch) / "kernel.ptx"
        flags = [f"-arch={architecture}", "--resource-usage", "-lineinfo"]
        done = _run([tools.nvcc, *flags, "-cubin", "-o", str(ptx.with_suffix(".cubin")), str(source)])
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if _ERROR.search(line)] or [done.stderr.strip()]
            return [{"kernel": source.name, "architecture": architecture, "verdict": "fail", "error": said[0],
                     "lines": said[:8]}]  # fmt: skip
        text = _run([tools.nvcc, f"-arch={architecture}", "-ptx", "-o", str(ptx), str(source)])
        listed = ptx.read_text(encoding="utf-8") if text.returncode == 0 else ""
    log = done.stdout + done.stderr
    return [_row(name, architecture, log, listed, threads) for name in _ENTRY.findall(log)]


def table(rows: Sequence[dict[str, Json]]) -> list[str]:
    """The rows for people."""
    lines = [f"{'kernel':<40}{'arch':<9}{'regs':>5}{'spill st/ld B':>15}{'smem B':>8}{'occupancy':>11}"]
    for row in rows:
        if row["verdict"] == "fail":
            lines.append(f"{row['kernel']:<40}{row['architecture']:<9}does not compile: {row['error']}")
            continue
        spills = f"{row['spill_store_bytes']}/{row['spill_load_bytes']}"
        held = f"{row['occupancy']:.0%}" if row["occupancy"] is not None else "?"
        lines.append(
            f"{row['kernel']:<40}{row['architecture']:<9}{row['registers']:>5}{spills:>15}{row['shared_bytes']:>8}{held:>11}"
        )
    return lines


def _row(name: str, architecture: str, log: str, ptx: str, threads: int) -> dict[str, Json]:
    found = listing.ptxas_log(log, name)
    assert found is not None  # the name was read from the same log
    _, _, body = ptx.partition(f".entry {name}")
    counted = listing.ptx_instructions(body.partition(".entry ")[0])
    held = occupancy(
        architecture, registers=found.registers, shared_bytes=found.static_shared_bytes, warps=-(-threads // 32)
    )
    return {
        "kernel": name, "architecture": architecture, "verdict": "pass", "registers": found.registers,
        "spill_store_bytes": found.spill_store_bytes, "spill_load_bytes": found.spill_load_bytes,
        "stack_bytes": found.stack_bytes, "shared_bytes": found.static_shared_bytes, "matrix": counted.matrix,
        "counts": counted.kinds, "loads_bits": {str(bits): n for bits, n in counted.loads_bits.items()},
        "occupancy": held.share if held else None, "threads": threads,
    }  # fmt: skip


def _cannot(place: Where, kind: str, message: str, hint: str) -> Observation:
    return Observation(
        probe=NAME, rung=Rung.STATIC, verdict=Verdict.INCONCLUSIVE, summary=f"cannot tell: {message}", where=place,
        cost=Cost(wall_s=0.0), signals={"reason": kind}, detail={"kind": kind, "hint": hint, "lines": []},
    )  # fmt: skip


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(argv), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
