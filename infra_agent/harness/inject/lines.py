"""Notes which lines of a few files a Python process executes, and whether the code in memory is the code on disk.

Loaded by `sitecustomize` in an untimed launch of its own and in no other. Standard library only. Every process of the
launch appends to the same directory: `line FILE NUMBER` once per line, `code FILE SHA256 same|other` once per module
that runs, `open FILE` for a file that is not Python. FILE is its number in the request.

Covered: Python 3.11 by tracing (all threads that `threading` starts), later versions by monitoring (all threads);
processes that are forked or started.
Not covered: code that an import hook rewrites (it shows as `other`), native code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

_PREFERRED_TOOLS = (4, 3, 5, 1, 2, 0)


class Notes:
    """What was seen so far, and the file it is appended to."""

    def __init__(self, paths: list[str], directory: str) -> None:
        self._numbers = {os.path.realpath(path): number for number, path in enumerate(paths)}
        self._known: dict[str, int | None] = {}
        self._seen: set[tuple[Any, ...]] = set()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(os.path.join(directory, f"{os.getpid()}.txt"), flags, 0o644)  # noqa: PTH118
        self._write("started")

    def number(self, filename: str) -> int | None:
        """The file's number, or None for one that nobody asked about."""
        try:
            return self._known[filename]
        except KeyError:
            found = None if filename.startswith("<") else self._numbers.get(os.path.realpath(filename))
            self._known[filename] = found
            return found

    def line(self, number: int, line: int) -> None:
        """A line is about to run."""
        self._once("line", number, line)

    def module(self, number: int, code: CodeType) -> None:
        """A module's code begins to run: is it what its file holds now?"""
        if ("module", number) in self._seen:
            return
        self._seen.add(("module", number))
        try:
            with open(code.co_filename, "rb") as file:  # noqa: PTH123
                source = file.read()
            same = fingerprint(code) == fingerprint(compile(source, code.co_filename, "exec", dont_inherit=True))
            self._write(f"code {number} {hashlib.sha256(source).hexdigest()} {'same' if same else 'other'}")
        except Exception as error:
            self._write(f"code {number} {type(error).__name__} other")

    def opened(self, path: object) -> None:
        """A file is opened by Python code."""
        if isinstance(path, str | bytes | os.PathLike):
            number = self.number(os.fsdecode(path))
            if number is not None:
                self._once("open", number)

    def _once(self, *words: object) -> None:
        if words not in self._seen:
            self._seen.add(words)
            self._write(" ".join(map(str, words)))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._file, f"{text}\n".encode())


def fingerprint(code: CodeType) -> str:
    """What the code does: instructions, names and constants, of everything defined in it too."""
    parts = (
        code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_code,
        code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, [_constant(c) for c in code.co_consts],
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _constant(value: object) -> str:
    if isinstance(value, CodeType):
        return fingerprint(value)
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_constant, value)))}}}"
    return f"{type(value).__name__}:{value!r}"


def _trace(notes: Notes) -> None:
    def each_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            notes.line(int(notes.number(frame.f_code.co_filename) or 0), frame.f_lineno)
        return each_line

    def each_call(frame: FrameType, event: str, _: Any) -> Any:
        number = notes.number(frame.f_code.co_filename)
        if number is None:
            return None
        if frame.f_code.co_name == "<module>":
            notes.module(number, frame.f_code)
        return each_line

    threading.settrace(each_call)
    sys.settrace(each_call)


def _monitor(notes: Notes, monitoring: Any) -> None:
    tool = next(number for number in _PREFERRED_TOOLS if monitoring.get_tool(number) is None)
    events = monitoring.events

    def start(code: CodeType, _: int) -> Any:
        number = notes.number(code.co_filename)
        if number is not None:
            if code.co_name == "<module>":
                notes.module(number, code)
            monitoring.set_local_events(tool, code, events.LINE)
        return monitoring.DISABLE

    def line(code: CodeType, number: int) -> Any:
        file = notes.number(code.co_filename)
        if file is not None:
            notes.line(file, number)
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, "infra-agent")
    monitoring.register_callback(tool, events.PY_START, start)
    monitoring.register_callback(tool, events.LINE, line)
    monitoring.set_events(tool, events.PY_START)


def start(request_path: str) -> None:
    """Begin to take notes as the request says: `{"files": [path, ...], "directory": path}`."""
    with open(request_path, encoding="utf-8") as file:  # noqa: PTH123
        request = json.load(file)
    notes = Notes(request["files"], request["directory"])
    if any(not path.endswith(".py") for path in request["files"]):
        sys.addaudithook(lambda event, arguments: notes.opened(arguments[0]) if event == "open" else None)
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        _trace(notes)
    else:
        _monitor(notes, monitoring)
