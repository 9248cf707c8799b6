"""Case 2 end to end: the gap, who holds the GIL, what it is not, the patch, the gap again. `make case-2` prints it."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT), str(HERE)]

from build import BuildError  # noqa: E402
from patching import patched, placebo  # noqa: E402
from variants import SOURCE, EngineDied, Settings, Variant, engines, interleave, looked  # noqa: E402

from infra_agent.judge.estimate import estimate  # noqa: E402
from probes.base import Observation, Rung  # noqa: E402
from probes.causes import Cause, Suspicion, Trial, Trials, establish, observe  # noqa: E402
from probes.static.gil_scan.output import document  # noqa: E402
from probes.static.gil_scan.scan import scan  # noqa: E402
from probes.trace.gil import fuse  # noqa: E402

LIMIT = 0.05
NAMES = ("stock", "patched", "restored", "placebo")


def main(argv: Sequence[str] | None = None) -> int:
    """0: the gap is below 5 % after the patch and its cause is established."""
    options = _parser().parse_args(argv)
    began_s = time.perf_counter()
    settings = Settings(python=options.python, cache=options.cache, compute=options.compute, route="intranode")
    try:
        with tempfile.TemporaryDirectory(prefix="kv-case-") as folder:
            result = run(settings, options, Path(folder))
    except (BuildError, EngineDied) as error:
        sys.stderr.write(f"error: {error}\n")
        return 6
    result["wall_s"] = time.perf_counter() - began_s
    if options.json:
        sys.stdout.write(json.dumps(result, indent=2, default=str) + "\n")
    else:
        say(f"took {result['wall_s']:.0f} s")
    return 0 if result["goal_met"] else 1


def run(settings: Settings, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The whole case; prints as it goes."""
    quiet = options.json
    before = scan(SOURCE.parent)
    diff, tree = patched(SOURCE.parent, document(before), folder / "patched")
    after = scan(tree)
    sources = {
        "stock": SOURCE, "patched": tree / SOURCE.name, "restored": copied(SOURCE, folder / "restored"),
        "placebo": placebo(SOURCE, folder / "placebo"),
    }  # fmt: skip
    with engines(sources, settings) as running:
        variants = [running[name] for name in NAMES]
        _tell_about(variants[0], quiet)
        signals = looked(running["stock"], options.seconds)
        fused = fuse.observe(signals)
        _tell_probe(before, fused, quiet)
        interleave(variants, options.blocks, options.layers, settings.seed)
    cause = caused(running, fused)
    gaps = {variant.name: interval(variant) for variant in variants}
    _tell_gaps(gaps, variants, diff, after, cause, quiet)
    met = gaps["patched"]["high"] < LIMIT and not after.findings and all(v.bytes_correct for v in variants)
    return {
        "gaps": gaps, "scan_before": document(before), "scan_after": document(after), "diff": diff,
        "observation": asdict(fused), "cause": cause_document(cause),
        "bytes_correct": all(v.bytes_correct for v in variants),
        "bytes_moved": sum(v.bytes_moved for v in variants), "goal_met": met and isinstance(cause, Cause),
    }  # fmt: skip


def copied(source: Path, folder: Path) -> Path:
    """The source put back: another file with the same text."""
    folder.mkdir()
    return Path(shutil.copy(source, folder))


def interval(variant: Variant) -> dict[str, float]:
    """Gap with its 95 % interval, from the log-ratios of the blocks."""
    logs = [math.log(both / alone) for alone, both in zip(variant.alone, variant.together, strict=True)]
    found = estimate(logs)
    return {"gap": 1 - found.ratio, "low": 1 - found.high, "high": 1 - found.low, "blocks": found.n}


def caused(running: dict[str, Variant], fused: Observation) -> Cause | Suspicion:
    """Slow-down by the transfer (alone over together, 1 is none) in the four arms."""

    def trial(name: str, change: str) -> Trial:
        variant = running[name]
        slow = tuple(alone / both for alone, both in zip(variant.alone, variant.together, strict=True))
        return Trial(change=change, samples=slow)

    trials = Trials(
        metric="slow_down", unit="1", base=trial("stock", "none"),
        intervention=trial("patched", "GIL released while intranode_dispatch waits"),
        reversal=trial("restored", "the source as it was, built and launched again"),
        placebo=trial("placebo", "GIL released in combine, which waits for nothing"),
    )  # fmt: skip
    return establish("the GIL held by intranode_dispatch while it waits", fused.where, trials)


