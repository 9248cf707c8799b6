"""`python -m probes.numeric.judge`: is a function right? Without walls; `infra-agent probe run numeric` has them.

Exit codes: 0 pass · 1 any other verdict · 2 usage, or the judge cannot work here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from probes.clean import clean, escaped, one_line
from probes.numeric.judge.card import card
from probes.numeric.judge.faults import JudgeFailure
from probes.numeric.judge.verdict import Ask, judge


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    options = _parser().parse_args(argv)
    ask = Ask(
        reference=options.reference, spec=options.spec, candidate=options.candidate, command=options.command,
        python=options.python, cache=options.cache, use_cache=not options.no_cache, shrink=not options.no_shrink,
    )  # fmt: skip
    try:
        document = judge(ask)
    except JudgeFailure as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        if options.json:
            sys.stdout.write(escaped(json.dumps({"error": {"kind": "judge", "message": str(error)}})) + "\n")
        return 2
    lines = [escaped(json.dumps(document, ensure_ascii=False))] if options.json else map(clean, card(document))
    sys.stdout.write(clean("\n".join(lines), None) + "\n")
    return 0 if document["verdict"] == "pass" else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.numeric.judge",
        description="Is a function right? Judged against a float64 reference. The candidate runs in another process, "
        "here without walls: for code that you trust. `infra-agent probe run numeric` puts it into the sandbox.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--candidate", help="FILE.py:NAME or MODULE:NAME")
    add("--command", help="shell command that reads in/NAME.npy and writes out/NAME.npy")
    add("--reference", required=True, help="FILE.py:NAME, a function of numpy arrays that keeps their type")
    add("--spec", required=True, type=Path, help="TOML file that says what goes in and out")
    add("--python", default=sys.executable, help="the candidate's interpreter; it needs numpy")
    add("--cache", type=Path, help="directory of known verdicts")
    add("--no-cache", action="store_true", help="judge anew")
    add("--no-shrink", action="store_true", help="do not make a failing case smaller")
    add("--json", action="store_true", help="one JSON document on stdout")
    return parser


if __name__ == "__main__":
    sys.exit(main())
