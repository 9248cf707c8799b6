"""The study step by step: count, compile, propose, count again, prove equal, predict, measure where a card is.

Each step returns plain data; `__main__` prints it. Every figure comes from a probe; nothing is written down here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.kda_decode.predict import Prediction, Regime, predict, replay
from labs.kda_decode.tree import KERNEL_FILE, apply, copy_upstream, propose

from probes.capacity.roofline.bound import Work
from probes.capacity.roofline.hardware import hardware
from probes.kernels.process import ask
from probes.static.triton_compile.facts import Facts, facts_of
from probes.static.triton_compile.probe import TRACE, WORKER, Ask, compile_kernels

HERE = Path(__file__).resolve().parent
CALLS = str(HERE / "calls.py")
KERNEL = "fused_recurrent_kda_fwd_kernel"
REDUNDANCY = "probes.micro.redundancy.worker"
TILES, WARPS = (32, 64, 128), (1, 4, 8)
DEVICES = ("A100", "H100", "H200", "B200", "MI300X", "Ascend910C")
INTERPRET = {"TRITON_INTERPRET": "1"}
TIMEOUT_S = 280.0
TRANSCENDENTAL = ("exp", "sqrt", "divide", "log", "exp2", "rsqrt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Counts of one version of the kernel."""

    value_tile: int
    launch: Mapping[str, Any]

    def reuse(self, operand: str) -> float:
        """How many programs ask for each byte of an operand."""
        rows = (row for row in self.launch["operands"] if row["operand"] == operand and row["direction"] == "load")
        return float(next(rows)["reuse"])

    def work(self, kind: str) -> Mapping[str, Any]:
        """One kind of operation: total, distinct, lines."""
        return next((row for row in self.launch["work"] if row["kind"] == kind), {"total": 0, "distinct": 0})

    @property
    def shared(self) -> list[Mapping[str, Any]]:
        """Operands that do not depend on the value tile."""
        return [row for row in self.launch["operands"] if row["reuse"] > 1]

    @property
    def issued_bytes(self) -> int:
        """Bytes of all loads and stores."""
        return sum(int(row["issued_bytes"]) for row in self.launch["operands"])


def count(python: str, value_tile: int, paths: tuple[str, ...] = ()) -> Counted:
    """Counts of the version found first on `paths`."""
    request = {"call": f"{CALLS}:decode_one_head", "kernel": KERNEL, "paths": list(paths)}
    reply = ask(python, REDUNDANCY, request, timeout_s=TIMEOUT_S, extra_env=INTERPRET)
    return Counted(value_tile=value_tile, launch=reply["launches"][0])


def compile_all(python: str, cache: Path, architecture: str = "sm_90") -> list[Facts]:
    """The kernel compiled for every value tile and number of warps."""
    variants = tuple({"set": {"BV": tile}, "options": {"num_warps": warps}} for tile in TILES for warps in WARPS)
    wanted = Ask(
        python=python, cache=cache, architectures=(architecture,), call=f"{CALLS}:decode_one_head", kernel=KERNEL,
        variants=variants, timeout_s=TIMEOUT_S,
    )  # fmt: skip
    return compile_kernels(wanted)


def compile_unaligned(python: str, cache: Path) -> list[Facts]:
    """Merged tile, one and eight warps, when the compiler may assume no alignment: narrower loads, another layout."""
    request = {"call": f"{CALLS}:decode_one_head"}
    traced = ask(python, TRACE, request, timeout_s=TIMEOUT_S, extra_env=INTERPRET)["launches"][0]
    arguments = {
        name: one | {"aligned": False} if one["kind"] == "tensor" else one for name, one in traced["arguments"].items()
    }
    request = {
        "launches": [traced | {"arguments": arguments}], "architectures": ["sm_90"], "cache": str(cache), "kernel": "",
        "variants": [
            {"set": {"BV": tile}, "options": {"num_warps": warps}}
            for tile, warps in ((32, 4), *((128, warps) for warps in WARPS))
        ],
    }  # fmt: skip
    return [facts_of(one) for one in ask(python, WORKER, request, timeout_s=TIMEOUT_S)["compiled"]]


def legal_choices(*specialisations: list[Facts]) -> list[dict[str, int]]:
    """What can be launched, with its spills in the worst of the specialisations: the skill's facts."""
    worst: dict[tuple[int, int], int] = {}
    for one in (facts for found in specialisations for facts in found):
        if one.resources is not None and not one.violations:
            key = (int(one.constants["BV"]), one.warps)
            spilled = one.resources.spill_store_bytes + one.resources.spill_load_bytes
            worst[key] = max(worst.get(key, 0), spilled)
    return [{"value_tile": tile, "warps": warps, "spill_bytes": n} for (tile, warps), n in worst.items()]


def merge(python: str, counted: Counted, legal: list[dict[str, int]], into: Path) -> tuple[Path, list[str]]:
    """The changed tree and its diffs; no diff when the facts do not speak for one."""
    tree = copy_upstream(python, into)
    shared = min((float(row["reuse"]) for row in counted.shared), default=1.0)
    facts = {
        "kernel": KERNEL, "reuse": shared, "value_tile": counted.value_tile, "value_dim": 128,
        "legal": legal,
    }  # fmt: skip
    diffs = propose(tree / "fla" / "ops" / "kda", facts)
    rooted = [diff.replace("--- a/", "--- a/fla/ops/kda/").replace("+++ b/", "+++ b/fla/ops/kda/") for diff in diffs]
    apply(tree, rooted)
    return tree, rooted


def prove_equal(python: str, tree: Path, seeds: int) -> list[dict[str, Any]]:
    """Bits of outputs and state of upstream and changed kernel."""
    request = {"changed": str(tree / KERNEL_FILE), "seeds": seeds}
    root = str(HERE.parents[1])
    reply = ask(
        python, "probes.kernels.run_file", {"file": str(HERE / "equality_worker.py"), "request": request,
                                            "paths": [root]},
        timeout_s=TIMEOUT_S, extra_env=INTERPRET,
    )  # fmt: skip
    return list(reply["cases"])


def predictions(counted: Counted, merged: Counted) -> list[Prediction]:
    """Predicted gain of the merge in both regimes on every device of the table."""
    tiles = 128 // counted.value_tile
    plain = plain_regime(counted, merged, tiles)
    return [predict(regime, hardware(name), tiles) for regime in (plain, replay(128, 128)) for name in DEVICES]


def plain_regime(counted: Counted, merged: Counted, tiles: int) -> Regime:
    """The plain regime from counts: what a tile repeats is the difference of both versions over the tiles it adds."""

    def part(more: float, less: float) -> float:
        return (more - less) / (tiles - 1)

    def flops(one: Counted) -> float:
        return float(one.work("flop")["total"] + one.work("reduce")["total"])

    def hard(one: Counted) -> float:
        return float(sum(one.work(kind)["total"] for kind in TRANSCENDENTAL))

    repeated = Work(
        bytes=part(counted.issued_bytes, merged.issued_bytes), flop={"fp32": part(flops(counted), flops(merged))},
        transcendentals=part(hard(counted), hard(merged)),
    )  # fmt: skip
    once = Work(
        bytes=merged.issued_bytes - repeated.bytes, flop={"fp32": flops(merged) - repeated.flop["fp32"]},
        transcendentals=hard(merged) - repeated.transcendentals,
    )  # fmt: skip
    return Regime(name="plain", repeated=repeated, once=once)
