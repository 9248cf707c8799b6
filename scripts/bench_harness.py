"""`make bench-harness`: what the harness itself costs, beside what it measures.

    python scripts/bench_harness.py [RUN_DIR] [--repeats 7] [--events 10000]

Prints the cost of storing an event, not flushed and flushed, of folding and of reopening a long ledger, and the share
of a run's wall time that went neither into launches (their probes included) nor into waiting for a language model. The
run is RUN_DIR, or a short one on the simulated engine that is made for the purpose. Each figure is a median over
repeats with their range. The last line is one JSON document:

    python scripts/bench_harness.py | tail -1 | python -m json.tool

Exit code 1 when a goal is missed: 0.1 ms for an event that is not flushed, 2 % of a run.
Covered: this machine and its disk now, neighbours included. Not covered: the memory a long ledger takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "ledger")]

from ledger_samples import launch, launch_ended, note, observation, started  # noqa: E402
from simulated.stacks import stack_file  # noqa: E402

from infra_agent.ledger import kinds as k  # noqa: E402
from infra_agent.ledger.chain import read_chain  # noqa: E402
from infra_agent.ledger.clock import session_clock  # noqa: E402
from infra_agent.ledger.fold import fold  # noqa: E402
from infra_agent.ledger.state import RunState, Stamped  # noqa: E402
from infra_agent.ledger.store import Ledger  # noqa: E402

APPEND_GOAL_MS = 0.1
OVERHEAD_GOAL = 0.02
UNSYNCED, SYNCED = 400, 40
TRIES = 3
"""On a busy machine a window may be refused, and a run without a baseline has no share to tell."""
EVENT_BYTES = 2000
GOAL = "at 4 concurrent requests, double the output tokens per second within 10 minutes"
NOT_WAITING = ("action_begun", "budget_reserved")
"""Intents that span the harness's own work; the others are carried out by an engine or a model."""


class Spread(NamedTuple):
    """A figure: its median over repeats, the lowest and the highest."""

    median: float
    low: float
    high: float

    def words(self, unit: str, scale: float = 1.0) -> str:
        """For people."""
        return f"{self.median * scale:.3g} {unit} [{self.low * scale:.3g}, {self.high * scale:.3g}]"


