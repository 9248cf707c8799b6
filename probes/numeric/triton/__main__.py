"""`python -m probes.numeric.triton`: dots and their effects in a kernel of your own, and what devices allow.

    ... dots DRIVER.py                 every tl.dot that the driver's run passes
    ... sweep DRIVER.py                the error that each float32 site causes alone, and what is left without it
    ... legality                       which input_precision is legal on which device, and what it becomes

A driver is a Python file with a function `run()` that launches kernels on CPU tensors and returns an array (numpy or
torch). Run this with the interpreter of the environment in which the kernels live. `--json`: one document.

Covered: any Triton kernel that the interpreter can run. Not covered: launching on a GPU.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from probes.clean import clean, one_line, to_json
from probes.numeric.triton.arithmetic import Arithmetic
from probes.numeric.triton.devices import DEVICES, SM_90, Device
from probes.numeric.triton.policy import Policy
from probes.numeric.triton.sites import DotLog, find
from probes.numeric.triton.sweep import Array, Sweep, sweep

USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, do, print."""
    options = _parser().parse_args(argv)
    try:
        if options.command == "legality":
            return _legality(options.json)
        return _driven(options)
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed for {sys.executable}; use the interpreter of the kernels' environment"
    except (OSError, ValueError) as error:
        message = str(error)
    sys.stderr.write(f"error: {one_line(message)}\n")
    return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.numeric.triton", description=(__doc__ or "").splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in (("dots", "every tl.dot of a run"), ("sweep", "one call site changed at a time")):
        command = commands.add_parser(name, help=words, description=words)
        command.add_argument("driver", type=Path, help="a Python file with run()")
        command.add_argument(
            "--device", choices=sorted(DEVICES), default=SM_90.name, help="the device that is modelled"
        )
        command.add_argument("--tf32", choices=("rounded", "truncated"), default="truncated", help="what tf32 drops")
        command.add_argument(
            "--force", choices=[str(one) for one in Arithmetic], help="every float32 product like this"
        )
        command.add_argument(
            "--override", action="append", default=[], metavar="FILE:LINE=ARITHMETIC", help="one site like this"
        )
        command.add_argument("--json", action="store_true", help="one JSON document")
    command = commands.add_parser("legality", help="what each device allows", description="what each device allows")
    command.add_argument("--json", action="store_true", help="one JSON document")
    return parser


def _legality(as_json: bool) -> int:
    from probes.numeric.triton.legality import legality, table

    found = legality()
    document = {
        device: {asked: {**asdict(one), "reads": one.reads} for asked, one in row.items()}
        for device, row in found.items()
    }
    _write(to_json(document) if as_json else table(found))
    return 0


def _driven(options: argparse.Namespace) -> int:
    os.environ["TRITON_INTERPRET"] = "1"
    device = DEVICES[options.device]
    policy = device.policy(Arithmetic(f"tf32-{options.tf32}"))
    if options.force:
        policy = Policy(force=Arithmetic(options.force))
    run = _runner(options.driver, device)
    if options.override:
        policy = policy.overriding(_overrides(options.override, run(policy)[1]))
    if options.command == "dots":
        rows = run(policy)[1].rows()
        _write(to_json(rows) if options.json else "\n".join(_dot_line(row) for row in rows))
        return 0
    done = sweep(run, policy)
    _write(to_json(_sweep_document(done)) if options.json else _sweep_table(done))
    return 0


def _runner(driver: Path, device: Device) -> Callable[[Policy], tuple[Array, DotLog]]:
    from probes.numeric.triton.emulate import emulated
    from probes.numeric.triton.memory import LaunchMemory

    names = runpy.run_path(str(driver), run_name="driver")
    if not callable(names.get("run")):
        raise ValueError(f"{driver} has no function run()")
    memory = LaunchMemory()

    def run(policy: Policy) -> tuple[Array, DotLog]:
        try:
            with emulated(policy, device, memory) as log:
                result = names["run"]()
        except Exception as error:
            raise ValueError(f"run() of {driver} failed: {error}") from error
        return np.asarray(result.float().numpy() if hasattr(result, "numpy") else result), log

    return run


def _overrides(written: Sequence[str], log: DotLog) -> dict[Any, Arithmetic]:
    found = {}
    for text in written:
        place, _, word = text.rpartition("=")
        sites = find(log.sites(), place)
        if not sites:
            raise ValueError(f"no tl.dot was called at {place}; seen: {', '.join(map(str, log.sites()))}")
        if word not in list(Arithmetic):
            raise ValueError(f"no arithmetic {word!r}; known: {', '.join(Arithmetic)}")
        found.update(dict.fromkeys(sites, Arithmetic(word)))
    return found


def _dot_line(row: dict[str, Any]) -> str:
    site, shape = row["site"], "x".join(str(size) for size in row["shape"])
    asked = row["asked"] or "nothing"
    return (
        f"{Path(site['file']).name}:{site['line']}  {row['kernel']}  {row['dtype']} {shape}  "
        f"asked {asked}, got {row['precision']}, computed {row['arithmetic']}  x{row['count']}"
    )


def _sweep_document(done: Sweep) -> dict[str, Any]:
    return {"shipped": done.shipped, "effects": [asdict(effect) for effect in done.effects]}


def _sweep_table(done: Sweep) -> str:
    lines = [f"as shipped: relative error {done.shipped:.2e} against all float32 products exact"]
    for effect in done.effects:
        lines.append(
            f"{effect.site}  {effect.function}  {effect.arithmetic}: alone {effect.alone:.2e}, "
            f"all but this {effect.without:.2e}"
        )
    return "\n".join(lines)


def _write(text: str) -> None:
    sys.stdout.write(clean(text, None) + "\n")


if __name__ == "__main__":
    sys.exit(main())
