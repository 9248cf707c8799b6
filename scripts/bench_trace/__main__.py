"""`make bench-trace`: a generated trace of 1,000,000 events, parsed and broken down here and by HolisticTraceAnalysis.

Both get the same file, in turns, each run in a process of its own; ratios are taken within a turn. Then two traces are
compared, one of which has a planted slower interval. Exit 1 when a bound is missed or the interval is not named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from probes.base import Observation
from probes.trace.profile.run import profile_against
from scripts.bench_load.peers import Peer, environment_of, python_of, ready
from scripts.bench_trace.generate import Slower, write_trace

EVENTS, ROUNDS = 1_000_000, 5
MOST_S, MOST_BYTES, LEAST_RATIO = 5.0, 1e9, 10.0
RUN_S = 1800
HERE = Path(__file__).resolve().parent
HTA = Peer(
    name="hta", label="HolisticTraceAnalysis", show="holistictraceanalysis", pins=("holistictraceanalysis==0.5.0",)
)
Reading = dict[str, Any]


def main() -> int:
    """Generate, measure, compare, judge."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench_trace")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--no-peer", action="store_true", help="measure this reader alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-trace-") as folder:
        base, slow = Path(folder) / "base.json", Path(folder) / "slow.json"
        say(f"writing two traces of {options.events} events")
        write_trace(base, options.events, seed=1)
        planted = write_trace(slow, options.events, seed=2, slower=Slower())
        version = None if options.no_peer else peer_version()
        rows = [turn(slow, version is not None) for _ in range(options.rounds)]
        print(
            f"file  {slow.stat().st_size / 1e6:.0f} MB, {options.events} events as written, {options.rounds} rounds\n"
        )
        bounds = report(rows, version)
        named = compare(base, slow, planted)
    return 0 if bounds and named else 1


def peer_version() -> str | None:
    """HolisticTraceAnalysis, installed on first use; None with the reason told."""
    try:
        say("preparing HolisticTraceAnalysis in an environment of its own (about 600 MB on first use)")
        return ready(HTA)
    except RuntimeError as error:
        say(f"HolisticTraceAnalysis is not compared: {error}")
        return None


def turn(trace: Path, with_peer: bool) -> tuple[Reading, Reading | None]:
    """One run of each."""
    ours = run([sys.executable, "-m", "scripts.bench_trace.worker_ours", str(trace)], None)
    if not with_peer:
        return ours, None
    return ours, run([str(python_of(HTA)), str(HERE / "worker_hta.py"), str(trace)], environment_of(HTA))


def run(command: list[str], environment: dict[str, str] | None) -> Reading:
    """A worker's JSON, which is the last line it prints."""
    say(" ".join(command[:3]))
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{command[0]}: exit {done.returncode}: {done.stderr[-400:]}")
    found: Reading = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def report(rows: list[tuple[Reading, Reading | None]], version: str | None) -> bool:
    """The table, and whether every bound holds."""
    ours = [row for row, _ in rows]
    print(f"{'':<28}{'read s':>16}{'analyse s':>16}{'together s':>16}{'CPU s':>16}{'peak MB':>10}{'events':>9}")
    line("infra-agent", ours)
    wall_s, peak = statistics.median(row["wall_s"] for row in ours), max(row["peak_bytes"] for row in ours)
    held = wall_s <= MOST_S and peak < MOST_BYTES
    print_bound(held, f"{wall_s:.2f} s (limit {MOST_S:g}), {peak / 1e6:.0f} MB (limit {MOST_BYTES / 1e6:.0f})")
    theirs = [row for _, row in rows if row is not None]
    if version is None or not theirs:
        return held
    line(f"HolisticTraceAnalysis {version}", theirs)
    pairs = [(mine, other) for mine, other in rows if other is not None]
    for name, key in (("wall time", "wall_s"), ("CPU time", "cpu_s"), ("peak memory", "peak_bytes")):
        ratios = sorted(other[key] / mine[key] for mine, other in pairs)
        print(f"ratio of {name:<14}x{statistics.median(ratios):.1f}  [{ratios[0]:.1f}, {ratios[-1]:.1f}]")
    ratio = statistics.median(other["wall_s"] / mine["wall_s"] for mine, other in pairs)
    print_bound(ratio >= LEAST_RATIO, f"x{ratio:.1f} faster (limit x{LEAST_RATIO:g})")
    return held and ratio >= LEAST_RATIO


def line(name: str, rows: list[Reading]) -> None:
    """One tool: median and spread of its runs."""
    cells = "".join(f"{spread([row[key] for row in rows]):>16}" for key in ("read_s", "analyse_s", "wall_s", "cpu_s"))
    print(f"{name:<28}{cells}{max(row['peak_bytes'] for row in rows) / 1e6:>10.0f}{rows[0]['events']:>9}")


def spread(values: list[float]) -> str:
    """Median, and half the range."""
    return f"{statistics.median(values):.2f} ±{(max(values) - min(values)) / 2:.2f}"


def compare(base: Path, slow: Path, planted: tuple[float, float] | None) -> bool:
    """Whether the planted interval and its kernel are named."""
    seen: Observation = profile_against(base, slow)
    print(f"\ntwo traces, compared in {seen.cost.wall_s:.2f} s: {seen.summary}")
    if planted is None or seen.where.interval_s is None:
        print_bound(False, "no interval was named")
        return False
    low, high = seen.where.interval_s
    shared = max(0.0, min(high, planted[1]) - max(low, planted[0]))
    share = shared / max(high - low, planted[1] - planted[0])
    print(f"planted: {planted[0]:.6f} to {planted[1]:.6f} s, {Slower().kernel}, x{Slower().factor:g}")
    named = share > 0.9 and seen.where.kernel == Slower().kernel
    print_bound(named, f"the named interval and the planted one share {share:.1%}")
    return named


def print_bound(held: bool, text: str) -> None:
    """One bound and whether it holds."""
    print(f"{'ok  ' if held else 'FAIL'} {text}")


def say(text: str) -> None:
    """Progress, apart from the results."""
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
