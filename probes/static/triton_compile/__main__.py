"""`python -m probes.static.triton_compile`: what a Triton kernel needs of cards that are not here.

Covered: a table, or one JSON document with --json. Exit 0 pass · 1 any other verdict · 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from probes.base import Json, Verdict, Where
from probes.clean import clean, to_json
from probes.kernels.process import KernelProbeError
from probes.static.triton_compile.architectures import DEFAULT_ARCHITECTURES
from probes.static.triton_compile.probe import Ask, compile_kernels, observation_of, observe
from probes.static.triton_compile.table import lines


def main(argv: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command; the exit code is returned."""
    parser = _parser()
    options = parser.parse_args(argv)
    if not options.kernel and not options.call:
        parser.error("name a kernel with --kernel, or a call that launches it with --call")
    try:
        given = dict(parse_setting(text) for text in options.set)
    except ValueError as error:
        parser.error(str(error))
    wanted = Ask(
        python=options.python, cache=options.cache, kernel=options.kernel, call=options.call, given=given,
        architectures=tuple(options.arch) or DEFAULT_ARCHITECTURES, paths=tuple(options.path),
        variants=tuple({"options": {"num_warps": warps}} for warps in options.warps),
    )  # fmt: skip
    stream = out or sys.stdout
    if options.json:
        found = observe(wanted)
        stream.write(to_json(asdict(found)) + "\n")
        return 0 if found.verdict is Verdict.PASS else 1
    try:
        facts = compile_kernels(wanted)
    except KernelProbeError as error:
        stream.write(clean(f"cannot tell ({error.kind}): {error.message}\n  {error.hint}\n"))
        return 1
    stream.write(clean("\n".join(lines(facts)) + "\n"))
    return 0 if observation_of(facts, Where(kernel=wanted.kernel or wanted.call)).verdict is Verdict.PASS else 1


def parse_setting(text: str) -> tuple[str, Json]:
    """`NAME=VALUE` with a JSON value, Python's True, False and None, or a type's name."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    words = {"True": True, "False": False, "None": None}
    if value in words:
        return name, words[value]
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m probes.static.triton_compile", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the stack's interpreter, with triton in it")
    parser.add_argument("--kernel", default="", help="MODULE:NAME, FILE.py:NAME, or MODULE for all its kernels")
    parser.add_argument("--call", default="", help="MODULE:FUNCTION without arguments; its launches are traced")
    parser.add_argument("--arch", action="append", default=[], help="sm_90, gfx942, ... (repeatable)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a constant, or a type")
    parser.add_argument(
        "--warps", action="append", default=[], type=int, help="compile with so many warps (repeatable)"
    )
    parser.add_argument("--path", action="append", default=[], help="a folder to import from (repeatable)")
    parser.add_argument("--cache", type=Path, default=Path(".kernel-facts"), help="where compiled facts are kept")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
