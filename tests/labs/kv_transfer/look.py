"""The lab's local probes, as documents for a run: the scan of the binding, and who holds the GIL of a loaded engine.

    python look.py scan|gil --source DIR --result FILE

Needs what `requirements.txt` lists. The engine under `gil` is one of its own: no measured window is disturbed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE)]

from build import BuildError  # noqa: E402
from variants import EngineDied, Settings, engine, looked  # noqa: E402

from probes.base import Observation, Verdict  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Look and write."""
    options = _parser().parse_args(argv)
    try:
        observation = scanned(options.source) if options.what == "scan" else spied(options)
    except (BuildError, EngineDied, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 6
    text = json.dumps({"version": 1, "observations": [told(observation)]}, indent=1)
    if options.result is None:
        sys.stdout.write(text + "\n")
    else:
        options.result.write_text(text, encoding="utf-8")
    return 0


def scanned(source: Path) -> Observation:
    """Native functions that wait with the GIL held, and Python objects used without it."""
    from probes.static.gil_scan.output import observe
    from probes.static.gil_scan.scan import scan

    return observe(scan(source))


def spied(options: argparse.Namespace) -> Observation:
    """Holder, victim and rule-outs of a loaded engine."""
    from probes.trace.gil.fuse import observe

    with tempfile.TemporaryDirectory(prefix="kv-build-") as scratch:
        settings = Settings(python=options.python, cache=Path(scratch), compute=options.compute)
        with engine("looked at", options.source / "wire.cpp", settings) as variant:
            return observe(looked(variant, options.seconds))


def told(observation: Observation) -> dict[str, Any]:
    """The observation as a run's probes write it."""
    known = observation.verdict in (Verdict.PASS, Verdict.FAIL)
    where = {key: value for key, value in asdict(observation.where).items() if value is not None}
    where.pop("whole_system")
    return {
        "version": 1,
        "verdict": observation.verdict.value if known else "inconclusive",
        "summary": observation.summary[:400],
        "where": where,
        "quantities": [
            {"name": q.name, "unit": q.unit, "value": q.value} for q in observation.quantities
        ],
        "signals": dict(observation.signals),
        "detail": dict(observation.detail),
    }  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("scan", "gil"))
    parser.add_argument("--source", type=Path, default=HERE / "native", help="folder with wire.cpp")
    parser.add_argument("--result", type=Path, help="file to write; standard output otherwise")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter of the stack")
    parser.add_argument("--compute", choices=("torch", "numpy"), default="torch")
    parser.add_argument("--seconds", type=float, default=2.0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
