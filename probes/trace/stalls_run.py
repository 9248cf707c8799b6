"""`python -m probes.trace.stalls_run [--json] PROGRAM [ARGS]`: runs a Python program and tells what blocked its loops.

The program runs in this process, as `python PROGRAM` would run it (`-m MODULE` too); the finding goes to stderr when
it ends, or to `--output`. Exit code: the program's own.
"""

from __future__ import annotations

import argparse
import dataclasses
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from probes.clean import clean, to_json
from probes.trace.stalls import STALL_S, StallWatch, observe, watching_all


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program under watch."""
    parser = argparse.ArgumentParser(prog="python -m probes.trace.stalls_run", allow_abbrev=False)
    parser.add_argument("--stall", type=float, default=STALL_S, help="seconds from which on a turn is a stall")
    parser.add_argument("--output", type=Path, help="write the observation as JSON")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    watch = StallWatch(stall_s=options.stall)
    code = 0
    with watching_all(watch):
        try:
            _run(options.program, options.args, options.module)
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        except KeyboardInterrupt:
            code = 130
    observation = observe(watch.log)
    sys.stderr.write(f"stalls: {clean(observation.summary)}\n")
    if options.output is not None:
        options.output.write_text(to_json(dataclasses.asdict(observation)) + "\n", encoding="utf-8")
    return code


def _run(program: str, args: Sequence[str], module: bool) -> None:
    """As the interpreter would: its arguments and its folder are the program's."""
    before = sys.argv
    sys.argv = [program, *args]
    try:
        if module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(program).resolve().parent))
            runpy.run_path(program, run_name="__main__")
    finally:
        sys.argv = before


if __name__ == "__main__":
    sys.exit(main())
