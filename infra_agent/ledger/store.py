"""The ledger file of one run: append-only, one writer, every event in memory as it will be read back.

Covered: exclusive opening, recovery of a torn tail, appends that are whole or absent, artifacts; secrets are masked in
events and artifacts before they are hashed.
Not covered: reading other people's runs (`runs`, `verify`); they need no lock and change nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import BaseFileLock

from infra_agent.errors import InfraAgentError, LedgerError, UsageError
from infra_agent.ledger import artifacts, lock
from infra_agent.ledger import kinds as k
from infra_agent.ledger.chain import LEDGER_FILE, Chain, read_chain
from infra_agent.ledger.crash import CrashPoint, crash_point, die
from infra_agent.ledger.disk import disk_error, flush, flush_directory, write_all
from infra_agent.ledger.event import GENESIS, Event, seal_line
from infra_agent.ledger.fold import fold, step
from infra_agent.ledger.state import RunState
from infra_agent.redact.masker import NO_SECRETS, Masker

Clock = Callable[[], datetime]
_FLUSH_FAILED = "an earlier flush to the disk failed"
_VERIFY = "infra-agent runs verify {} lists every fault; a damaged run cannot be resumed"


@dataclass(frozen=True, slots=True)
class _Head:
    """What is committed: replaced in one assignment, so an interrupt between two statements cannot split it."""

    seq: int = 0
    hash: str = GENESIS
    size: int = 0
    state: RunState | None = None


class Ledger:
    """The writer's side of a run's ledger. Build it with `create` or `open`; close it to let others in."""

    def __init__(
        self, run_dir: Path, clock: Clock, *, held: BaseFileLock, fd: int, crash: CrashPoint, masker: Masker
    ) -> None:
        self.run_dir = run_dir
        self.masker = masker
        self.path = run_dir / LEDGER_FILE
        self._clock = clock
        self._held = held
        self._fd = fd
        self._crash = crash
        self._events: list[Event] = []
        self._head = _Head()
        self._unusable = ""
        self._behind = timedelta(0)
        self._one_at_a_time = threading.Lock()

    @classmethod
    def create(cls, run_dir: Path, clock: Clock, masker: Masker = NO_SECRETS) -> Self:
        """Start the ledger of a new run; its first event must be `run_started`."""
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            ledger = cls._take(run_dir, clock, os.O_CREAT | os.O_EXCL, masker)
        except FileExistsError:
            hint = f"infra-agent runs resume {run_dir.name}"
            raise UsageError(f"run {run_dir.name} has a ledger already", where=str(run_dir), hint=hint) from None
        except OSError as error:
            raise disk_error(error, run_dir, run_dir.name) from error
        try:
            flush_directory(run_dir)
        except OSError as error:
            ledger.close()
            raise disk_error(error, run_dir, run_dir.name) from error
        return ledger

    @classmethod
    def open(cls, run_dir: Path, clock: Clock, masker: Masker = NO_SECRETS) -> Self:
        """Go on with a run: cuts off and keeps a torn tail; LedgerError if the chain is broken anywhere else."""
        if not (run_dir / LEDGER_FILE).is_file():
            raise LedgerError(f"run {run_dir.name} has no ledger", where=str(run_dir))
        try:
            ledger = cls._take(run_dir, clock, 0, masker)
        except OSError as error:
            raise disk_error(error, run_dir, run_dir.name) from error
        try:
            chain = _sound(run_dir)
            ledger._load(chain)
            ledger._recover(chain.tail)
        except BaseException as error:
            ledger.close()
            if isinstance(error, OSError):
                raise disk_error(error, run_dir, run_dir.name) from error
            raise
        return ledger

    @classmethod
    def _take(cls, run_dir: Path, clock: Clock, flags: int, masker: Masker) -> Self:
        crash = crash_point(os.environ)
        held = lock.take(run_dir)
        try:
            fd = os.open(run_dir / LEDGER_FILE, os.O_WRONLY | os.O_APPEND | flags, 0o644)
        except BaseException:
            held.release()
            raise
        return cls(run_dir, clock, held=held, fd=fd, crash=crash, masker=masker)

    @property
    def events(self) -> tuple[Event, ...]:
        """All stored events, oldest first."""
        return tuple(self._events[: self._head.seq])

    def state(self) -> RunState:
        """The fold of all stored events; LedgerError before the first."""
        if self._head.state is None:
            raise LedgerError("the ledger holds no event: the run never started", where=str(self.path))
        return self._head.state

    def append(self, data: k.EventData) -> Event:
        """Store one event and return it as it reads back; `synced` kinds are on the disk when this returns.

        LedgerError: the event is not storable or cannot happen now. UsageError: the disk failed. Nothing is kept then.
        """
        with self._one_at_a_time:
            event, line = self._prepare(data)
            state = step(self._head.state, event)
            self._write(event.seq, line, data.synced)
            self._commit(event, state, self._head.size + len(line))
            if self._crash.due(event.seq, "after"):
                die()
            return event

    def put_artifact(self, content: bytes | Path) -> str:
        """Store bytes or a copy of a file under `artifacts/`, secrets masked; the name is the sha256 of the copy."""
        if isinstance(content, Path) and not content.is_file():
            raise LedgerError("the file to keep does not exist", where=str(content))
        try:
            return artifacts.put(self.run_dir, content, self.masker)
        except OSError as error:
            raise disk_error(error, self.run_dir / artifacts.FOLDER, self.run_dir.name) from error

    def artifact_path(self, name: str) -> Path:
        """The file of a stored artifact; LedgerError if there is none."""
        return artifacts.path_of(self.run_dir, name)

    def close(self) -> None:
        """Close the file and let another writer in. Closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._unusable = "it is closed"
            self._held.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _prepare(self, data: k.EventData) -> tuple[Event, bytes]:
        if self._unusable:
            raise self._refusal()
        if k.KINDS.get(data.kind) is not type(data):
            raise LedgerError(f"{type(data).__name__} is not an event that a ledger holds")
        ts = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        # Not mode="json": it turns NaN into null without a word.
        payload = data.model_dump(mode="python")
        seq, prev = self._head.seq + 1, self._head.hash
        event, line = seal_line(seq=seq, prev=prev, ts=ts, kind=data.kind, data=payload)
        if self.masker.suspects(line):
            return seal_line(seq=seq, prev=prev, ts=ts, kind=data.kind, data=self.masker.value(payload))
        return event, line

    def _refusal(self) -> InfraAgentError:
        """Why nothing more is written; after a failed flush in the same words as then, with the same exit code."""
        message, where = f"the ledger cannot be written: {self._unusable}", str(self.path)
        if self._unusable == _FLUSH_FAILED:
            hint = f"check the disk, then: infra-agent runs resume {self.run_dir.name}"
            return UsageError(message, where=where, hint=hint)
        return InfraAgentError(message, where=where)

    def _now(self) -> datetime:
        """The time, never before the last event's: a clock that was set back is followed from there on."""
        now = self._clock()
        if now.tzinfo is None:
            raise ValueError("the clock must give times with a time zone")
        if self._events:
            # Stamps of another version of this program may be in another form.
            with suppress(ValueError, TypeError):
                self._behind = max(self._behind, datetime.fromisoformat(self._events[-1].ts) - now)
        return (now + self._behind).astimezone(UTC)

    def _write(self, seq: int, line: bytes, synced: bool) -> None:
        if self._crash.due(seq, "before"):
            die()
        try:
            self._cut_back()
            if self._crash.due(seq, "torn"):
                write_all(self._fd, line[: len(line) // 2])
                die()
            write_all(self._fd, line)
            if synced:
                self._flush()
        except BaseException as error:
            # If this fails as well, the next append tries again, and the next opening finds a torn tail.
            with suppress(OSError):
                self._cut_back()
            if isinstance(error, OSError):
                raise disk_error(error, self.path, self.run_dir.name) from error
            raise

    def _flush(self) -> None:
        try:
            flush(self._fd)
        except OSError:
            # After a failed flush the kernel may report success for pages it has lost.
            self._unusable = _FLUSH_FAILED
            raise

    def _cut_back(self) -> None:
        """Remove what an interrupted or failed append left behind the last committed event."""
        found = os.fstat(self._fd)
        if found.st_nlink == 0 or found.st_size < self._head.size:
            self._unusable = "the file was deleted or cut while the run was writing it"
            raise LedgerError(f"the ledger cannot be written: {self._unusable}", where=str(self.path))
        if found.st_size > self._head.size:
            os.ftruncate(self._fd, self._head.size)

    def _commit(self, event: Event, state: RunState, size: int) -> None:
        del self._events[self._head.seq :]
        self._events.append(event)
        self._head = _Head(event.seq, event.hash, size, state)

    def _load(self, chain: Chain) -> None:
        try:
            state = fold(chain.events)
        except LedgerError as error:
            raise LedgerError(error.message, where=str(self.path), hint=_VERIFY.format(self.run_dir.name)) from None
        self._events = list(chain.events)
        self._head = _Head(state.head_seq, state.head_hash, chain.size, state)

    def _recover(self, tail: bytes) -> None:
        """Keep the torn tail in a file of its own, cut it off, and record every such file not yet recorded."""
        artifacts.remove_leftovers(self.run_dir)
        if tail:
            self._keep(tail)
            os.ftruncate(self._fd, self._head.size)
            flush(self._fd)
        recorded = {at.data.kept_as for at in self.state().events if isinstance(at.data, k.Recovered)}
        for path in sorted(self.run_dir.glob(f"{LEDGER_FILE}.torn-*")):
            if path.name not in recorded:
                self.append(k.Recovered(dropped_bytes=path.stat().st_size, kept_as=path.name))

    def _keep(self, tail: bytes) -> None:
        number = 1
        while (path := self.run_dir / f"{LEDGER_FILE}.torn-{number}").exists():
            number += 1
        with path.open("xb") as file:
            file.write(tail)
            file.flush()
            flush(file.fileno())
        flush_directory(self.run_dir)


def _sound(run_dir: Path) -> Chain:
    """The chain, if a run can go on from it."""
    chain = read_chain(run_dir)
    where = str(run_dir / LEDGER_FILE)
    if chain.problems:
        first = chain.problems[0]
        hint = _VERIFY.format(run_dir.name)
        raise LedgerError(f"the ledger is broken: {first.what}", where=f"{where}:{first.line}", hint=hint)
    if not chain.events:
        hint = "nothing was spent yet: start a new run"
        raise LedgerError("the run was stopped before its first event was stored", where=where, hint=hint)
    return chain
