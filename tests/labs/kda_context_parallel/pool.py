"""Runs the lab's workers in the kernels' environment, as many at a time as there are cores, one thread each.

Covered: one process per task with the version under test first on its path; progress on a narrator; failures with the
worker's last lines; processes end with this one.
Not covered: sharing a machine with other work: its wall time is what it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
MEASURE = "labs.kda_context_parallel.measure"
COMPILE = "labs.kda_context_parallel.compile_check"
LONGEST_S = 1800.0
_LAST_LINES = 8
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerFailed(Exception):
    """A worker ended without a result; the message holds its last lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One task of a worker for one version of upstream; `tree` comes first on its path."""

    title: str
    tree: Path
    module: str = MEASURE
    task: Mapping[str, Any] = field(default_factory=dict)


class Pool:
    """`submit` jobs, then ask their futures. Longest first keeps all cores busy to the end."""

    def __init__(self, python: Path, narrate: Callable[[str], None], workers: int | None = None) -> None:
        self._python, self._narrate = python, narrate
        self._threads = ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)))
        self._running: set[subprocess.Popen[str]] = set()

    def submit(self, job: Job) -> Future[Any]:
        """The job's result, a JSON document, when it is done."""
        return self._threads.submit(self._run, job)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in list(self._running):
            process.kill()
        self._threads.shutdown(wait=True)

    def _run(self, job: Job) -> Any:
        begun = time.monotonic()
        environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
        environment |= dict.fromkeys(_ONE_THREAD, "1")
        environment["PYTHONPATH"] = os.pathsep.join(map(str, (job.tree, ROOT, ROOT / "tests")))
        process = subprocess.Popen(
            [str(self._python), "-m", job.module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
        )  # fmt: skip
        self._running.add(process)
        try:
            out, err = process.communicate(json.dumps(job.task), timeout=LONGEST_S)
        finally:
            process.kill()
            self._running.discard(process)
        if process.returncode:
            raise WorkerFailed("\n".join([f"{job.title}: exit {process.returncode}", *err.splitlines()[-_LAST_LINES:]]))
        self._narrate(f"{job.title}: {time.monotonic() - begun:.0f} s")
        return json.loads(out)
