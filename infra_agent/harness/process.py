"""One engine process with everything below it: started behind the walls, its output bounded, gone when told so.

Covered: whole-tree stop with one deadline, children that daemonise, output without limit, death of the harness.
Not covered: without a sandbox a tree whose keeper is killed with SIGKILL survives; on systems other than Linux a
child that leaves the process group survives.

A keeper process stands above every engine, sandboxed or not. Bubblewrap's own --die-with-parent is not enough: its two
processes ask for it one after the other, and a harness killed in between left an engine running (seen in a test).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import psutil

from infra_agent.harness import tree
from infra_agent.harness.handover import HandOver
from infra_agent.harness.limits import NO_LIMITS, Exceeded, Limits, exceeded_in, held_in
from infra_agent.harness.logfile import BoundedLog
from infra_agent.harness.overlays import NO_OVERLAYS, Overlays
from infra_agent.harness.sandbox import Walls, outer_env, wrap
from infra_agent.harness.text import clean_lines
from infra_agent.redact.masker import Masker
from probes.net.connector import NAME as HAND_OVER

_KEEPER = Path(__file__).with_name("keeper.py")
_FIND_TIMEOUT_S = 5.0
_KILL_SHARE = 0.3
_LEAST_KILL_S = 2.0
_READ_BYTES = 65536
_REPORT_BYTES = 4096


class ManagedProcess:
    """A running engine. Create with `start`; always `stop` it."""

    def __init__(
        self, popen: subprocess.Popen[bytes], report: int, log: BoundedLog, walls: Walls, masker: Masker
    ) -> None:
        self._popen = popen
        self._report = report
        self._reported = b""
        self._log = log
        self._walls = walls
        self._masker = masker
        self._wake_read, self._wake_write = os.pipe()
        self._peak_bytes = 0
        self._cpu_s = 0.0
        self._drain = threading.Thread(target=self._read_output, name="engine-output", daemon=True)
        self._engine: psutil.Process | None = None
        self._hand_over: psutil.Process | None = None
        self._drain.start()

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log_path: Path,
        walls: Walls,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        overlays: Overlays = NO_OVERLAYS,
        secrets: Collection[str] = (),
        hand_over: HandOver | None = None,
        limits: Limits = NO_LIMITS,
        outer: Mapping[str, str] | None = None,
    ) -> ManagedProcess:
        """Start a command with exactly this environment. A command that cannot be executed dies with code 127 or 1.

        `hand_over`: how to reach it behind walls, where it has a network of its own; its listener is closed here.
        `outer`: the environment of the sandbox's own processes.
        """
        inner, surrounding, handed = list(argv), env, []
        options = limits.keeper_options(writable, walls.mode == "bubblewrap")
        if walls.mode == "bubblewrap":
            handed = [] if hand_over is None else [hand_over.listener.fileno()]
            options += [] if hand_over is None else [f"--hand={handed[0]}", f"--tidy={hand_over.path}"]
            inner = wrap(
                argv, walls, writable=writable, env=env, cwd=cwd, readable=readable,
                network="none" if hand_over is None else "loopback", hand_over=handed[0] if handed else None,
                tasks=limits.tasks_inside, overlays=overlays,
            )  # fmt: skip
            surrounding = outer_env() if outer is None else outer
        masker = Masker(secrets)
        log = BoundedLog(log_path, masker=masker)
        report_read, report_write = os.pipe()
        try:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), f"--report={report_write}", *options, *inner],
                env=dict(surrounding),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[report_write, *handed],
            )
        except OSError:
            log.close()
            os.close(report_read)
            raise
        finally:
            os.close(report_write)
            if hand_over is not None:
                hand_over.listener.close()
        return cls(popen, report_read, log, walls, masker)

    @property
    def pid(self) -> int:
        """The engine's own process id on the host, for probes that attach to it."""
        deadline = time.monotonic() + _FIND_TIMEOUT_S
        while (engine := self._find_engine()) is None and self.alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        return engine.pid if engine is not None else self._popen.pid

    @property
    def returncode(self) -> int | None:
        """Exit code once it is gone, 128 + signal if a signal ended it; None while it runs."""
        code = self._popen.poll()
        return code if code is None or code >= 0 else 128 - code

    @property
    def log_path(self) -> Path:
        """Where the output is kept."""
        return self._log.path

    @property
    def dropped_bytes(self) -> int:
        """Output that was not kept."""
        return self._log.dropped_bytes

    @property
    def exceeded(self) -> Exceeded | None:
        """The limit that ended it; None while it runs and when something else did."""
        return None if self.alive() else exceeded_in(self._last_words())

    @property
    def held(self) -> Mapping[str, str]:
        """How each of its limits was held, by kind; known once it is gone."""
        return {} if self.alive() else held_in(self._last_words())

    def alive(self) -> bool:
        """Whether the engine still runs."""
        return self._popen.poll() is None

    def tail(self, count: int) -> tuple[str, ...]:
        """The last lines of output, safe to show. After the end of the process they are complete."""
        if not self.alive():
            self._drain.join(_LEAST_KILL_S)
        return clean_lines(self._log.recent(), count, self._masker)

    def own_pids(self) -> frozenset[int]:
        """Every process that belongs to this launch, the sandbox's own included."""
        return frozenset(process.pid for process in tree.members(self._popen.pid))

    def memory_bytes(self) -> int:
        """Peak resident memory of the engine's tree so far (shared pages count once for each process)."""
        self._look()
        return self._peak_bytes

    def cpu_s(self) -> float:
        """CPU time used by the engine's tree so far."""
        self._look()
        return self._cpu_s

    def stop(self, timeout_s: float) -> None:
        """End the whole tree: SIGTERM to the engine, then SIGKILL to all. Returns within about `timeout_s`.

        Afterwards the log file is complete. Calling it again does nothing.
        """
        deadline = time.monotonic() + timeout_s
        self._look()
        everyone = tree.members(self._popen.pid)
        self._ask_to_end(max(0.0, timeout_s - max(_LEAST_KILL_S, timeout_s * _KILL_SHARE)))
        everyone += [process for process in tree.members(self._popen.pid) if process not in everyone]
        self._kill(everyone, max(_LEAST_KILL_S, deadline - time.monotonic()))
        self._finish_output(max(_LEAST_KILL_S / 4, deadline - time.monotonic()))

    def _ask_to_end(self, grace_s: float) -> None:
        engine = self._find_engine()
        if not self.alive() or engine is None or grace_s == 0:
            return
        with contextlib.suppress(psutil.Error):
            engine.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(grace_s)

    def _kill(self, everyone: Sequence[psutil.Process], timeout_s: float) -> None:
        """Let the keeper take the tree down, and kill what was seen of it besides."""
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()
        tree.kill(process for process in everyone if process.pid != self._popen.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout_s / 2)
        self._popen.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout_s / 4)
        tree.wait_gone(everyone, timeout_s / 4)

    def _look(self) -> None:
        """Take note of memory and CPU time; the last values stand when the process is gone."""
        processes = self._engine_processes()
        self._peak_bytes = max(self._peak_bytes, tree.peak_rss_bytes(processes))
        self._cpu_s = max(self._cpu_s, tree.cpu_time_s(processes))

    def _engine_processes(self) -> list[psutil.Process]:
        """The tree without the keeper's and the sandbox's own processes."""
        ours = self._find_hand_over()
        return [process for process in tree.members(self._popen.pid)[self._wrappers() :] if process != ours]

    def _find_engine(self) -> psutil.Process | None:
        """The process that runs the command: below the keeper, and below bubblewrap and its init if there is one."""
        if self._engine is None:
            self._engine = next(iter(self._outermost()), None)
        return self._engine

    def _find_hand_over(self) -> psutil.Process | None:
        """The connector: forked before the command began, so it is the second oldest; named so that it is no other."""
        if self._hand_over is None and self._walls.mode == "bubblewrap":
            with contextlib.suppress(psutil.Error):
                self._hand_over = next((one for one in self._outermost()[1:2] if one.name() == HAND_OVER), None)
        return self._hand_over

    def _outermost(self) -> list[psutil.Process]:
        """The processes right below the keeper, or below the sandbox's init; oldest first."""
        found: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            found = [psutil.Process(self._popen.pid)]
            for _ in range(self._wrappers()):
                found = sorted(found[0].children(), key=lambda child: (child.create_time(), child.pid))
                if not found:
                    return []
        return found

    def _wrappers(self) -> int:
        """How many processes of the keeper and the sandbox stand above the engine."""
        return 3 if self._walls.mode == "bubblewrap" else 1

    def _last_words(self) -> bytes:
        """The keeper's report, once it is gone."""
        if self._report >= 0:
            self._reported = os.read(self._report, _REPORT_BYTES)
            os.close(self._report)
            self._report = -1
        return self._reported

    def _read_output(self) -> None:
        stream = self._popen.stdout
        assert stream is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if stream.fileno() in ready:
                    data = os.read(stream.fileno(), _READ_BYTES)
                    if not data:
                        return
                    self._log.write(data)
                elif self._wake_read in ready:
                    return

    def _finish_output(self, timeout_s: float) -> None:
        """Read what is left, within the deadline, even if some process still holds the pipe."""
        if self._wake_read < 0:
            return
        self._drain.join(timeout_s)
        os.write(self._wake_write, b"x")
        self._drain.join(_LEAST_KILL_S)
        if self._drain.is_alive():
            return  # Only a disk that does not answer holds it: its descriptors must not be closed under it.
        os.close(self._wake_read)
        os.close(self._wake_write)
        self._wake_read = self._wake_write = -1
        for stream in (self._popen.stdout, self._popen.stdin):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._log.close()
        if not self.alive():
            self._last_words()
