"""Does an expression or a declaration need the GIL? Names and types decide.

Covered: CPython API, pybind11 and nanobind objects made, called, asked, indexed or iterated.
Not covered: copies of objects hidden in other types (a struct that holds a py::object).
"""

from __future__ import annotations

import re

from probes.static.gil_scan import names
from probes.static.gil_scan.syntax import Callee


def is_object(kind: str) -> bool:
    """A type whose values own a Python reference."""
    return names.OBJECT_TYPE.search(kind) is not None


def makes_object(kind: str) -> bool:
    """A declaration of this type creates, copies or drops a reference."""
    return is_object(kind) and not re.search(r"[&*]|\bPyObject\b", kind)


def of_call(callee: Callee, receiver_type: str, variable_type: str) -> str | None:
    """What a call touches, in words; None when it can be made without the GIL."""
    if callee.receiver is None:
        if names.PYTHON_CALL.match(callee.name) and not names.NO_GIL_NEEDED.match(callee.name):
            return f"calls {callee.name}"
        if len(callee.path) > 1 and callee.path[0] in names.NAMESPACES:
            return None if callee.path[1] in {*names.SAFE_FUNCTIONS, "detail"} else f"uses {callee.qualified}"
        if is_object(variable_type) and "PyObject" not in variable_type:
            return f"calls the Python object {callee.name}"
        return None
    if not (is_object(receiver_type) or names.HANDLE_TYPE.search(receiver_type)) or "PyObject" in receiver_type:
        return None
    if callee.name in names.RAW_METHODS and (
        names.RAW_ON.search(receiver_type) or callee.name in ("ptr", "is", "is_none")
    ):
        return None
    return f"uses a Python object ({callee.name})"
