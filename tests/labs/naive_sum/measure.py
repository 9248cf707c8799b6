"""One run: the relative error of `totals.total` against exact sums, over lengths, and the exponent of its growth."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
DRAWS = 40
T_975 = 2.571  # Student's t with five degrees of freedom
FLOOR = 2.0**-26


def errors(total, seed: int) -> dict[int, float]:
    """Root mean square of the relative error at each length."""
    rng = np.random.default_rng(seed)
    found = {}
    for length in LENGTHS:
        squares = []
        for _ in range(DRAWS):
            values = rng.random(length, dtype=np.float32)
            exact = math.fsum(float(value) for value in values)
            squares.append(((float(total(values)) - exact) / exact) ** 2)
        found[length] = max(FLOOR, math.sqrt(sum(squares) / DRAWS))
    return found


def growth(found: dict[int, float]) -> tuple[float, float, float]:
    """Exponent of the error over length by least squares, with its 95 % interval."""
    x = np.log(np.array(list(found)))
    y = np.log(np.array(list(found.values())))
    slope, intercept = np.polyfit(x, y, 1)
    rest = y - slope * x - intercept
    half = T_975 * math.sqrt(float(rest @ rest) / (len(x) - 2) / float(((x - x.mean()) ** 2).sum()))
    return float(slope), float(slope) - half, float(slope) + half


def main(source: str, seed: str, result: str) -> None:
    sys.path.insert(0, source)
    import totals

    found = errors(totals.total, int(seed))
    slope, low, high = growth(found)
    finite = all(math.isfinite(error) for error in found.values())
    document = {
        "version": 1,
        "quantities": [
            {"name": "error_growth", "unit": "1", "value": slope, "low": low, "high": high},
            {"name": "worst_error", "unit": "1", "value": max(found.values())},
        ],
        "checks": [{"name": "finite sums", "ok": finite, "measured": str(finite), "limit": "all"}],
        "detail": {"error_by_length": {str(length): error for length, error in found.items()}},
    }
    Path(result).write_text(json.dumps(document))


if __name__ == "__main__":
    main(*sys.argv[1:])
