"""The form of a fix: which of the known ones fits an exported function.

`form` is for programs (`skills/release-gil-while-waiting`), `fix` for people. Covered: call_guard, a guard at the top
of the function, a guard around the wait, CPython's macros, guards that are misplaced or have no name.
"""

from __future__ import annotations

import re

from probes.static.gil_scan import names, python_use
from probes.static.gil_scan.model import Event, Export, Fault
from probes.static.gil_scan.syntax import descend, field, text_of

_PYTHON = re.compile(r"\b(py|pybind11|nb|nanobind)::(?!gil_scoped|call_guard|ssize_t|arg\b)\w+|\b_?Py_?[A-Z]\w+\s*\(")


def fix_of(export: Export, event: Event, *, called_inside: bool = False) -> tuple[str, str]:
    """(form, sentence) for the first event of a finding. `called_inside`: native code calls the function too."""
    if event.fault is Fault.TINY:
        return "hoist", "release once around the whole loop or sequence, with what Python needs prepared before it"
    if event.fault is Fault.PYTHON:
        return _python(event)
    if event.hint:
        return "name-the-guard", f"give the guard a name and no parentheses ({event.hint})"
    if event.partly:
        return (
            "every-path",
            "the GIL is released on one path only: put the guard where every path to the wait passes it",
        )
    return _wait(export, called_inside)


def _python(event: Event) -> tuple[str, str]:
    if "released already" in event.reason:
        return "single-release", "release in one place only: drop the inner guard or the call_guard"
    return "narrow", "end the released region before this line, or take the GIL back around it (gil_scoped_acquire)"


def guard_of(export: Export) -> str:
    """The statement that releases the GIL in the export's own library."""
    return f"{'nanobind' if export.kind == 'nanobind' else 'pybind11'}::gil_scoped_release release;"


def _wait(export: Export, called_inside: bool) -> tuple[str, str]:
    if export.kind == "cpython":
        return (
            "allow-threads",
            "Py_BEGIN_ALLOW_THREADS before the wait and Py_END_ALLOW_THREADS after it, no Python between",
        )
    space = "nb" if export.kind == "nanobind" else "py"
    release = f"{space}::gil_scoped_release"
    if touches_python(export):
        return "scope", f"{{ {release} release; … }} around the wait only: the function uses Python objects outside it"
    if called_inside:
        return (
            "call-guard",
            f"{space}::call_guard<{release}>() at the binding: native code that has no GIL calls it too",
        )
    if export.name.endswith(".__del__"):
        held = "if (PyGILState_Check()) release.emplace();"
        return "destructor", f"std::optional<{release}> release; {held} first: native code may drop the object as well"
    return "top", f"{release} release; at the top of the function, or {space}::call_guard<{release}>() at the binding"


def touches_python(export: Export) -> bool:
    """Whether the function's own text or signature has anything of Python in it."""
    body = field(export.target, "body")
    result = text_of(field(export.target, "type"))
    if any(python_use.is_object(kind) for _, kind in export.parameters) or python_use.is_object(result):
        return True
    if body is None:
        return True
    if _PYTHON.search(text_of(body)):
        return True
    return any(n.type == "declaration" and names.OBJECT_TYPE.search(text_of(field(n, "type"))) for n in descend(body))
