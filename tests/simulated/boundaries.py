"""Kills a whole run at every event boundary, resumes it, and compares the two ends: `python -m simulated.boundaries`.

One run is carried out undisturbed; it has K events. Then, for each k, the same run is killed with SIGKILL before event
k is written, with half of its line written, or after it: the moments take turns, and each kind that authorises or pays
(the synced ones) gets all three, at every event of it or, if there are many, at a few spread over the run. Each is
resumed to its end and compared (`sameness`). The last line says how many of the K boundaries came out equal. Time is
exact (`steady`); everything else is real.

Covered: every event of this run. Not covered: a kill between two events is one of "after" and "before".
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Self, TypeVar

import psutil
from simulated.nursery import Nursery
from simulated.sameness import decisions, disorder, figures, repeated
from simulated.stacks import stack_file

from infra_agent.ledger.chain import LEDGER_FILE, read_chain
from infra_agent.ledger.event import Event
from infra_agent.ledger.fold import fold
from infra_agent.ledger.kinds import KINDS
from infra_agent.ledger.state import RunState
from infra_agent.ledger.verify import verify

T = TypeVar("T")
GOAL = "at 4 concurrent requests, double the output tokens per second without changing the answers within 10 minutes"
SPACE = {"continuous_batching": [True], "compile": [True]}
SEED = "4"
"""With it the plain search draws the accepted configuration first, which keeps the run short."""
MOMENTS = ("before", "torn", "after")
MOST_THOROUGH = 4
"""Events of one synced kind that are killed at all three moments."""
SANDBOX, BARE = "sandbox", "no sandbox"
FLAGS = {SANDBOX: (), BARE: ("--no-sandbox",)}
KILLED = -9


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where a run is killed."""

    seq: int
    kind: str
    moment: str
    walls: str

    def __str__(self) -> str:
        return f"event {self.seq} ({self.kind}), {self.moment}, {self.walls}"

    @property
    def name(self) -> str:
        """Of the folder of its run."""
        return f"{self.seq}-{self.moment}"


class Lab:
    """A stack, and command lines run on it in folders of their own, as many at once as there are workers."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.workers = workers
        self.stack = stack_file(folder, SPACE, {"FAKE_GAP_S": "0.0002"})
        self._idle: Queue[Nursery] = Queue()

    def run(self, name: str, *args: str, crash_at: str = "", world: str = "steady") -> int:
        """One command line in the folder `name`; its exit code, minus the signal that killed it."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        environ = {"INFRA_AGENT_CRASH_AT": crash_at, "INFRA_AGENT_RUNS": "runs"}
        nursery = self._idle.get()
        try:
            return nursery.run(list(args), world, folder, environ, folder / "output.txt")
        finally:
            self._idle.put(nursery)

    def begin(self, name: str, walls: str = SANDBOX, crash_at: str = "", world: str = "steady") -> int:
        """A new run."""
        words = ("run", "--stack", str(self.stack), "--goal", GOAL, "--seed", SEED, *FLAGS[walls])
        return self.run(name, *words, crash_at=crash_at, world=world)

    def resume(self, name: str, walls: str = SANDBOX, crash_at: str = "", world: str = "steady") -> int:
        """The newest run of a folder, resumed."""
        return self.run(name, "runs", "resume", "last", *FLAGS[walls], crash_at=crash_at, world=world)

    def run_dir(self, name: str) -> Path:
        """The newest run of a folder."""
        return max((self.folder / name / "runs").iterdir())

    def output(self, name: str) -> str:
        """All that its commands printed."""
        return (self.folder / name / "output.txt").read_text(errors="replace")

    def last_lines(self, name: str) -> str:
        """The end of it, in one line."""
        return " | ".join(self.output(name).splitlines()[-6:])

    def __enter__(self) -> Self:
        for _ in range(self.workers):
            self._idle.put(Nursery())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while not self._idle.empty():
            self._idle.get().close()


def state_of(run_dir: Path) -> RunState:
    """The fold of a run's ledger."""
    return fold(read_chain(run_dir).events)


def plan(events: Sequence[Event]) -> Iterator[Boundary]:
    """Every event, each at one moment by turns or at all three, and the walls by turns too."""
    walls = cycle((BARE, SANDBOX, BARE))
    thorough = set(_thorough(events))
    for event in events:
        moments = MOMENTS if event.seq in thorough else (MOMENTS[event.seq % len(MOMENTS)],)
        yield from (Boundary(event.seq, event.kind, moment, next(walls)) for moment in moments)


def _thorough(events: Sequence[Event]) -> Iterator[int]:
    """Events of synced kinds that are killed at all three moments."""
    for kind in sorted({event.kind for event in events if KINDS[event.kind].synced}):
        yield from sampled([event.seq for event in events if event.kind == kind], MOST_THOROUGH)


