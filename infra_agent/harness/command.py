"""Runs one command behind the walls to its end, and tells everything about it in one frozen result.

    result = run_command([python, "-I", "check.py"], walls=walls, cwd=scratch, env=env, timeout_s=60)

Covered: one deadline over start, run, drain and kill; nothing of the command survives success, failure, time-out,
Ctrl-C or SIGKILL of the harness (the keeper's work); output of any length in bounded memory; standard input from
bytes; one typed answer of bounded size on descriptor 3 (a length-prefixed JSON frame, `probes.numeric.frames`).
Not covered: a conversation with the command; without a sandbox the network is shared, and a process whose keeper was
killed with SIGKILL survives. Memory of a whole tree is sampled, so a peak shorter than the interval is seen only in
the largest single process.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from infra_agent.errors import InfraAgentError
from infra_agent.harness import tree
from infra_agent.harness.captured import Captured, Stream, high_pipe
from infra_agent.harness.sandbox import Network, Walls, outer_env, wrap
from probes.base import Json
from probes.numeric import frames

KEEP_BYTES = 64 * 1024
"""Kept of each output stream at its beginning, and as much again at its end."""
ANSWER_FD = 3
MOST_STDIN_BYTES = 64 << 20
_KEEPER = Path(__file__).with_name("keeper.py")
_HEAD_BYTES = 4
_READ_BYTES = 1 << 16
_KILL_SHARE = 0.1
_MOST_KILL_S = 2.0
_SLACK_S = 5.0
"""Past the deadline a starved machine gets this long to bury the processes that were killed in time."""
_GONE_S = 1.0
_SAMPLE_S = 0.25
KilledReason = Literal["", "deadline", "answer too large"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. `exit_code` is the shell's: 127 not found, 128 + signal when one ended it.

    `cpu_s` counts all its processes. `peak_memory_bytes`: largest sum of resident sets seen, or the largest single
    one. `answer` is None unless one whole frame arrived; `answer_error` then says why, if one was asked for.
    """

    argv: tuple[str, ...]
    exit_code: int
    stdout: Captured
    stderr: Captured
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    killed_reason: KilledReason = ""
    answer: Json = None
    answer_error: str = ""

    @property
    def ok(self) -> bool:
        """It ended by itself with code 0."""
        return self.exit_code == 0 and not self.killed_reason

    @property
    def timed_out(self) -> bool:
        """Whether the deadline ended it."""
        return self.killed_reason == "deadline"

    @property
    def signal(self) -> int | None:
        """The signal that ended it (a program that itself exits with 128 + n reads the same)."""
        number = self.exit_code - 128
        return number if number in set(signal.Signals) else None