def main() -> int:
    """Measure, print, and say whether the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", nargs="?", type=Path, help="directory of a finished run; default: a simulated one")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--events", type=int, default=10_000, help="length of the ledger that is folded and reopened")
    options = parser.parse_args()
    append = repeated(options.repeats, lambda: append_s(synced=False))
    flushed = repeated(options.repeats, lambda: append_s(synced=True))
    print(f"append, not flushed  {append.words('ms', 1e3)} for {EVENT_BYTES} bytes; goal below {APPEND_GOAL_MS} ms")
    print(f"append, flushed      {flushed.words('ms', 1e3)}")
    reopened, folded = long_ledger(options.events, max(1, options.repeats // 2))
    print(f"reopen {options.events} events  {reopened.words('s')}")
    print(f"fold {options.events} events    {folded.words('s')}")
    share, wall_s = overhead_of(options.run)
    source = options.run or "a simulated run"
    print(f"harness's own share  {share:.2%} of {wall_s:.1f} s in {source}; goal below {OVERHEAD_GOAL:.0%}")
    met = append.median * 1e3 < APPEND_GOAL_MS and share < OVERHEAD_GOAL
    document = {
        "append_ms": _ms(append), "append_synced_ms": _ms(flushed), "events": options.events,
        "reopen_s": reopened._asdict(), "fold_s": folded._asdict(), "overhead_share": share, "run_wall_s": wall_s,
        "run": str(source), "repeats": options.repeats, "goals_met": met,
    }  # fmt: skip
    print(json.dumps(document, separators=(",", ":")))
    return 0 if met else 1


def repeated(count: int, measure: Callable[[], float]) -> Spread:
    """Median and range over repeats."""
    return spread([measure() for _ in range(count)])


def spread(values: Sequence[float]) -> Spread:
    """Median and range of these."""
    return Spread(statistics.median(values), min(values), max(values))


def append_s(*, synced: bool) -> float:
    """Median seconds of one append to a young ledger, reading the clock, hashing and folding included."""
    count = SYNCED if synced else UNSYNCED
    events: list[k.EventData] = [launch(f"L{i}") if synced else note("x" * EVENT_BYTES) for i in range(count)]
    costs = []
    with (
        tempfile.TemporaryDirectory(dir=ROOT) as folder,
        Ledger.create(Path(folder) / "run", session_clock()) as ledger,
    ):
        ledger.append(started())
        for data in events:
            begun = time.perf_counter()
            ledger.append(data)
            costs.append(time.perf_counter() - begun)
    return statistics.median(costs)


def long_ledger(events: int, repeats: int) -> tuple[Spread, Spread]:
    """Seconds to reopen a ledger of so many events, every hash checked, and to fold its events alone."""
    reopen, again = [], []
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        with Ledger.create(Path(folder) / "run", session_clock()) as ledger:
            for data in long_story(events):
                ledger.append(data)
        for _ in range(repeats):
            begun = time.perf_counter()
            with Ledger.open(Path(folder) / "run", session_clock()) as ledger:
                reopen.append(time.perf_counter() - begun)
                stored = ledger.events
            begun = time.perf_counter()
            fold(stored)
            again.append(time.perf_counter() - begun)
    return spread(reopen), spread(again)


def long_story(events: int) -> Iterator[k.EventData]:
    """Launches with their observations, as a long run has them; flushes left out."""
    yield started()
    for number in range((events - 1) // 4 + 1):
        kept = [
            launch(f"L{number}"),
            observation(f"O{2 * number}", **window(number)),
            observation(f"O{2 * number + 1}", **window(number)),
            launch_ended(f"L{number}"),
        ]
        yield from kept[: min(4, events - 1 - 4 * number)]


def window(number: int) -> dict[str, Any]:
    """An observation as large as that of a load window."""
    quantities = [
        {"name": f"q{i}", "value": 25.0 + number / 7 + i, "unit": "s", "low": 0.5, "high": None, "n": 12}
        for i in range(12)
    ]
    checks = [
        {"name": f"check {i}", "ok": True, "measured": "12 of 12 answers", "limit": "every answer"} for i in range(8)
    ]
    return {"probe": "load", "verdict": "pass", "quantities": quantities, "checks": checks, "detail": {"seed": number}}


def overhead_of(run_dir: Path | None) -> tuple[float, float]:
    """The harness's own share of a run, and the run's wall time in seconds."""
    if run_dir is not None:
        return overhead(fold(read_chain(run_dir).events))
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        return overhead(fold(read_chain(simulated_run(Path(folder))).events))


def simulated_run(folder: Path) -> Path:
    """A whole run on the simulated engine, with tokens as slow as those of a small model on a CPU."""
    stack = stack_file(folder, {"continuous_batching": [True]}, {"FAKE_GAP_S": "0.02"})
    command = [sys.executable, "-m", "infra_agent", "run", "--stack", str(stack), "--goal", GOAL, "--seed", "4"]
    for _ in range(TRIES):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        runs = sorted((folder / "runs").glob("*/events.jsonl"))
        if done.returncode in (0, 1) and runs:
            return runs[-1].parent
    sys.exit(f"the simulated run ended with {done.returncode} every time: {done.stderr}")


def overhead(state: RunState) -> tuple[float, float]:
    """Share of the sessions' wall time outside all waiting, and that wall time."""
    wall_s = waited_s = 0.0
    for session in sessions(state):
        begin, end = _time(session[0]), _time(session[-1])
        wall_s += end - begin
        waited_s += sum(stop - start for start, stop in merged(waits(session, end)))
    return (1 - waited_s / wall_s if wall_s > 0 else 0.0), wall_s


def sessions(state: RunState) -> list[list[Stamped]]:
    """Events by session: pauses between them are nobody's time."""
    found: list[list[Stamped]] = [[]]
    for at in state.events:
        if isinstance(at.data, k.RunResumed | k.Recovered) and found[-1]:
            found.append([])
        found[-1].append(at)
    return found


def waits(session: Sequence[Stamped], end: float) -> Iterator[tuple[float, float]]:
    """From each intent that something else carries out, an engine or a model, to its end."""
    for index, at in enumerate(session):
        if at.data.ended_by and at.data.kind not in NOT_WAITING:
            id_ = getattr(at.data, "id", None)
            ends = (
                e for e in session[index:] if e.data.kind in at.data.ended_by and getattr(e.data, "id", None) == id_
            )
            ended = next(ends, None)
            yield _time(at), _time(ended) if ended else end


def merged(intervals: Iterator[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Intervals without overlap."""
    current: tuple[float, float] | None = None
    for start, stop in sorted(intervals):
        if current is not None and start <= current[1]:
            current = current[0], max(current[1], stop)
            continue
        if current is not None:
            yield current
        current = start, stop
    if current is not None:
        yield current


def _time(at: Stamped) -> float:
    return datetime.fromisoformat(at.ts).timestamp()


def _ms(figure: Spread) -> dict[str, float]:
    return {name: value * 1e3 for name, value in figure._asdict().items()}


if __name__ == "__main__":
    sys.exit(main())
