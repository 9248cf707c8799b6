"""Was a patch used? Judged by the lines that the running engine executed, and by what its memory held of the files.

Covered: patched Python files in any process of the launch; files that are not Python, as far as Python code opened them
or a process has them mapped.
Not covered: processes whose interpreter ignores PYTHONPATH; they leave no notes, and the answer is `inconclusive`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra_agent.harness.code_places import STRONGEST, Place
from probes.base import Against, Cost, Observation, Rung, Verdict, Where

PROBE = "code-engagement"
VARIABLE = "INFRA_AGENT_LINES"
_REQUEST = "lines.json"
_NOTES = "lines"
_LARGEST_NOTES_BYTES = 16 * 2**20
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedFile:
    """A file that the patch leaves behind: its name in the patch, its path inside the launch, its new text."""

    name: str
    path: Path
    content: bytes
    places: tuple[Place, ...] = ()

    @property
    def is_python(self) -> bool:
        """Whether lines of it can be seen."""
        return self.name.endswith(".py")


@dataclass(slots=True)
class Notes:
    """What the processes of a launch noted, by the number of the file in the request."""

    processes: int = 0
    lines: dict[int, set[int]] = field(default_factory=dict)
    code: dict[int, set[tuple[str, bool]]] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)


def prepare(scratch: Path, files: Sequence[PatchedFile]) -> dict[str, str]:
    """Put the request into the launch's own directory; the environment that makes processes take notes."""
    directory = scratch / _NOTES
    directory.mkdir(exist_ok=True)
    request = {"files": [str(file.path) for file in files], "directory": str(directory)}
    (scratch / _REQUEST).write_text(json.dumps(request), encoding="utf-8")
    return {VARIABLE: str(scratch / _REQUEST)}


def read_notes(scratch: Path) -> Notes:
    """All notes so far. What is not well formed is passed over: the engine's processes could write there too."""
    notes = Notes()
    for path in sorted((scratch / _NOTES).glob("*.txt")):
        with suppress(OSError):
            if path.is_symlink() or path.stat().st_size > _LARGEST_NOTES_BYTES:
                continue
            for line in path.read_text("utf-8", "replace").splitlines():
                _note(notes, line.split())
    return notes


def mapped(pids: Collection[int], files: Sequence[PatchedFile]) -> set[int]:
    """Numbers of the files that a process has mapped or open now."""
    wanted = {str(file.path): number for number, file in enumerate(files)}
    found: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            maps = (Path("/proc") / str(pid) / "maps").read_text("utf-8", "replace")
            found |= {number for path, number in wanted.items() if path in maps}
        with suppress(OSError):
            for handle in (Path("/proc") / str(pid) / "fd").iterdir():
                number = wanted.get(str(handle.readlink()))
                found |= set() if number is None else {number}
    return found


def judge_code(files: Sequence[PatchedFile], notes: Notes, cost: Cost) -> Observation:
    """Pass: the patch's strongest kind of place was executed, by code that is the candidate's own.

    Inconclusive: nothing could be seen. The detail names every place with what became of it.
    """
    python = [(number, file) for number, file in enumerate(files) if file.is_python]
    others = [(number, file) for number, file in enumerate(files) if not file.is_python]
    foreign = [file.name for number, file in python if not _is_own(file, notes.code.get(number, set()))]
    executed = [p for n, file in python for p in file.places if p.proof & notes.lines.get(n, set())]
    idle = [p for n, file in python for p in file.places if not p.proof & notes.lines.get(n, set())]
    opened = [file.name for number, file in others if number in notes.opened]
    unseen = [file.name for number, file in others if number not in notes.opened]
    verdict, text = _verdict(bool(python), notes, foreign, executed, idle, opened, unseen)
    return Observation(
        probe=PROBE,
        rung=Rung.STATIC,
        verdict=verdict,
        summary=text,
        where=_where(executed or idle, files),
        cost=cost,
        against=Against(kind="baseline", name="the candidate's own sources"),
        signals={"engaged": verdict is Verdict.PASS},
        detail={
            "places": [_row(place, True) for place in executed] + [_row(place, False) for place in idle],
            "opened": list(opened), "cannot_tell": list(unseen), "processes": notes.processes,
        },
    )  # fmt: skip


