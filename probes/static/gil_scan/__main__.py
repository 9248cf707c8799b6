"""`python -m probes.static.gil_scan DIR`: native functions that keep Python's GIL while they wait.

Exit codes: 0 nothing found, 1 findings, 2 usage. `--exit-zero` is for reports that should not stop a build.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from probes.clean import clean, one_line, to_json
from probes.static.gil_scan.output import document, lines, sarif
from probes.static.gil_scan.scan import scan, sources

VERSION = "1.0"


def main(argv: Sequence[str] | None = None) -> int:
    """Scan and print."""
    options = _parser().parse_args(argv)
    try:
        if options.path.exists() and not sources(options.path):
            raise ValueError(f"{options.path}: no C or C++ source below it")
        report = scan(options.path)
        if options.sarif is not None:
            options.sarif.write_text(to_json(sarif(report, VERSION)) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        if options.json:
            sys.stdout.write(to_json({"error": {"message": one_line(str(error))}}) + "\n")
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        return 2
    sys.stdout.write(to_json(document(report)) + "\n" if options.json else clean("\n".join(lines(report))) + "\n")
    return 1 if report.findings and not options.exit_zero else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.static.gil_scan", allow_abbrev=False,
        description="Exported C++ functions that wait with Python's GIL held, and Python objects used without it",
    )  # fmt: skip
    parser.add_argument("path", type=Path, metavar="DIR", help="folder or file to scan")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument("--sarif", type=Path, metavar="FILE", help="also write SARIF 2.1.0")
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 with findings too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
