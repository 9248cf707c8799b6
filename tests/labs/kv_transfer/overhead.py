"""What the GIL probe costs the program that it looks at: prefill speed with each signal on, beside the same without.

Windows with and without a signal stand in random order; the ratio comes with its interval. `make bench-probe-overhead`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE)]

from build import BuildError  # noqa: E402
from patching import patched  # noqa: E402
from variants import SOURCE, EngineDied, Settings, Variant, engine  # noqa: E402

from infra_agent.judge.estimate import estimate  # noqa: E402
from probes.static.gil_scan.output import document  # noqa: E402
from probes.static.gil_scan.scan import scan  # noqa: E402
from probes.trace.gil import control, kernel, spy, waits  # noqa: E402

Signal = Callable[[Variant, float], object]
SIGNALS: dict[str, Signal] = {
    "py-spy, 200 a second, native": lambda variant, s: spy.record(variant.process.pid, s),
    "perf uprobes on take_gil": lambda variant, s: waits.record(variant.process.pid, s),
    "heartbeat, 1 ms": lambda variant, s: variant.agent.beat(s),
    "wait channels, 100 a second": lambda variant, s: kernel.watch(variant.process.pid, s),
}
LEAD_S = 0.8
"""A signal is on before its window begins and until after its end."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure on the patched engine, where prefill and transfer really run at once."""
    options = _parser().parse_args(argv)
    settings = Settings(python=options.python, cache=options.cache, compute=options.compute)
    try:
        with tempfile.TemporaryDirectory(prefix="kv-cost-") as folder:
            _, tree = patched(SOURCE.parent, document(scan(SOURCE.parent)), Path(folder) / "patched")
            with engine("patched", tree / SOURCE.name, settings) as variant:
                rows = [measured(variant, name, take, options) for name, take in SIGNALS.items()]
    except (BuildError, EngineDied) as error:
        sys.stderr.write(f"error: {error}\n")
        return 6
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        sys.stdout.write("signal                         slower by   95 % interval      blocks\n")
        for row in rows:
            sys.stdout.write(line_of(row) + "\n")
    return 0


def line_of(row: dict[str, Any]) -> str:
    """One row of the table."""
    if "missing" in row:
        return f"{row['signal']:<30} not measured: {row['missing']}"
    ends = f"[{row['low']:.1%}, {row['high']:.1%}]"
    return f"{row['signal']:<30} {row['cost']:8.1%}   {ends:<18} {row['blocks']}"


def measured(variant: Variant, name: str, take: Signal, options: argparse.Namespace) -> dict[str, Any]:
    """The cost of one signal, from interleaved blocks."""
    make = random.Random(name)
    logs = []
    try:
        take(variant, 1.0)
        for _ in range(options.blocks):
            speed = {}
            for on in make.sample([False, True], 2):
                speed[on] = _window(variant, take if on else None, options.seconds)
            logs.append(math.log(speed[True] / speed[False]))
    except (spy.CannotSpy, waits.CannotTrace, control.AgentGone, ProcessLookupError) as error:
        return {"signal": name, "missing": str(error)}
    found = estimate(logs)
    return {
        "signal": name, "cost": 1 - found.ratio, "low": 1 - found.high, "high": 1 - found.low, "blocks": found.n,
    }  # fmt: skip


def _window(variant: Variant, take: Signal | None, seconds: float) -> float:
    thread = threading.Thread(target=take, args=(variant, seconds + 2 * LEAD_S), daemon=True) if take else None
    if thread is not None:
        thread.start()
        time.sleep(LEAD_S)
    speed = float(variant.ask(seconds=seconds, transfer=True)["tokens_per_s"])
    if thread is not None:
        thread.join()
    return speed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-probe-overhead", description=__doc__)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "kv-lab")
    parser.add_argument("--compute", choices=("torch", "numpy"), default="torch")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
