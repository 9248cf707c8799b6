"""Looks things up for a brain: files and logs, fixed text in the sources, playbooks, sections of the dossier.

Every look is an event with what was shown as an artifact; the next dossier carries it as quoted data.
Covered: regular files of the stack's sources as the best configuration has them, links resolved first; engine logs of
this run; all bounded in bytes, files and time. Hidden files and directories are left out.
Not covered: writing anything, and binary files.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from infra_agent.agent.actions import ConsultAction, ReadAction, RecallAction, SearchCodeAction
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.quote import cut
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.sections import section_entries
from infra_agent.agent.source_roots import source_roots
from infra_agent.errors import LedgerError
from infra_agent.harness.session import Session
from infra_agent.ledger import artifacts
from infra_agent.ledger import kinds as k
from infra_agent.library.playbooks import load_playbooks
from probes.clean import strip

LookAction = ReadAction | SearchCodeAction | ConsultAction | RecallAction
LOG = "log:"
MAX_FILE_BYTES = 4 * 2**20
"""Larger files are not opened: nothing that a person wrote is that long."""
LINE_CHARACTERS = 2_000
"""A longer line is cut, and says so."""
MAX_SHOWN_CHARACTERS = 16_000
MAX_MATCHES = 40
HIT_CHARACTERS = 300
MAX_FILES = 20_000
MAX_SEARCH_S = 10.0
SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


class Shown(NamedTuple):
    """What a look gave: where it comes from, the lines shown, how many there are, and what was left out in words."""

    source: str
    lines: tuple[str, ...]
    total: int
    left_out: str = ""


def look(session: Session, action: LookAction, dossier: Dossier) -> str:
    """Carry out one look and record it; returns its id. ActionError when there is nothing to show."""
    shown = _bounded(_shown(session, action, dossier))
    text = "\n".join(shown.lines)
    reading = k.ReadingMade(
        id=f"R{len(session.state.readings) + 1}",
        turn=dossier.turn,
        action=action.kind,
        source=shown.source,
        artifact=_store(session, text, shown.source),
        lines=len(shown.lines),
        total=shown.total,
        left_out=shown.left_out,
    )
    session.ledger.append(reading)
    session.narrator.line(reading.id, f"{shown.source}: {reading.lines} of {reading.total} lines")
    return reading.id


def _store(session: Session, text: str, source: str) -> str:
    """The artifact of what is shown; refused when the same text of the same source is still in the brain's sight."""
    name = session.ledger.put_artifact(text.encode("utf-8"))
    for earlier in session.state.readings[-VISIBLE_READINGS:]:
        if earlier.artifact == name and earlier.source == source:
            raise ActionError(f"that is {earlier.id}, shown in the dossier, and it has not changed", code="repeat")
    return name


VISIBLE_READINGS = 3
"""Newest looks whose text every dossier carries; of older ones only the name."""


def _shown(session: Session, action: LookAction, dossier: Dossier) -> Shown:
    if isinstance(action, ReadAction):
        return _read(session, action)
    if isinstance(action, SearchCodeAction):
        return _search(session, action)
    if isinstance(action, ConsultAction):
        return _consult(action)
    entries = section_entries(dossier, action.section)
    if action.start > max(1, len(entries)):
        raise ActionError(f"section {action.section} has {len(entries)} entries; start is {action.start}")
    wanted = entries[action.start - 1 :]
    return Shown(f"dossier:{action.section} from {action.start}", tuple(wanted), len(entries))


def _bounded(shown: Shown) -> Shown:
    """At most so many characters, cut at a line; the cut is named."""
    kept = _fitting(shown.lines)
    if len(kept) == len(shown.lines):
        return shown
    left_out = f"{len(shown.lines) - len(kept)} more lines did not fit: ask for less at once"
    return shown._replace(lines=kept, left_out="; ".join(filter(None, (left_out, shown.left_out))))


def _fitting(lines: Sequence[str]) -> tuple[str, ...]:
    size = 0
    for count, line in enumerate(lines):
        size += len(line) + 1
        if size > MAX_SHOWN_CHARACTERS:
            return tuple(lines[:count])
    return tuple(lines)