def judge_run(files: Sequence[PatchedFile], notes: Notes, built: Mapping[str, str], cost: Cost) -> Observation:
    """`judge_code` of a program that ends. `built`: what it says it was built from, path → SHA-256.

    A compiler is no process that takes notes: that a file was built in is the program's own word, and is said to be.
    """
    digests = {number: hashlib.sha256(file.content).hexdigest() for number, file in enumerate(files)}
    told = {number: built[file.name] for number, file in enumerate(files) if file.name in built}
    wrong = [files[number].name for number, digest in told.items() if digest != digests[number]]
    notes.opened |= {number for number in told if not files[number].is_python}
    found = judge_code(files, notes, cost)
    if not wrong:
        return found
    text = f"not engaged: it was built from another {_listed(wrong)} than the candidate's"
    return replace(found, verdict=Verdict.FAIL, summary=text, signals={"engaged": False})


def _verdict(
    any_python: bool,
    notes: Notes,
    foreign: Sequence[str],
    executed: Sequence[Place],
    idle: Sequence[Place],
    opened: Sequence[str],
    unseen: Sequence[str],
) -> tuple[Verdict, str]:
    if foreign:
        return Verdict.FAIL, f"not engaged: the running engine's {_listed(foreign)} is not the candidate's"
    strongest = next((kind for kind in STRONGEST if any(p.kind == kind for p in (*executed, *idle))), None)
    proved = [place for place in executed if place.kind == strongest]
    rest = f"; never executed: {_listed(idle)}" if idle else ""
    blind = f"; cannot tell whether {_listed(unseen)} was used" if unseen else ""
    if proved:
        return Verdict.PASS, f"engaged: executed {_listed(proved)}{rest}{blind}"
    if any_python and not notes.processes:
        return Verdict.INCONCLUSIVE, "cannot tell: no process of the engine took notes of its lines"
    if any_python and strongest is not None:
        return Verdict.FAIL, f"not engaged: no request executed {_listed(idle)}"
    if opened:
        return Verdict.PASS, f"engaged: the engine opened {_listed(opened)}{blind}"
    return Verdict.INCONCLUSIVE, f"cannot tell whether {_listed(unseen) or 'a removed file'} was used"


def _is_own(file: PatchedFile, seen: Iterable[tuple[str, bool]]) -> bool:
    """Every module that ran from this file was compiled from exactly the candidate's text; so it is if none ran."""
    digest = hashlib.sha256(file.content).hexdigest()
    return all(found == digest and same for found, same in seen)


def _note(notes: Notes, words: Sequence[str]) -> None:
    if words == ["started"]:
        notes.processes += 1
    elif len(words) == 3 and words[0] == "line" and words[1].isdecimal() and words[2].isdecimal():
        notes.lines.setdefault(int(words[1]), set()).add(int(words[2]))
    elif len(words) == 4 and words[0] == "code" and words[1].isdecimal():
        notes.code.setdefault(int(words[1]), set()).add((words[2], words[3] == "same"))
    elif len(words) == 2 and words[0] == "open" and words[1].isdecimal():
        notes.opened.add(int(words[1]))


def _row(place: Place, executed: bool) -> dict[str, bool | int | str]:
    return {
        "file": place.file, "line": place.line, "function": place.name, "kind": place.kind, "executed": executed,
    }  # fmt: skip


def _where(places: Sequence[Place], files: Sequence[PatchedFile]) -> Where:
    if places:
        return Where(file=places[0].file, line=places[0].line)
    return Where(file=files[0].name, line=1) if files else Where(whole_system=True)


def _listed(things: Sequence[object]) -> str:
    shown = ", ".join(str(thing) for thing in things[:_SHOWN])
    return f"{shown} and {len(things) - _SHOWN} more" if len(things) > _SHOWN else shown
