"""`python -m probes.trace.profile TRACE [--against BASELINE]`.

Exit codes: 0 read (or nothing got slower), 1 something got slower or it cannot be told, 2 usage or an unreadable file.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from probes.base import Verdict
from probes.clean import clean, one_line, to_json
from probes.trace.profile.card import card
from probes.trace.profile.run import profile, profile_against
from probes.trace.profile.source import UnreadableTrace


def main(argv: Sequence[str] | None = None) -> int:
    """Read, show, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m probes.trace.profile", allow_abbrev=False)
    parser.add_argument("trace", type=Path, help="a profile, plain or packed")
    parser.add_argument("--against", type=Path, metavar="BASELINE", help="a trace of the same work to compare with")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    try:
        against = options.against
        observation = profile(options.trace) if against is None else profile_against(against, options.trace)
    except UnreadableTrace as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        return 2
    document = {"observation": dataclasses.asdict(observation)}
    sys.stdout.write((to_json(document) if options.json else clean(card(observation))) + "\n")
    return 0 if observation.verdict is Verdict.PASS else 1


if __name__ == "__main__":
    sys.exit(main())
