"""`python -m probes.micro.redundancy`: what the programs of a kernel repeat. Exit 0 pass · 1 any other verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TextIO

from probes.base import Verdict
from probes.clean import clean, to_json
from probes.micro.redundancy.probe import observe


def main(argv: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command; the exit code is returned."""
    parser = argparse.ArgumentParser(prog="python -m probes.micro.redundancy", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the stack's interpreter, with triton and torch in it")
    parser.add_argument("--call", required=True, help="MODULE:FUNCTION or FILE.py:FUNCTION without arguments")
    parser.add_argument("--kernel", default="", help="only this kernel's launches")
    parser.add_argument("--hardware", default="H100", help="what decides which resource binds")
    parser.add_argument("--path", action="append", default=[], help="a folder to import from (repeatable)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    found = observe(options.python, options.call, options.kernel, paths=tuple(options.path), device=options.hardware)
    stream = out or sys.stdout
    if options.json:
        stream.write(to_json(asdict(found)) + "\n")
    else:
        text = [f"{found.verdict}: {found.summary}", *found.detail.get("table", ()), *found.detail.get("lines", ())]
        stream.write(clean("\n".join(text) + "\n"))
    return 0 if found.verdict is Verdict.PASS else 1


if __name__ == "__main__":
    sys.exit(main())
