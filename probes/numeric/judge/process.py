"""The candidate's process: started behind the runner's walls, asked over a private pipe, watched, and ended.

Covered: a deadline on every reply, memory of the whole tree watched from outside, replies that answer nothing asked,
the last lines that it printed.
Not covered: what is asked (`session`).
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import psutil

from probes.base import Json
from probes.numeric import frames
from probes.numeric.judge.faults import CandidateFailure, Fault, JudgeFailure, Kind
from probes.numeric.judge.runner import Runner

WORKER = Path(__file__).parents[1] / "candidate" / "worker.py"
_LOOK_S = 0.2
_STOP_S = 5.0
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class CandidateProcess:
    """One worker. Its methods raise CandidateFailure for whatever the candidate does, JudgeFailure for the rest."""

    def __init__(self, python: str, runner: Runner, directory: Path, memory_bytes: int, env: Mapping[str, str]) -> None:
        self._directory = directory
        self._runner, self._python, self._memory_bytes = runner, python, memory_bytes
        home = {"HOME": str(directory), "TMPDIR": str(directory), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        threads = dict.fromkeys(_ONE_THREAD, str(max(1, os.cpu_count() or 1)))
        self._env = {name: os.environ[name] for name in _KEPT if name in os.environ} | threads | home | dict(env)
        self._popen: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self.peak_bytes = 0

    def start(self, readable: Sequence[Path], hidden: Sequence[Path], timeout_s: float) -> None:
        """Start the worker and wait for its first answer."""
        argv = [self._python, "-I", "-B", str(WORKER), str(self._directory)]
        command = self._runner.command(
            argv, env=self._env, directory=self._directory, readable=[WORKER.parent, *readable], hidden=hidden
        )
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._popen = subprocess.Popen(
                list(command.argv), env=dict(command.env), cwd=self._directory, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            )  # fmt: skip
        except OSError as error:
            self.stop()
            raise JudgeFailure(f"no process can be started with {self._python}: {error}") from error
        os.set_blocking(self._fd("stdin"), False)
        try:
            self.ask("nothing", timeout_s=timeout_s)
        except CandidateFailure as failure:
            # Nothing of the candidate is loaded yet.
            said = " | ".join(failure.fault.lines[-3:])
            raise JudgeFailure(f"the candidate's interpreter {self._python} does not start: {said}") from failure

    def ask(self, operation: str, *, timeout_s: float, **fields: Json) -> dict[str, Any]:
        """One request; the reply, unless the candidate failed."""
        nonce = secrets.token_hex(8)
        deadline = time.monotonic() + timeout_s
        try:
            frames.send(self._fd("stdin"), {"op": operation, "nonce": nonce} | fields, timeout_s=timeout_s)
            self._wait(deadline, timeout_s)
            reply = frames.receive(self._fd("stdout"), timeout_s=max(0.1, deadline - time.monotonic()))
        except frames.FrameError as error:
            self._broken(str(error))
        if not isinstance(reply, dict) or reply.get("nonce") != nonce:
            self._fail(Kind.PROTOCOL, "the pipe carries a reply to nothing that was asked")
        if "error" in reply:
            self._raised(reply["error"])
        return reply

    def stop(self) -> None:
        """End it and everything below it. Safe to call twice."""
        popen, self._popen = self._popen, None
        if popen is not None:
            for stream in (popen.stdin, popen.stdout):
                with suppress(OSError):
                    if stream is not None:
                        stream.close()
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(popen.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                popen.wait(_STOP_S)
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _wait(self, deadline: float, timeout_s: float) -> None:
        """Until the reply begins; the tree's memory is looked at meanwhile."""
        poll = select.poll()
        poll.register(self._fd("stdout"), select.POLLIN)
        while not poll.poll(_LOOK_S * 1000):
            if self._memory() > self._memory_bytes:
                used = f"{self.peak_bytes / 2**30:.1f} GiB"
                self._fail(Kind.MEMORY, f"it used {used}, more than {self._memory_bytes / 2**30:.1f} GiB")
            if time.monotonic() > deadline:
                self._fail(Kind.HANG, f"no answer in {timeout_s:g} s")

    def _memory(self) -> int:
        used = 0
        with suppress(psutil.Error):
            root = psutil.Process(self._popen.pid if self._popen is not None else None)
            for process in (root, *root.children(recursive=True)):
                with suppress(psutil.Error):
                    used += process.memory_info().rss - process.memory_info().shared
        self.peak_bytes = max(self.peak_bytes, used)
        return used

    def _raised(self, error: Mapping[str, Any]) -> NoReturn:
        name, message = str(error.get("type")), str(error.get("message"))
        kind = {"MemoryError": Kind.MEMORY, "SystemExit": Kind.EXIT}.get(name, Kind.CRASH)
        if "DefaultCPUAllocator" in message or "out of memory" in message or "ArrayMemoryError" in name:
            kind = Kind.MEMORY
        text = f"{name}: {message}" if message else name
        self._fail(kind, text, file=str(error.get("file") or ""), line=int(error.get("line") or 0))

    def _broken(self, cause: str) -> NoReturn:
        """The pipe closed or carries nonsense."""
        popen = self._popen
        code = None
        if popen is not None:
            with suppress(subprocess.TimeoutExpired):
                code = popen.wait(1.0)
        if code is None:
            kind = Kind.HANG if cause == "no reply in time" else Kind.PROTOCOL
            self._fail(kind, f"the pipe to it is broken: {cause}")
        number = -code if code < 0 else code - 128
        if number == signal.SIGKILL:
            self._fail(Kind.MEMORY if self.peak_bytes > self._memory_bytes / 2 else Kind.CRASH, "it was killed")
        if number in set(signal.Signals):
            self._fail(Kind.CRASH, f"it ended with {signal.Signals(number).name}")
        self._fail(Kind.EXIT, f"it left with exit code {code} before it had answered")

    def _fail(self, kind: Kind, message: str, *, file: str = "", line: int = 0) -> NoReturn:
        fault = Fault(kind=kind, message=message, file=Path(file).name, line=line, lines=self.last_lines())
        if kind is not Kind.CRASH or not file:
            self.stop()
        raise CandidateFailure(fault)

    def last_lines(self) -> tuple[str, ...]:
        """What it printed last."""
        if self._errors is None:
            return ()
        size = os.fstat(self._errors.fileno()).st_size
        data = os.pread(self._errors.fileno(), 4000, max(0, size - 4000))
        return tuple(data.decode(errors="replace").strip().splitlines()[-6:])

    def _fd(self, name: str) -> int:
        stream = getattr(self._popen, name, None)
        if stream is None:
            raise JudgeFailure("the candidate's process is not running")
        return int(stream.fileno())
