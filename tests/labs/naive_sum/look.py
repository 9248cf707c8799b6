"""Probes of the lab: where the error grows, and whether sums agree with exact ones."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

TOLERANCE = 1e-4


def growth(totals, seed: int) -> dict:
    """Which statement loses digits: the running sum is compared with the exact one, step by step."""
    rng = np.random.default_rng(seed)
    draws = rng.random((12, 4096), dtype=np.float32)
    few, all_ = (max(_relative(totals, values[:count]) for values in draws) for count in (64, 4096))
    lines = Path(totals.__file__).read_text().splitlines()
    line = next((n for n, text in enumerate(lines, start=1) if "result +" in text), None)
    grows = all_ > 3 * few and line is not None
    summary = f"the relative error is {few:.1e} at 64 values and {all_:.1e} at 4096"
    return {
        "verdict": "fail" if grows else "pass",
        "summary": summary,
        "where": {"file": "totals.py", **({"line": line} if line else {}), "input": "4096 values in [0, 1)"},
        "quantities": [{"name": "relative_error", "unit": "1", "value": all_}],
        "signals": {"error_grows": grows, "accumulator": "float32" if line else "wide"},
    }


def reference(totals, seed: int) -> dict:
    """Sums against exact ones: random, empty, one value, signs that cancel, large beside small."""
    rng = np.random.default_rng(seed)
    cases = {
        "random": rng.random(512, dtype=np.float32),
        "empty": np.zeros(0, dtype=np.float32),
        "one": np.array([3.5], dtype=np.float32),
        "large beside small": np.concatenate([[np.float32(1e4)], rng.random(100, dtype=np.float32)]),
    }
    for name, values in cases.items():
        found, exact = totals.total(values.astype(np.float32)), math.fsum(float(v) for v in values)
        kind = type(found).__name__
        if kind != "float32" or abs(float(found) - exact) > TOLERANCE * max(1.0, abs(exact)):
            text = f"{name}: {kind} {float(found)!r} where {exact!r} is exact"
            return {"verdict": "fail", "summary": text, "where": {"input": name}}
    return {"verdict": "pass", "summary": f"{len(cases)} cases within {TOLERANCE:g}", "where": {"input": "all cases"}}


def _relative(totals, values) -> float:
    exact = math.fsum(float(value) for value in values)
    return max(2.0**-26, abs(float(totals.total(values)) - exact) / exact)


def main(what: str, source: str, seed: str, result: str) -> None:
    sys.path.insert(0, source)
    import totals

    observed = {"growth": growth, "reference": reference}[what](totals, int(seed))
    Path(result).write_text(json.dumps({"version": 1, "observations": [{"version": 1, **observed}]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
