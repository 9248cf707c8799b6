"""`make case-1`: how the merged state's error grows, which products cause it, and what the patch does about it.

Covered: four arithmetics at 2K, 8K and 32K tokens on 8 ranks, split and unsplit; every float32 product alone and put
back; the verdict for fla-core 0.5.2, 0.6.0 and 0.5.2 with the proposed patch; what the compiler makes of both.
Not covered: GPUs. Kernels run in Triton's interpreter; the arithmetic of sm_90 is emulated.

Exit code 0: 0.5.2 grows, the patched copy and 0.6.0 are clean. 1: anything else. 6: the environment or a worker failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from labs.kda_context_parallel import show
from labs.kda_context_parallel.pool import COMPILE, ROOT, Job, Pool, WorkerFailed
from labs.kda_context_parallel.quantities import (
    LENGTHS,
    Quantities,
    collect,
    document,
    errors_jobs,
    float32_errors,
    judged,
    law,
    narrate,
    sites_jobs,
)
from labs.kda_context_parallel.releases import AFTER, BEFORE, RELEASES, patched
from labs.kda_context_parallel.verdict import growth

from infra_agent.errors import InfraAgentError
from infra_agent.stack.kernels import prepare_kernels

BETWEEN = (4096, 16384)
"""Measured as well, for the fit: three lengths alone leave it one degree of freedom."""
PATCHED = f"{BEFORE.requirement} + patch"
SKILL = ROOT / "skills" / "explicit-dot-precision" / "transform.py"


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare, measure, print."""
    parser = argparse.ArgumentParser(prog="make case-1", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--prepare", action="store_true", help="only build the environment")
    options = parser.parse_args(argv)
    try:
        paths, trees = prepare_kernels(RELEASES, narrate)
        if options.prepare:
            return 0
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kda-") as scratch, Pool(paths.python, narrate) as pool:
            case = run(pool, trees, Path(scratch))
    except (InfraAgentError, WorkerFailed) as error:
        narrate(f"error: {error}")
        return 6
    case["wall_s"] = time.monotonic() - begun
    if options.json:
        json.dump(_json(case), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(show.text(case))
    verdicts = [case["versions"][name].verdict for name in (BEFORE.requirement, AFTER.requirement, PATCHED)]
    return 0 if verdicts == ["grows with context length", "clean", "clean"] else 1


def run(pool: Pool, trees: Mapping[str, Path], scratch: Path) -> dict[str, Any]:
    """Everything that is measured; the patch follows from the culprits, and is measured like the releases."""
    before, after = BEFORE.requirement, AFTER.requirement
    fine = sorted({*LENGTHS, *BETWEEN}, reverse=True)
    coarse = sorted(LENGTHS, reverse=True)
    sites = {n: pool.submit(job) for n, job in sites_jobs(before, trees[before], fine).items()}
    errors = {n: pool.submit(job) for n, job in errors_jobs(before, trees[before], fine).items()}
    newer = {n: pool.submit(job) for n, job in sites_jobs(after, trees[after], coarse).items()}
    compiled = {before: pool.submit(Job(title=f"{before}: compiled", tree=trees[before], module=COMPILE))}

    table = collect(errors)
    float32 = float32_errors(table)
    versions = {before: judged(before, trees[before], collect(sites), float32)}
    diffs = propose(trees[before], versions[before])
    tree = patched(trees[before], diffs, scratch / "patched")
    fixed = {n: pool.submit(job) for n, job in sites_jobs(PATCHED, tree, coarse).items()}
    compiled[PATCHED] = pool.submit(Job(title=f"{PATCHED}: compiled", tree=tree, module=COMPILE))

    versions[after] = judged(after, trees[after], collect(newer), float32)
    versions[PATCHED] = judged(PATCHED, tree, collect(fixed), float32)
    return {
        "errors": {n: table[n]["result"] for n in sorted(table)},
        "growth": {
            arithmetic: growth({n: table[n]["result"][arithmetic]["split"] for n in sorted(table)})
            for arithmetic in table[coarse[0]]["result"]
        },
        "float32": float32,
        "triton": table[coarse[0]]["triton"],
        "versions": versions,
        "diffs": diffs,
        "compiled": {name: future.result() for name, future in compiled.items()},
    }


def propose(tree: Path, found: Quantities) -> list[str]:
    """The skill's diffs for the culprits."""
    sites = [{"file": site.file, "line": site.line, "column": site.column} for site in found.culprits]
    diffs: list[str] = transform().propose(tree, sites)
    return diffs


def transform() -> ModuleType:
    """The skill's transformation, loaded from its file: its directory is no package."""
    spec = importlib.util.spec_from_file_location("explicit_dot_precision", SKILL)
    if spec is None or spec.loader is None:
        raise ImportError(f"{SKILL} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _json(case: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "errors": {str(n): row for n, row in case["errors"].items()},
        "growth": {name: law(found) for name, found in case["growth"].items()},
        "versions": {name: document(found, case["float32"]) for name, found in case["versions"].items()},
        "diffs": case["diffs"],
        "compiled": case["compiled"],
        "wall_s": case["wall_s"],
    }


if __name__ == "__main__":
    sys.exit(main())
