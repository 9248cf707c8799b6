"""`python -m probes.capacity.roofline`: what a model step needs and what binds it, from arithmetic.

Covered: presets and config.json files, all hardware of the table and this CPU (measured), readings of sparse attention,
Amdahl's bound. Exit 0 pass · 1 any other verdict · 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from probes.base import Verdict
from probes.capacity.roofline import sparse
from probes.capacity.roofline.bound import worth_trying
from probes.capacity.roofline.hardware import Hardware, hardware
from probes.capacity.roofline.report import lines, observe, roofline
from probes.capacity.roofline.shape import PRESETS, Shape, shape_of
from probes.capacity.roofline.step import BYTES, Setting
from probes.clean import clean, to_json


def main(argv: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command; the exit code is returned."""
    parser = _parser()
    options = parser.parse_args(argv)
    stream = out or sys.stdout
    try:
        if options.share is not None:
            _, said = worth_trying(options.share, options.factor, options.noise)
            stream.write(clean(said) + "\n")
            return 0
        shape, device = read_shape(options.model), read_hardware(options.hardware)
        setting = Setting(
            batch=options.batch, context=options.context, new_tokens=options.new_tokens, weights=options.weights,
            cache=options.cache, drafts=options.drafts, dense_attention=options.dense,
        )  # fmt: skip
    except (KeyError, ValueError, OSError) as error:
        parser.error(str(error.args[0] if isinstance(error, KeyError) else error))
    found = roofline(shape, setting, options.phase, device, options.devices)
    observation = observe(found, options.measured)
    if options.json:
        stream.write(to_json(asdict(observation)) + "\n")
    else:
        text = lines(found, options.measured)
        if shape.indexer is not None:
            text += sparse.lines(sparse.readings(shape, options.context), options.context)
        stream.write(clean("\n".join(text) + "\n"))
    return 0 if observation.verdict is Verdict.PASS else 1


def read_shape(name: str) -> Shape:
    """A preset, or the shape in a config.json (or a directory with one)."""
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name) / "config.json" if Path(name).is_dir() else Path(name)
    if not path.is_file():
        raise ValueError(f"{name!r} is neither a preset ({', '.join(PRESETS)}) nor a config.json")
    return shape_of(json.loads(path.read_text(encoding="utf-8")), path.parent.name)


def read_hardware(name: str) -> Hardware:
    """An entry of the table, or `cpu`: this machine, measured now."""
    if name.lower() == "cpu":
        from probes.capacity.roofline.measure import this_cpu

        return this_cpu()
    return hardware(name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m probes.capacity.roofline", description=__doc__)
    parser.add_argument("--model", default="glm-5.2", help="a preset, or a config.json")
    parser.add_argument("--hardware", default="H100", help="A100, H100, H200, B200, RTX4090, MI300X, ..., or cpu")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--phase", choices=("decode", "prefill"), default="decode")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--context", type=int, default=4096, help="tokens in the cache")
    parser.add_argument("--new-tokens", type=int, default=1, help="tokens of a prefill")
    parser.add_argument("--weights", choices=sorted(BYTES), default="bf16")
    parser.add_argument("--cache", choices=sorted(BYTES), default="bf16")
    parser.add_argument("--drafts", type=int, default=0, help="tokens predicted ahead and checked in the step")
    parser.add_argument("--dense", action="store_true", help="as if attention were dense")
    parser.add_argument("--measured", type=float, help="a measured time of the step in seconds")
    parser.add_argument("--share", type=float, help="only Amdahl's bound: a kernel's share of the step, 0..1")
    parser.add_argument("--factor", type=float, default=float("inf"), help="with --share: how much faster it becomes")
    parser.add_argument("--noise", type=float, default=0.01, help="with --share: smallest gain that can be proved")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
