"""A scan of a folder: files, exports, the walk from each export, findings.

Covered: .c .cc .cpp .cxx .cu .h .hh .hpp .cuh .inl, one program or several together (names are shared between files).
Not covered: generated code that is not there, compile commands and include paths (what is not in the folder is unseen).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from probes.static.gil_scan import python_use
from probes.static.gil_scan.exports import Exports
from probes.static.gil_scan.fixes import fix_of, guard_of
from probes.static.gil_scan.frame import Summary
from probes.static.gil_scan.index import Index, Unit
from probes.static.gil_scan.macros import macros_of, prepare
from probes.static.gil_scan.model import ONLY_HELD, ONLY_RELEASED, Event, Export, Fault, Finding, Place, Report
from probes.static.gil_scan.syntax import field, line_of, parse
from probes.static.gil_scan.walk import Walker

SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".ipp"})
SKIPPED = frozenset({"build", ".git", "node_modules", "__pycache__", ".venv"})
LARGEST_BYTES = 4_000_000


def scan(root: Path, *, clock: Callable[[], float] = time.perf_counter) -> Report:
    """Scan a file or all sources below a folder. FileNotFoundError when `root` is not there."""
    began_s = clock()
    if not root.exists():
        raise FileNotFoundError(f"{root}: no such file or folder")
    texts, unreadable = _read(sources(root), root if root.is_dir() else root.parent)
    report = scan_texts(texts)
    return replace(report, unreadable=tuple(unreadable), wall_s=clock() - began_s)


def sources(root: Path) -> list[Path]:
    """The files to scan, sorted."""
    if root.is_file():
        return [root]
    found = (path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in found if not SKIPPED & set(path.relative_to(root).parts[:-1]))


def scan_texts(texts: Sequence[tuple[str, str]]) -> Report:
    """Scan sources given as (name, text)."""
    macros = {name: macro for _, text in texts for name, macro in macros_of(text).items()}
    units = [_unit(name, prepare(text, macros)) for name, text in texts]
    index = Index(units)
    finder = Exports(index)
    exports = finder.find()
    walker = Walker(index)
    walked, deep = [], []
    for export in exports:
        try:
            walked.append((export, _walk(export, walker)))
        except RecursionError:
            deep.append(f"{_file(export, walker)} ({export.function} is nested too deeply)")
    return Report(
        findings=tuple(finding for export, summary in walked for finding in _findings(export, summary, walker)),
        files=len(units), exports=tuple(exports), unseen=tuple(sorted(set(finder.unseen))),
        damaged=(*(unit.name for unit in units if unit.errors), *deep), unreadable=(),
        released=tuple(export.function for export, summary in walked if export.guard == "release" or summary.releases),
    )  # fmt: skip


def _read(paths: Iterable[Path], root: Path) -> tuple[list[tuple[str, str]], list[str]]:
    texts, unreadable = [], []
    for path in paths:
        name = path.relative_to(root).as_posix()
        try:
            if path.stat().st_size > LARGEST_BYTES:
                raise OSError(f"larger than {LARGEST_BYTES // 1_000_000} MB")
            texts.append((name, path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")))
        except OSError as error:
            unreadable.append(f"{name}: {error.strerror or error}")
    return texts, unreadable


def _unit(name: str, text: str) -> Unit:
    root = parse(text)
    return Unit(name, root, int(root.has_error))


def _file(export: Export, walker: Walker) -> str:
    known = walker.index.by_node.get(export.target.id)
    return known.file if known is not None else export.at.file


def _walk(export: Export, walker: Walker) -> Summary:
    state = ONLY_RELEASED if export.guard == "release" else ONLY_HELD
    file = _file(export, walker)
    return walker.enter(export.target, state, name=export.function, file=file, scope=export.scope, bound=export.bound)


def _findings(export: Export, summary: Summary, walker: Walker) -> list[Finding]:
    file = _file(export, walker)
    events = [*_arguments(export, file), *summary.events]
    found = []
    for fault in Fault:
        mine = list(dict.fromkeys(event for event in events if event.fault is fault))
        if mine:
            found.append(_finding(export, fault, mine, file, walker))
    return found


def _arguments(export: Export, file: str) -> list[Event]:
    """By-value Python arguments of a call_guard binding are dropped inside the guard."""
    if export.guard != "release":
        return []
    at = Place(file=file, line=export.target.start_point[0] + 1)
    return [
        Event(
            fault=Fault.PYTHON, at=at, function=export.function,
            reason=f"call_guard: the argument {name or kind} is copied and dropped without the GIL",
        )
        for name, kind in export.parameters
        if python_use.makes_object(kind)
    ]  # fmt: skip


def _finding(export: Export, fault: Fault, events: list[Event], file: str, walker: Walker) -> Finding:
    first = events[0]
    form, fix = fix_of(export, first, called_inside=export.function.split("::")[-1] in walker.called)
    body = field(export.target, "body")
    mechanical = form == "top" and body is not None
    reason = f"{first.reason}, with the GIL still held on one path" if first.partly else first.reason
    places = list(dict.fromkeys(event.at for event in events))
    return Finding(
        fault=fault, function=export.function, exported=export.name, binding=export.kind, at=first.at,
        bound_at=export.at, reason=reason, fix=fix, form=form, calls=first.calls, more=tuple(places[1:]),
        fix_at=Place(file=file, line=line_of(body)) if mechanical and body is not None else None,
        fix_column=int(body.start_point[1]) if mechanical and body is not None else 0,
        guard=guard_of(export) if mechanical else "",
    )  # fmt: skip
