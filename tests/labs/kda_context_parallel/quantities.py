"""What is measured of one version, as one JSON document: errors by length, growth, culprit sites, verdict.

    python -m labs.kda_context_parallel.quantities [--release fla-core==0.5.2 | --tree DIRECTORY] [--tokens 2048 8192]

Covered: any tree that holds `fla`; the arithmetic of sm_90, whose units truncate what nobody rounded.
Not covered: outputs of the layer, other devices.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labs.kda_context_parallel.pool import Job, Pool, WorkerFailed
from labs.kda_context_parallel.releases import BEFORE, RELEASES
from labs.kda_context_parallel.verdict import Growth, SiteVerdict, StageVerdict, judge_site, judge_stage

from infra_agent.errors import InfraAgentError
from infra_agent.stack.kernels import prepare_kernels

RANKS = 8
LENGTHS = (2048, 8192, 32768)
SEED = 0
PRODUCTION = "bfloat16"
"""What upstream runs with: then only products that upstream itself widened to float32 can be narrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantities:
    """One version's figures. `culprits` names each site once, with its worst stage."""

    name: str
    fla: str
    tokens: tuple[int, ...]
    stages: tuple[StageVerdict, ...]
    sites: tuple[SiteVerdict, ...]

    @property
    def culprits(self) -> tuple[SiteVerdict, ...]:
        """The sites that do harm alone, in the order of the source."""
        worst: dict[tuple[str, int, int], SiteVerdict] = {}
        for site in sorted(self.sites, key=lambda one: max(one.alone.values())):
            if site.culprit:
                worst[site.file, site.line, site.column] = site
        return tuple(worst[key] for key in sorted(worst))

    @property
    def verdict(self) -> str:
        """The worst stage's."""
        order = ("grows with context length", "above float32, growth not shown", "clean")
        return min((stage.verdict for stage in self.stages), key=order.index)


def errors_jobs(name: str, tree: Path, lengths: Sequence[int]) -> dict[int, Job]:
    """Length → the job that measures each arithmetic with float32 inputs."""
    return {length: _job(name, tree, "errors", "float32", length) for length in lengths}


def sites_jobs(name: str, tree: Path, lengths: Sequence[int]) -> dict[int, Job]:
    """Length → the job that measures every stage and site with production's inputs."""
    return {length: _job(name, tree, "sites", PRODUCTION, length) for length in lengths}


def _job(name: str, tree: Path, what: str, dtype: str, length: int) -> Job:
    task = {"do": what, "dtype": dtype, "tokens": length, "ranks": RANKS, "seed": SEED}
    return Job(title=f"{name}: {what}, {dtype}, {length} tokens", tree=tree, task=task)


def judged(name: str, tree: Path, measured: Mapping[int, Any], float32: Mapping[int, float]) -> Quantities:
    """`measured`: length → result of a sites job; `float32`: length → error of full float32 products."""
    stages, sites = [], []
    first = measured[min(measured)]
    for stage in first["result"]:
        by_length = {length: document["result"][stage] for length, document in sorted(measured.items())}
        stages.append(judge_stage(stage, by_length, float32))
        for site in by_length[min(by_length)]["sites"]:
            effects = {length: _same(found["sites"], site) for length, found in by_length.items()}
            below = {**site, "site": {**site["site"], "file": _below(tree, site["site"]["file"])}}
            sites.append(judge_site(stage, below, effects, float32))
    return Quantities(
        name=name, fla=first["fla"], tokens=tuple(sorted(measured)), stages=tuple(stages), sites=tuple(sites)
    )


def _same(sites: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(site for site in sites if site["site"] == wanted["site"])


def _below(tree: Path, file: str) -> str:
    return Path(file).resolve().relative_to(tree.resolve()).as_posix()


def float32_errors(measured: Mapping[int, Any]) -> dict[int, float]:
    """Length → error of the split state with full float32 products."""
    return {length: float(document["result"]["ieee"]["split"]) for length, document in sorted(measured.items())}


def document(found: Quantities, float32: Mapping[int, float]) -> dict[str, Any]:
    """One JSON document, for whoever drives the lab as an experiment."""
    forward = found.stages[0]
    return {
        "name": found.name,
        "fla": found.fla,
        "verdict": found.verdict,
        "ranks": RANKS,
        "error_by_tokens": {str(length): error for length, error in forward.shipped.items()},
        "float32_error_by_tokens": {str(length): float32[length] for length in found.tokens},
        "growth": law(forward.growth),
        "culprits": [
            {
                "file": site.file,
                "line": site.line,
                "column": site.column,
                "kernel": site.kernels[0],
                "error_alone": max(site.alone.values()),
                "error_alone_by_tokens": {str(length): error for length, error in site.alone.items()},
                "growth": law(site.growth),
            }
            for site in found.culprits
        ],
        "stages": [asdict(stage) for stage in found.stages],
    }


def law(found: Growth | None) -> dict[str, float | int | None] | None:
    """A growth law as JSON; an unknown end of the interval is null."""
    if found is None:
        return None
    return {name: value if abs(value) != float("inf") else None for name, value in asdict(found).items()}


def collect(futures: Mapping[int, Future[Any]]) -> dict[int, Any]:
    """Results by length."""
    return {length: future.result() for length, future in futures.items()}


def narrate(text: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure one version."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--release", choices=[release.requirement for release in RELEASES], default=BEFORE.requirement)
    parser.add_argument("--tree", type=Path, help="a directory that holds fla, in place of a release")
    parser.add_argument("--tokens", type=int, nargs="+", default=list(LENGTHS), metavar="N", help="multiples of 512")
    options = parser.parse_args(argv)
    lengths = sorted(set(options.tokens))
    if any(length <= 0 or length % (RANKS * 64) for length in lengths):
        parser.error("lengths are multiples of 512: whole chunks of 64 tokens on 8 ranks")
    try:
        paths, trees = prepare_kernels(RELEASES, narrate)
        tree = options.tree or trees[options.release]
        name = str(options.tree or options.release)
        with Pool(paths.python, narrate) as pool:
            longest_first = lengths[::-1]
            measured = {n: pool.submit(job) for n, job in sites_jobs(name, tree, longest_first).items()}
            plain = {n: pool.submit(job) for n, job in errors_jobs(name, tree, longest_first).items()}
            float32 = float32_errors(collect(plain))
            found = judged(name, tree, collect(measured), float32)
    except (InfraAgentError, WorkerFailed) as error:
        narrate(f"error: {error}")
        return 6
    json.dump(document(found, float32), sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0 if found.verdict == "clean" else 1


if __name__ == "__main__":
    sys.exit(main())
