"""One run: seconds per batch, and whether the result is what plain arithmetic gives."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

ROWS, WIDTH, TABLE, REPEATS = 60, 20, 4000, 5


def main(source: str, seed: str, result: str) -> None:
    sys.path.insert(0, source)
    import rows

    draw = random.Random(int(seed))
    table = [draw.randint(2, 9) for _ in range(TABLE)]
    batch = [[draw.randint(0, 99) for _ in range(WIDTH)] for _ in range(ROWS)]
    samples, right = [], True
    for _ in range(REPEATS):
        started = time.perf_counter()
        found = rows.process(batch, table)
        samples.append(time.perf_counter() - started)
        right = right and found == [[value // max(table) for value in row] for row in batch]
    document = {
        "version": 1,
        "quantities": [{"name": "batch_s", "unit": "s", "samples": samples}],
        "checks": [{"name": "rows", "ok": right, "measured": "equal" if right else "different", "limit": "equal"}],
    }
    Path(result).write_text(json.dumps(document))


if __name__ == "__main__":
    main(*sys.argv[1:])
