"""Inside the stack's interpreter: reads the request, finds kernels by name, and answers once.

Covered: private answer descriptor, refusals with kind and next step, kernels named MODULE:NAME or FILE.py:NAME,
decorators (autotune, heuristics) unwrapped. Not covered: what is asked (the workers').
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LAST_LINES = 6


class Refused(Exception):
    """Why there is no result, for people and programs."""

    def __init__(self, kind: str, message: str, *, hint: str = "", lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.lines = list(lines)


def serve(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer the one request on standard input with `work`'s result. Every exception becomes a refusal."""
    fd = int(sys.argv[1])
    request = json.loads(sys.stdin.buffer.read())
    sys.path[:0] = [str(path) for path in request.get("paths", ())]
    try:
        reply = work(request)
    except Refused as refused:
        reply = {"refused": vars(refused) | {"message": refused.message}}
    except Exception as error:
        lines = traceback.format_exception(error)[-LAST_LINES:]
        flat = [line for part in lines for line in part.rstrip().split("\n")][-LAST_LINES:]
        message = f"{type(error).__name__}: {first_line(error)}"
        reply = {"refused": {"kind": "failed", "message": message, "lines": flat}}
    body = json.dumps(reply, default=str).encode()
    data = struct.pack(">I", len(body)) + body
    while data:
        data = data[os.write(fd, data) :]
    sys.stdout.flush()
    os._exit(0)


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    text = str(error).strip()
    return text.splitlines()[0] if text else ""


def need_triton() -> Any:
    """The triton package, or a refusal that says where it was looked for."""
    try:
        import triton
    except ImportError as error:
        raise Refused(
            "no-triton", f"triton is not installed in {sys.executable}: {first_line(error)}",
            hint="name the stack's interpreter with --python, or install triton there",
        ) from error  # fmt: skip
    return triton


def load_module(name: str) -> Any:
    """A module by dotted name or by path of a .py file."""
    path = Path(name)
    try:
        if name.endswith(".py"):
            if not path.is_file():
                raise Refused("no-kernel", f"there is no file {name}")
            sys.path.insert(0, str(path.resolve().parent))
            spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module
            spec.loader.exec_module(module)
            return module
        return importlib.import_module(name)
    except Refused:
        raise
    except Exception as error:
        kind, hint = "import", "install the module in the stack's environment, or add its folder with --path"
        if "0 active drivers" in str(error):
            kind, hint = "needs-device", "the module asks for a graphics card while it is imported"
        raise Refused(
            kind, f"{name} cannot be imported: {type(error).__name__}: {first_line(error)}", hint=hint,
            lines=traceback.format_exc().splitlines()[-LAST_LINES:],
        ) from error  # fmt: skip


def find(reference: str) -> Any:
    """The object of MODULE:NAME (NAME may have dots)."""
    module_name, _, name = reference.rpartition(":")
    if not module_name or not name:
        raise Refused("no-kernel", f"{reference!r} is not MODULE:NAME", hint="for example fla.ops.kda.gate:kda_gate")
    found = load_module(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            known = ", ".join(sorted(kernels_of(found))) or "none"
            raise Refused("no-kernel", f"{module_name} has no {name}", hint=f"kernels there: {known}")
        found = getattr(found, part)
    return found


def is_kernel(thing: Any) -> bool:
    """Whether it is a Triton kernel, with or without autotune and heuristics around it."""
    return type(innermost(thing)).__name__ in ("JITFunction", "InterpretedFunction")


def innermost(thing: Any) -> Any:
    """The jitted function inside autotune and heuristics."""
    while type(thing).__name__ in ("Autotuner", "Heuristics"):
        thing = thing.fn
    return thing


def wrappers(thing: Any) -> list[Any]:
    """Autotuner and Heuristics objects around a kernel, outermost first."""
    found = []
    while type(thing).__name__ in ("Autotuner", "Heuristics"):
        found.append(thing)
        thing = thing.fn
    return found


def kernels_of(module: Any) -> list[str]:
    """Names of the kernels a module defines itself and that can be launched (helpers that return a value are not)."""
    names = []
    for name, thing in vars(module).items():
        if not is_kernel(thing):
            continue
        function = innermost(thing).fn
        if getattr(function, "__module__", None) == getattr(module, "__name__", None) and function.__name__ == name:
            names.append(name)
    return names
