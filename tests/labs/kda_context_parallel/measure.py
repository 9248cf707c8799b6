"""Worker: measures one version of upstream in its own environment. A JSON task on standard input, a JSON result out.

    {"do": "errors", "dtype": "float32", "tokens": 2048, "ranks": 8, "seed": 0}   the merged state's error by arithmetic
    {"do": "sites", "dtype": "bfloat16", ...}                                     what each float32 product causes

Run as `python -m labs.kda_context_parallel.measure` with the version under test first on the path.

Covered: split and unsplit against the exact recurrence; every stage as shipped, exact, and one site at a time.
Not covered: choosing what to run (`case`), and what it means (`verdict`).
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from dataclasses import asdict
from typing import Any

import torch

os.environ["TRITON_INTERPRET"] = "1"

from labs.kda_context_parallel import inputs, upstream
from labs.kda_context_parallel.stages import STAGES, Stage

from probes.numeric.triton.arithmetic import Arithmetic
from probes.numeric.triton.devices import SM_90
from probes.numeric.triton.emulate import emulated
from probes.numeric.triton.memory import LaunchMemory
from probes.numeric.triton.policy import Policy
from probes.numeric.triton.sites import DotLog
from probes.numeric.triton.sweep import Array, error_left, relative_error, sweep

DIM = 64
TABLE = {
    "ieee": Policy(force=Arithmetic.IEEE),
    "tf32x3": Policy(force=Arithmetic.TF32X3),
    "tf32 rounded": Policy(force=Arithmetic.TF32_ROUNDED),
    "tf32 truncated": Policy(force=Arithmetic.TF32_TRUNCATED),
}


def main() -> int:
    """One task, one result."""
    # Both versions warn that there is no GPU; standard output carries the result alone.
    warnings.simplefilter("ignore")
    # Fresh memory is filled with NaN: nothing can rest on what it held, and equal launches have equal bytes.
    torch.use_deterministic_algorithms(True, warn_only=True)
    task = json.load(sys.stdin)
    begun = time.monotonic()
    drawn = inputs.draw(task["tokens"], DIM, task["seed"])
    given = upstream.tensors(inputs.chunked(drawn, task["seed"]), task["dtype"])
    result = {"errors": errors, "sites": sites}[task["do"]](given, task["ranks"])
    import fla
    import triton

    about = {
        "fla": fla.__version__,
        "triton": triton.__version__,
        "wall_s": time.monotonic() - begun,
        "cpu_s": time.process_time(),
    }
    json.dump({"task": task, **about, "result": result}, sys.stdout)
    return 0


def errors(given: upstream.Tensors, ranks: int) -> dict[str, Any]:
    """Every float32 product in the same arithmetic: the split and the unsplit state against the exact one."""
    stage = STAGES["forward"]
    answer = stage.answer(given, ranks)
    found = {}
    for name, policy in TABLE.items():
        with emulated(policy, SM_90):
            split = relative_error(stage.compute(given, ranks), answer)
        with emulated(policy, SM_90):
            whole = relative_error(upstream.unsplit(given, ranks), answer)
        found[name] = {"split": split, "unsplit": whole}
    return found


def sites(given: upstream.Tensors, ranks: int) -> dict[str, Any]:
    """Each stage as it is shipped on sm_90, and each of its sites alone."""
    memory = LaunchMemory()
    return {name: _stage(stage, given, ranks, memory) for name, stage in STAGES.items()}


def _stage(stage: Stage, given: upstream.Tensors, ranks: int, memory: LaunchMemory) -> dict[str, Any]:
    def run(policy: Policy) -> tuple[Array, DotLog]:
        with emulated(policy, SM_90, memory) as log:
            return stage.compute(given, ranks), log

    shipped = SM_90.policy()
    done = sweep(run, shipped)
    answer = stage.answer(given, ranks)
    return {
        "shipped": done.shipped,
        "left": error_left(run, shipped, [effect.site for effect in done.effects], done.exact),
        "against_exact": {
            "shipped": relative_error(done.computed, answer),
            "ieee": relative_error(done.exact, answer),
        },
        "sites": [asdict(effect) for effect in done.effects],
    }


if __name__ == "__main__":
    sys.exit(main())