def cause_document(cause: Cause | Suspicion) -> dict[str, Any]:
    """What an observation of it says."""
    return asdict(observe(cause, probe="experiment.gil-release", rung=Rung.TRACE, wall_s=0.0))


def say(text: str) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _tell_about(variant: Variant, quiet: bool) -> None:
    about = variant.about
    if not quiet:
        say(f"Stack     prefill loop ({about['compute']}), kv-transfer thread, two more processes; {about['route']}")


def _tell_probe(before: Any, fused: Observation, quiet: bool) -> None:
    if quiet:
        return
    detail = fused.detail
    finding = before.findings[0] if before.findings else None
    if finding is not None:
        say(f"Source    {finding.function} ({finding.at}): {finding.reason}   [static.gil-scan]")
    holder, victim = detail["holder"], detail["victim"]
    if holder:
        line = f":{holder['line']}" if holder["line"] else " (no line: stripped)"
        say(f"Holder    {holder['thread']} in {holder['function']} {Path(holder['file']).name}{line}, "
            f"{holder['share']:.0%} of the samples that held the GIL, called from {holder['caller']}")  # fmt: skip
    if victim:
        p50, p90, p99 = (victim[f"p{share}_s"] * 1e3 for share in (50, 90, 99))
        part = f"{victim['share']:.0%} of its time"
        waits = (
            f"{victim['per_second']:.0f} waits a second, {part}, p50 {p50:.1f} ms, p90 {p90:.1f} ms, p99 {p99:.1f} ms"
        )
        say(f"Victim    {victim['thread']}: {waits}   [{victim['seen_by']}]")
    said = ", ".join(f"{name} {'yes' if yes else 'no'}" for name, yes in detail["signals_agree"].items())
    say(f"Sure      {fused.signals['confidence']}: {said}")
    for ruled in detail["rule_outs"]:
        word = {True: "Not      ", False: "PERHAPS  ", None: "Unclear  "}[ruled["ruled_out"]]
        say(f"{word} {ruled['alternative']}: {ruled['sentence']}   [{ruled['experiment']}]")
    for name, why in detail["not_available"].items():
        say(f"No        {name}: {why}")


def _tell_gaps(
    gaps: dict[str, dict[str, float]],
    variants: list[Variant],
    diff: str,
    after: Any,
    cause: Cause | Suspicion,
    quiet: bool,
) -> None:
    if quiet:
        return
    say("Patch")
    for line in diff.splitlines():
        say(f"    {line}")
    free = ", ".join(after.released)
    clean = f"{free} release the GIL and use no Python object there; no function waits with it held"
    say(f"Scan      of the patched source: {clean if not after.findings else f'{len(after.findings)} findings'}")
    words = {"stock": "before", "patched": "after", "restored": "put back", "placebo": "placebo"}
    for name, gap in gaps.items():
        ends = f"[{gap['low']:.1%}, {gap['high']:.1%}]"
        say(f"Gap       {words[name]:<9} {gap['gap']:6.1%}  {ends}  {gap['blocks']:.0f} blocks")
    moved = sum(variant.bytes_moved for variant in variants)
    right = all(variant.bytes_correct for variant in variants)
    say(
        f"Bytes     {moved / 1e6:.0f} MB moved, every block's SHA-256 {'equal on both sides' if right else 'DIFFERENT'}"
    )
    if isinstance(cause, Cause):
        say(f"Cause     {cause.name}: changed {cause.effect:+.1%}, undone when put back, placebo without effect")
    else:
        say(f"No cause  {cause.name}: {cause.reason}")
    met = gaps["patched"]["high"] < LIMIT
    say(f"Goal      prefill with transfer within {LIMIT:.0%} of prefill alone: {'met' if met else 'NOT met'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make case-2", description=__doc__)
    parser.add_argument("--python", type=Path, required=True, help="interpreter with torch and pybind11 (make lab-kv)")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "kv-lab", help="where builds are kept"
    )
    parser.add_argument("--compute", choices=("torch", "numpy"), default="torch")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each signal and experiment of the probe")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
