"""Run directories: making a new one, finding one by name, and listing them all with a derived status.

A run's status is never stored. `running`: a live process holds the lock. `finished`, `waiting`: its last session ended
so. `decided`: it ended waiting, and a person has decided since; it can be resumed. `interrupted`: no live writer and no
end; it can be resumed. `damaged`: it cannot be read; `verify` says why.
Listings check numbers and links of each ledger, not every hash: that is `verify`'s work.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ulid import ULID

from infra_agent.errors import LedgerError, RunNotFound, UsageError
from infra_agent.ledger.chain import LEDGER_FILE, Chain, read_chain
from infra_agent.ledger.event import Event
from infra_agent.ledger.fold import step
from infra_agent.ledger.lock import has_writer
from infra_agent.ledger.state import RunState

Status = Literal["running", "finished", "waiting", "decided", "interrupted", "damaged"]
_START_HINT = 'start one: infra-agent run --goal "..."'
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One line of a listing. `best` is empty when the ledger could not be read up to a state."""

    id: str
    started_ts: str
    goal_text: str
    status: Status
    outcome: str
    best: str
    path: Path


def new_run_dir(root: Path, new_id: Callable[[], str] = lambda: str(ULID())) -> Path:
    """Make the directory of a new run under `root`; its name is a ULID that no other run has."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        while True:
            path = root / new_id()
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        hint = "choose a directory that can be written"
        raise UsageError(f"no run can be stored here: {error.strerror}", where=str(root), hint=hint) from error


def find_run(root: Path, ref: str) -> Path:
    """The run that `ref` names: `last` (the newest with a ledger), a full id, or the beginning of exactly one id."""
    ids = _ids(root)
    if not ids:
        raise RunNotFound("no runs yet", where=str(root), hint=_START_HINT)
    if ref == "last":
        return root / next((id for id in reversed(ids) if (root / id / LEDGER_FILE).is_file()), ids[-1])
    wanted = ref.strip().upper()
    matches = [id for id in ids if wanted and id.startswith(wanted)]
    if len(matches) == 1:
        return root / matches[0]
    if matches:
        hint = "give more characters of the id"
        message = f"{ref!r} is the beginning of {len(matches)} runs"
        raise RunNotFound(message, where=str(root), hint=hint, lines=matches[-_SHOWN:])
    near = difflib.get_close_matches(wanted, ids, n=3, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "see: infra-agent runs list"
    raise RunNotFound(f"no run {ref!r}", where=str(root), hint=hint, lines=near)


def list_runs(root: Path) -> list[RunSummary]:
    """All runs, newest first. A damaged run is listed as such."""
    return [_summary(root / id) for id in reversed(_ids(root))]


def _ids(root: Path) -> list[str]:
    """Names of all run directories, oldest first: a ULID begins with its time."""
    try:
        return sorted(path.name for path in root.iterdir() if _is_ulid(path.name) and path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"the runs cannot be listed: {error.strerror}", where=str(root)) from error


def _is_ulid(name: str) -> bool:
    try:
        return str(ULID.from_str(name)) == name
    except ValueError:
        return False


def _summary(path: Path) -> RunSummary:
    # Asked before reading: a run that ends in between is then shown as it ended.
    running = has_writer(path)
    state, fault = _read(path)
    status, outcome = _status(state, fault, running)
    return RunSummary(
        id=path.name,
        started_ts=state.started_ts if state else "",
        goal_text=state.started.goal.text if state else "",
        status=status,
        outcome=outcome,
        best=state.best if state else "",
        path=path,
    )


def _read(path: Path) -> tuple[RunState | None, str]:
    """The state as far as it can be read, and what stopped the reading."""
    try:
        chain = read_chain(path, rehash=False)
    except LedgerError as error:
        return None, error.message
    fault = chain.problems[0].what if chain.problems else ""
    state: RunState | None = None
    for event in _sound_part(chain):
        try:
            state = step(state, event)
        except LedgerError as error:
            return state, error.message
    return state, fault or ("" if state else "stopped before its first event was stored")


def _sound_part(chain: Chain) -> list[Event]:
    end = chain.problems[0].line if chain.problems else None
    return [event for line, event in chain.records if end is None or line < end]


def _status(state: RunState | None, fault: str, running: bool) -> tuple[Status, str]:
    if running and state is None:
        return "running", "starting"
    if fault or state is None:
        return "damaged", fault
    if running:
        return "running", f"in phase {state.phase}" if state.phase else "starting"
    if state.finished:
        if state.finished.outcome != "waiting":
            return "finished", state.finished.sentence
        decided = not state.open_gates
        return "decided" if decided else "waiting", "decided; can be resumed" if decided else state.finished.sentence
    where = f"in phase {state.phase}" if state.phase else "before its first phase"
    return "interrupted", f"stopped {where} after {state.elapsed_s:.0f} s; can be resumed"