def _read(session: Session, action: ReadAction) -> Shown:
    name, data = _log(session, action.path) if action.path.startswith(LOG) else _source(session, action.path)
    lines = [cut(strip(line), LINE_CHARACTERS) for line in data.decode("utf-8", "replace").split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    if action.start_line > max(1, len(lines)):
        raise ActionError(f"{name} has {len(lines)} lines; start_line is {action.start_line}")
    first = action.start_line
    wanted = lines[first - 1 : first - 1 + action.lines]
    shown = _fitting([f"{number:>5} {line}" for number, line in enumerate(wanted, start=first)])
    last = first - 1 + len(shown)
    left_out = f"lines {last + 1} to {len(lines)}" if last < len(lines) else ""
    return Shown(f"{name}:{first}-{last}", shown, len(lines), left_out)


def _log(session: Session, name: str) -> tuple[str, bytes]:
    launch = name.removeprefix(LOG)
    ended = session.state.launches_ended.get(launch)
    if ended is None or not ended.log_artifact:
        kept = [f"{LOG}{id_}" for id_, end in session.state.launches_ended.items() if end.log_artifact]
        raise ActionError(f"no log {name!r}; kept: {', '.join(kept[-8:]) or 'none'}")
    try:
        path = artifacts.path_of(session.run_dir, ended.log_artifact)
    except LedgerError as error:
        raise ActionError(error.message) from None
    return name, path.read_bytes()[-MAX_FILE_BYTES:]


def _source(session: Session, name: str) -> tuple[str, bytes]:
    roots = source_roots(session)
    for prefix, root in roots.items():
        path = _inside(root, name.removeprefix(prefix)) if name.startswith(prefix) else None
        if path is not None:
            return name, _content(path, name)
    raise ActionError(f"no file {name!r}: {_named(roots)}")


def _named(roots: Mapping[str, Path]) -> str:
    """How paths begin, for somebody who named one that is not there."""
    if not roots:
        return "the stack names no sources that are there"
    prefixes = ", ".join(filter(None, roots))
    return f"paths begin with {prefixes}" if prefixes else "paths are named from the source's root"


def _inside(root: Path, name: str) -> Path | None:
    """The file of that name if, links resolved, it lies under the root and no part of its path is hidden."""
    if "\0" in name:
        return None
    try:
        path = (root / name).resolve()
        inside = path.is_relative_to(root) and path.is_file()
    except OSError:
        return None
    return path if inside and not _hidden(path.relative_to(root).parts) else None


def _hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(".") for part in parts)


def _content(path: Path, name: str) -> bytes:
    """A regular file's bytes. Opened without blocking, so that a pipe put in its place cannot hold the run."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise ActionError(f"{name} cannot be read: {error.strerror}") from None
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise ActionError(f"{name} is no regular file")
        if facts.st_size > MAX_FILE_BYTES:
            raise ActionError(f"{name} has {facts.st_size} bytes; files up to {MAX_FILE_BYTES} are shown")
        data = file.read(MAX_FILE_BYTES)
    if b"\0" in data:
        raise ActionError(f"{name} is a binary file")
    return data


def _search(session: Session, action: SearchCodeAction) -> Shown:
    """Lines that hold the text, with file and number; stops at its limits and says so."""
    source = f"search_code:{action.text!r} in {action.files}"
    started_s = session.clock()
    found: list[str] = []
    seen = 0
    for path, name in _files(source_roots(session), action.files):
        seen += 1
        found += _matches(path, name, action.text, MAX_MATCHES - len(found))
        stopped = _why_stop(len(found), seen, lambda: session.clock() - started_s)
        if stopped:
            return Shown(source, tuple(found), len(found), f"stopped at {stopped}: narrow text or files")
    if not found:
        raise ActionError(f"no line with {action.text!r} in {seen} files that match {action.files!r}")
    return Shown(source, tuple(found), len(found))


def _why_stop(found: int, seen: int, elapsed_s: Callable[[], float]) -> str:
    if found >= MAX_MATCHES:
        return f"{MAX_MATCHES} matches"
    if seen >= MAX_FILES:
        return f"{MAX_FILES} files"
    return f"{MAX_SEARCH_S:.0f} s" if elapsed_s() > MAX_SEARCH_S else ""


def _files(roots: Mapping[str, Path], pattern: str) -> Iterator[tuple[Path, str]]:
    for prefix, root in roots.items():
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in SKIPPED_FOLDERS)
            for name in sorted(names):
                path = Path(folder) / name
                if not name.startswith(".") and fnmatch.fnmatch(name, pattern) and not path.is_symlink():
                    yield path, f"{prefix}{path.relative_to(root).as_posix()}"


def _matches(path: Path, name: str, text: str, limit: int) -> list[str]:
    try:
        data = _content(path, name)
    except ActionError:
        return []
    wanted = text.encode("utf-8")
    if wanted not in data:
        return []
    lines = data.decode("utf-8", "replace").split("\n")
    hits = [f"{name}:{number}: {_hit(line)}" for number, line in enumerate(lines, 1) if text in line]
    return hits[:limit]


def _hit(line: str) -> str:
    return cut(strip(line).strip(), HIT_CHARACTERS)


def _consult(action: ConsultAction) -> Shown:
    pages = {page.name: page for page in load_playbooks()}
    if not action.name:
        return Shown("playbooks", tuple(f"{name}: {page.symptom}" for name, page in pages.items()), len(pages))
    page = pages.get(action.name)
    if page is None:
        raise ActionError(f"no playbook {action.name!r}; known: {', '.join(pages)}")
    levers = [
        f"lever {lever.family}: {lever.cause}; expected x{lever.low:g} to {lever.high:g}; refuted by {lever.refuted_by}"
        for lever in page.levers
    ]
    lines = (page.symptom, *levers, *page.text.split("\n"))
    return Shown(f"playbook:{page.name}", lines, len(lines))
