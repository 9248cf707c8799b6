"""`make case-3`: the decode kernel whose value tiles repeat their set-up, from the count to the predicted gain.

Exit 0 when the repetition is found, a legal merge exists, and outputs and state are bit-identical; 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labs.kda_decode import predict, study

from infra_agent.errors import InfraAgentError
from infra_agent.stack.cache import cache_dir
from infra_agent.stack.kernels import kernels_python
from probes.kernels.process import KernelProbeError, ask
from probes.static.triton_compile.table import lines, row

Say = Callable[[str], None]


def main() -> int:
    """Run all steps and print their tables."""
    options = _parser().parse_args()
    start = time.monotonic()
    try:
        python = options.python or kernels_python(_note)
        with tempfile.TemporaryDirectory(prefix="kda-") as scratch:
            document = run(python, Path(options.cache or cache_dir() / "kernel-facts"), Path(scratch), options.seeds)
    except (KernelProbeError, InfraAgentError) as error:
        _note(f"inconclusive: {error} {getattr(error, 'hint', '')}")
        return 1
    _say(f"\n{time.monotonic() - start:.0f} s in all")
    if options.json:
        Path(options.json).write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    return 0 if document["found"] and document["bit_identical"] else 1


def run(python: str, cache: Path, scratch: Path, seeds: int) -> dict[str, Any]:
    """Every step, printed as it is done; the document of all quantities."""
    counted = study.count(python, 32)
    compiled = study.compile_all(python, cache)
    _say("Compiled for sm_90, as this call specialises it (operands aligned to 16 bytes)")
    _table(compiled)
    loose = study.compile_unaligned(python, cache)
    _say("\nThe same with no alignment known")
    _table(loose)
    tree, diffs = study.merge(python, counted, study.legal_choices(compiled, loose), scratch)
    merged = study.count(python, 128, (str(tree),)) if diffs else counted
    _say("\nCounted under the interpreter, one sequence, one head, K = V = 128")
    _counts(counted, merged)
    _say("\nProposed by skills/merge-value-tiles\n" + ("".join(diffs) or "nothing: the facts do not speak for it"))
    cases = study.prove_equal(python, tree, seeds) if diffs else []
    _equality(cases)
    found = study.predictions(counted, merged) if diffs else []
    _say("\nPredicted gain of the merge (limits; repeated bytes all cached ... none cached)")
    for text in predict.lines(found):
        _say(text)
    _grid(found)
    device = _device(python)
    _say(f"\nDevice time: {device}")
    return {
        "found": min((r["reuse"] for r in counted.shared), default=1.0) == 4.0, "diffs": diffs,
        "bit_identical": bool(cases) and all(case["equal"] for case in cases), "cases": cases,
        "before": counted.launch, "after": merged.launch, "compiled": [row(one) for one in compiled],
        "compiled_unaligned": [row(one) for one in loose], "predictions": [asdict(one) for one in found],
        "device_time": device,
    }  # fmt: skip


def _table(found: list[Any]) -> None:
    head, *rest = lines(found)
    _say(f"  {'BV':>4}  {head}")
    for facts, text in zip(found, rest, strict=True):
        _say(f"  {facts.constants['BV']:>4}  {text}")


def _counts(before: study.Counted, after: study.Counted) -> None:
    names = ("q", "k", "g", "dt_bias", "beta", "A_log", "v", "h0")
    _say(f"  {'':<14}{'BV=32':>10}{'BV=128':>10}")
    for name in names:
        _say(f"  {'reuse ' + name:<14}{before.reuse(name):>10.1f}{after.reuse(name):>10.1f}")
    for kind in ("exp", "sqrt", "divide", "flop", "reduce"):
        _say(f"  {kind:<14}{before.work(kind)['total']:>10}{after.work(kind)['total']:>10}")
    _say(f"  {'bytes issued':<14}{before.issued_bytes:>10}{after.issued_bytes:>10}")
    for axis in before.launch["axes"]:
        exps = before.work("exp").get("along_index", {}).get(axis["name"], 0)
        _say(f"  {exps} exponentials are repeated along {axis['name']} (line {axis['line']}, {axis['extent']} values)")


def _equality(cases: list[dict[str, Any]]) -> None:
    _say("\nOutputs and state of both versions, bit for bit, under the interpreter")
    for name in dict.fromkeys(case["case"] for case in cases):
        same = [case for case in cases if case["case"] == name]
        differing = sum(case["differing"] for case in same)
        values = sum(case["values"] for case in same)
        said = "equal" if not differing else f"{differing} differ"
        _say(f"  {name:<42}{len(same)} seeds  {values:>7} values  {said}")
    found = {(one["operand"], one["line"], one["direction"]) for case in cases for one in case["outside"]}
    for operand, line, direction in sorted(found):
        _say(f"  found on the way: {direction}s of {operand} past its end, line {line} (keys 96: no mask there)")


def _grid(found: list[predict.Prediction]) -> None:
    programs = ", ".join(f"{n} x 32 heads = {n * 32}" for n in (1, 4, 16))
    _say(f"  merged grids: {programs} programs; below one per multiprocessor (H100: 132) splitting more pays instead")
    for regime in dict.fromkeys(one.regime for one in found):
        worth = [one.hardware for one in found if one.regime == regime and one.worth_it]
        _say(f"  {regime}: worth a measurement on {', '.join(worth) or 'none of these'}")


def _device(python: str) -> str:
    try:
        reply = ask(python, "probes.kernels.device_worker", {}, timeout_s=60)
    except KernelProbeError as error:
        return f"not measured: {error.message}"
    return f"not measured: {reply['name']} is here, but this lab does not time kernels yet"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make case-3", description=__doc__)
    parser.add_argument("--python", help="an interpreter with torch, triton and fla-core; default: prepared once")
    parser.add_argument("--cache", help="where compiled facts are kept")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json", help="write all quantities to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