def run_command(
    argv: Sequence[str],
    *,
    walls: Walls,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    writable: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    network: Network = "none",
    keep_bytes: int = KEEP_BYTES,
    answer_bytes: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> CommandResult:
    """Run `argv` with exactly this environment and input, and return when nothing of it is left.

    The command may use its processes for about nine tenths of `timeout_s`; the rest is kept for taking them down.
    `answer_bytes`: the largest answer accepted on descriptor 3; 0 offers no such descriptor. Whatever a command does
    is a result; InfraAgentError only when this machine cannot start a process at all.
    """
    if len(stdin) > MOST_STDIN_BYTES:
        raise ValueError(f"{len(stdin)} bytes of input; at most {MOST_STDIN_BYTES}")
    inner, outer = list(argv), env
    if walls.mode == "bubblewrap":
        inner = wrap(argv, walls, writable=writable, env=env, cwd=cwd, readable=readable, network=network)
        outer = outer_env()
    run = _Run(argv=tuple(argv), walls=walls, clock=clock, timeout_s=timeout_s, keep_bytes=keep_bytes)
    try:
        run.start(inner, outer, cwd, stdin, answer_bytes)
        run.watch()
    finally:
        run.end()
    return run.result()


@dataclass(slots=True, kw_only=True)
class _Run:
    """One command under way. `streams` is filled through the descriptors in `selector`."""

    argv: tuple[str, ...]
    walls: Walls
    clock: Callable[[], float]
    timeout_s: float
    keep_bytes: int
    answer_bytes: int = 0
    started_s: float = 0.0
    ended_s: float | None = None
    reason: KilledReason = ""
    peak_bytes: int = 0
    popen: subprocess.Popen[bytes] | None = None
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    open_fds: set[int] = field(default_factory=set)
    streams: dict[str, Stream] = field(default_factory=dict)
    stdin_left: memoryview = field(default_factory=lambda: memoryview(b""))

    def start(self, inner: list[str], env: Mapping[str, str], cwd: Path, stdin: bytes, answer_bytes: int) -> None:
        """Start the keeper and the command below it, with a pipe for each stream."""
        self.started_s = self.clock()
        self.answer_bytes, self.stdin_left = answer_bytes, memoryview(stdin)
        keep = {"stdout": self.keep_bytes, "stderr": self.keep_bytes, "report": 4096}
        keep |= {"answer": answer_bytes + _HEAD_BYTES} if answer_bytes else {}
        theirs = {name: self._open_output(name, size) for name, size in keep.items()}
        if stdin:
            theirs["stdin"] = self._open_input()
        options = [f"--{name}={theirs[name]}" for name in ("stdin", "answer", "report") if name in theirs]
        command = [sys.executable, "-I", "-S", str(_KEEPER), *options, *inner]
        try:
            self.popen = subprocess.Popen(
                command, env=dict(env), cwd=cwd, stdin=subprocess.PIPE, stdout=theirs["stdout"],
                stderr=theirs["stderr"], start_new_session=True,
                pass_fds=[fd for name, fd in theirs.items() if name not in ("stdout", "stderr")],
            )  # fmt: skip
        except OSError as error:
            message = f"no process can be started here: {error.strerror or error}"
            raise InfraAgentError(
                message, where=str(cwd), hint="check limits of processes, files and memory"
            ) from error
        finally:
            for fd in theirs.values():
                self._close(fd)

    def watch(self) -> None:
        """Move bytes until every stream has ended, the deadline has passed, or the command broke a rule."""
        deadline_s = self.started_s + self.timeout_s
        kill_s = deadline_s - min(_MOST_KILL_S, _KILL_SHARE * self.timeout_s)
        sample_s = self.started_s + _SAMPLE_S / 4
        gone_s: float | None = None
        while self._reading():
            now_s = self.clock()
            if now_s >= sample_s:
                self._sample()
                sample_s = now_s + _SAMPLE_S
            if now_s >= kill_s and not self.reason:
                self._kill("deadline")
            if now_s >= deadline_s + _SLACK_S:
                return
            # Only a process that got away from a killed keeper still holds a pipe then.
            gone_s = gone_s or (now_s if self.popen is not None and self.popen.poll() is not None else None)
            if gone_s is not None and now_s >= gone_s + _GONE_S:
                return
            for key, _ in self.selector.select(max(0.0, min(sample_s, kill_s) - now_s) if not self.reason else 0.05):
                self._move(key)

    def end(self) -> None:
        """Take down what is left, whatever happened, and close every descriptor. Bounded."""
        popen = self.popen
        if popen is not None:
            left = tree.members(popen.pid) if popen.poll() is None and self._reading() else []
            if popen.stdin is not None:
                with contextlib.suppress(OSError):
                    popen.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(_SLACK_S)
            tree.kill(left)
            popen.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(_GONE_S)
            tree.wait_gone(left, _GONE_S)
        self.ended_s = self.ended_s or self.clock()
        for fd in tuple(self.open_fds):
            self._close(fd)
        self.selector.close()

    def result(self) -> CommandResult:
        """Everything that is known now."""
        code = self.popen.returncode if self.popen is not None else None
        used = self._used()
        answer, answer_error = self._answer()
        return CommandResult(
            argv=self.argv,
            exit_code=128 + signal.SIGKILL if code is None else code if code >= 0 else 128 - code,
            stdout=self.streams["stdout"].captured(),
            stderr=self.streams["stderr"].captured(),
            wall_s=(self.ended_s or self.clock()) - self.started_s,
            cpu_s=used.get("cpu_s", 0.0),
            peak_memory_bytes=max(self.peak_bytes, int(used.get("peak_rss_bytes", 0))),
            killed_reason=self.reason,
            answer=answer,
            answer_error=answer_error,
        )

    def _reading(self) -> bool:
        """Whether some stream of the command or the keeper has not ended."""
        return any(key.data != "stdin" for key in self.selector.get_map().values())

    def _open_output(self, name: str, keep_bytes: int) -> int:
        """A pipe that is read here under this name; returns the end for the other side."""
        read, write = high_pipe(self.open_fds)
        self.streams[name] = Stream(keep_bytes)
        self.selector.register(read, selectors.EVENT_READ, name)
        return write

    def _open_input(self) -> int:
        read, write = high_pipe(self.open_fds)
        os.set_blocking(write, False)
        self.selector.register(write, selectors.EVENT_WRITE, "stdin")
        return read

    def _move(self, key: selectors.SelectorKey) -> None:
        if key.data == "stdin":
            self._feed(key.fd)
            return
        data = os.read(key.fd, _READ_BYTES)
        if not data:
            self._close(key.fd)
            return
        self.streams[key.data].add(data)
        if key.data == "answer" and self._answer_is_too_large() and not self.reason:
            self._kill("answer too large")

    def _feed(self, fd: int) -> None:
        """Give the command more of its input; one that does not want it is not asked again."""
        try:
            self.stdin_left = self.stdin_left[os.write(fd, self.stdin_left[:_READ_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:
            self.stdin_left = memoryview(b"")
        if not self.stdin_left:
            self._close(fd)

    def _kill(self, reason: KilledReason) -> None:
        """Let go of the keeper's life-line: it then kills everything below it."""
        self.reason = reason
        if self.popen is not None and self.popen.stdin is not None:
            with contextlib.suppress(OSError):
                self.popen.stdin.close()

    def _sample(self) -> None:
        if self.popen is not None:
            wrappers = 3 if self.walls.mode == "bubblewrap" else 1
            below = tree.members(self.popen.pid)[wrappers:]
            self.peak_bytes = max(self.peak_bytes, tree.peak_rss_bytes(below))

    def _answer_is_too_large(self) -> bool:
        found = self.streams["answer"]
        claimed = int.from_bytes(found.head[:_HEAD_BYTES], "big") if len(found.head) >= _HEAD_BYTES else 0
        return max(claimed, found.total_bytes - _HEAD_BYTES) > self.answer_bytes

    def _answer(self) -> tuple[Json, str]:
        if not self.answer_bytes:
            return None, ""
        found = self.streams["answer"].captured()
        try:
            return frames.parse(found.head + found.tail, max_bytes=self.answer_bytes), ""
        except frames.FrameError as error:
            return None, str(error)

    def _used(self) -> dict[str, float]:
        """The keeper's last words: CPU time and memory of what was below it; nothing when it was killed itself."""
        try:
            return dict(json.loads(self.streams["report"].head))
        except ValueError:
            return {}

    def _close(self, fd: int) -> None:
        if fd in self.open_fds:
            self.open_fds.discard(fd)
            with contextlib.suppress(KeyError):
                self.selector.unregister(fd)
            os.close(fd)
