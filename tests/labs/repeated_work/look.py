"""Probe of the lab: how often the table is walked for one batch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROWS = 8


def main(source: str, seed: str, result: str) -> None:
    sys.path.insert(0, source)
    import rows

    calls, plain = [], rows.weight
    rows.weight = lambda table: calls.append(1) or plain(table)
    rows.process([[1, 2]] * ROWS, [1, 2, 3])
    repeated = len(calls) > 1
    observed = {
        "version": 1,
        "verdict": "fail" if repeated else "pass",
        "summary": f"the table is walked {len(calls)} times for {ROWS} rows",
        "where": {"file": "rows.py", "kernel": "process"},
        "quantities": [{"name": "walks_per_row", "unit": "1", "value": len(calls) / ROWS}],
        "signals": {"repeats_work": repeated},
    }
    Path(result).write_text(json.dumps({"version": 1, "observations": [observed]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