def faults(lab: Lab, boundary: Boundary, whole: RunState) -> list[str]:
    """Kill, resume, compare: what is not as it should be."""
    name = boundary.name
    code = lab.begin(name, boundary.walls, crash_at=f"{boundary.seq}:{boundary.moment}")
    if code != KILLED:
        return [f"was not killed: exit {code}: {lab.last_lines(name)}"]
    survivors = left_behind(lab.folder / name)
    resumed = _resume(lab, boundary, whole)
    return [*(f"outlived the kill: {line}" for line in survivors), *resumed, *compared(lab, name, whole)]


def _resume(lab: Lab, boundary: Boundary, whole: RunState) -> list[str]:
    """Resume to the end. A run that never began says so and is begun anew; one that had ended says that."""
    name = boundary.name
    code = lab.resume(name, boundary.walls)
    wanted = whole.finished.exit_code if whole.finished else None
    if boundary.seq == 1 and boundary.moment != "after":
        begun = lab.begin(name, boundary.walls)
        return [] if (code, begun) == (1, wanted) else [f"exits {code} and {begun}: {lab.last_lines(name)}"]
    if boundary.kind == "finished" and boundary.moment == "after":
        return [] if code == 2 else [f"resuming an ended run exits {code}: {lab.last_lines(name)}"]
    return [] if code == wanted else [f"exit {code}, not {wanted}: {lab.last_lines(name)}"]


def compared(lab: Lab, name: str, whole: RunState) -> list[str]:
    """How the run in a folder differs from the undisturbed one."""
    run_dir = lab.run_dir(name)
    found = verify(run_dir)
    problems = [f"does not verify: {problem.what}" for problem in found.problems]
    problems += [f"outlived the run: {line}" for line in left_behind(lab.folder / name)]
    if not (run_dir / LEDGER_FILE).is_file():
        return [*problems, "has no ledger"]
    resumed = state_of(run_dir)
    problems += [*repeated(whole, resumed), *disorder(resumed)]
    for say in (decisions, figures):
        problems += list(differences(say(whole), say(resumed)))
    return problems


def differences(one: object, other: object, place: str = "") -> Iterator[str]:
    """Where two documents differ, leaf by leaf."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), f"{place}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{place}[{index}]")
    elif one != other:
        yield f"{place.lstrip('.')}: {_short(one)} without a crash, {_short(other)} with one"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:150]} ... {text[-150:]}"


def left_behind(folder: Path) -> list[str]:
    """Live processes that were started for a run in this folder, by their arguments or environment."""
    mark = f"{folder}{os.sep}"
    found = []
    deadline = time.monotonic() + 10
    while True:
        found = [line for process in psutil.process_iter() if (line := _started_for(process, mark))]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def _started_for(process: psutil.Process, mark: str) -> str:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        words = process.cmdline()
        where = [*words, *process.environ().values()]
    except psutil.Error:
        return ""
    return f"pid {process.pid} {' '.join(words)[:120]}" if any(mark in word for word in where) else ""


def sampled(items: list[T], count: int) -> list[T]:
    """Evenly spread ones, the first and the last among them."""
    if count >= len(items):
        return items
    step = (len(items) - 1) / max(1, count - 1)
    return [items[round(index * step)] for index in range(count)]


def undisturbed(lab: Lab, walls: str) -> RunState:
    """The run that the others are compared with."""
    name = f"whole, {walls}"
    code = lab.begin(name, walls)
    state = state_of(lab.run_dir(name))
    if state.finished is None or state.finished.exit_code != code:
        raise AssertionError(f"the undisturbed run exits {code}: {lab.last_lines(name)}")
    return state


def kill_everywhere(lab: Lab, sample: int = 10**6) -> tuple[int, int, list[str]]:
    """Carry it all out: boundaries that came out equal, boundaries tried, and the faults in words."""
    wholes = {walls: undisturbed(lab, walls) for walls in FLAGS}
    tried = sampled(list(plan(read_chain(lab.run_dir(f"whole, {SANDBOX}")).events)), sample)
    with ThreadPoolExecutor(lab.workers) as pool:
        found = list(pool.map(lambda boundary: faults(lab, boundary, wholes[boundary.walls]), tried))
    words = [f"{boundary}: {problem}" for boundary, problems in zip(tried, found, strict=True) for problem in problems]
    bad = {boundary.seq for boundary, problems in zip(tried, found, strict=True) if problems}
    boundaries = {boundary.seq for boundary in tried}
    return len(boundaries - bad), len(boundaries), words


def main() -> int:
    """Run and print; 1 when any boundary is not equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, default=3, help="runs at once (default: 3; they wait a good deal)")
    parser.add_argument("--sample", type=int, default=10**6, help="only so many kills, evenly spread (default: all)")
    options = parser.parse_args()
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="boundaries-") as folder, Lab(Path(folder), options.workers) as lab:
        equal, tried, words = kill_everywhere(lab, options.sample)
    for line in words:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{time.monotonic() - started_s:.0f} s\n{equal} of {tried} resumed equal\n")
    return 0 if equal == tried and not words else 1


if __name__ == "__main__":
    sys.exit(main())
