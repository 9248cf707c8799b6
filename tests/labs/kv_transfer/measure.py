"""One run of the lab as an experiment: builds the binding, measures the gap in blocks, writes one JSON document.

    python measure.py --source DIR --result FILE --seed N

The document has version 1, quantities with samples per block, checks, signals and the digests of its sources.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE)]

from build import BuildError  # noqa: E402
from variants import EngineDied, Settings, Variant, digest, engines, interleave  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write."""
    options = _parser().parse_args(argv)
    source = options.source / "wire.cpp"
    with tempfile.TemporaryDirectory(prefix="kv-build-") as scratch:
        settings = Settings(python=options.python, cache=options.cache or Path(scratch), compute=options.compute,
                            route=options.route, seed=options.seed)  # fmt: skip
        try:
            with engines({"measured": source}, settings) as running:
                variant = running["measured"]
                interleave([variant], options.blocks, options.layers, options.seed)
        except (BuildError, EngineDied) as error:
            sys.stderr.write(f"error: {error}\n")
            return 6
    text = json.dumps(result(variant, source), indent=1)
    if options.result is None:
        sys.stdout.write(text + "\n")
    else:
        options.result.write_text(text, encoding="utf-8")
    return 0


def result(variant: Variant, source: Path) -> dict[str, Any]:
    """The document of one run."""
    moved = variant.bytes_moved
    return {
        "version": 1,
        "quantities": [
            {"name": "prefill_kept", "unit": "1", "samples": [1 - gap for gap in variant.gaps]},
            {"name": "transfer_gap", "unit": "1", "samples": variant.gaps},
            {"name": "prefill_alone_tok_per_s", "unit": "tok/s", "samples": variant.alone},
            {"name": "prefill_with_transfer_tok_per_s", "unit": "tok/s", "samples": variant.together},
        ],
        "checks": [
            {"name": "transferred bytes", "ok": variant.bytes_correct and moved > 0,
             "measured": f"{moved} bytes, {'equal' if variant.bytes_correct else 'different'}",
             "limit": "SHA-256 equal"}
        ],
        "signals": {f"state.{key}": str(variant.about[key]) for key in ("compute", "route", "rounds", "python")},
        "sources": {source.name: digest(source)},
        "detail": {"blocks": len(variant.gaps)},
    }  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=HERE / "native", help="folder with wire.cpp")
    parser.add_argument("--result", type=Path, help="file to write; standard output otherwise")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter of the stack")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--compute", choices=("torch", "numpy"), default="torch")
    parser.add_argument("--route", choices=("intranode", "internode"), default="intranode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--layers", type=int, default=80)
    return parser


if __name__ == "__main__":
    sys.exit(main())
