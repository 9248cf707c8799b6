"""The sweep behind `python -m probes.numeric.growth`: a candidate at several sizes, its error and the reference's.

Exit codes: 0 it does not grow faster than the reference in its precision · 1 it does, or it cannot be told · 2 usage.

Covered: a regime of choice (long memory shows what fresh random data forget); the same inputs for both.
Not covered: several sizes at once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from probes.clean import clean, one_line, to_json
from probes.numeric.growth import Growth, faster, fit, measure
from probes.numeric.inputs.regimes import ORDINARY, draw, regimes
from probes.numeric.judge.faults import CandidateFailure, JudgeFailure
from probes.numeric.judge.process import CandidateProcess
from probes.numeric.judge.runner import PlainRunner, Runner
from probes.numeric.judge.session import Session, values_of
from probes.numeric.judge.source import function_source
from probes.numeric.judge.spec import Sizes, Spec, SpecError, load_spec
from probes.numeric.judge.verdict import load_function
from probes.numeric.precision import FORMATS, Array
from probes.numeric.tolerance.expected import Reference, ReferenceFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What to sweep: the size's name and values, how often, under which regime."""

    size: str
    values: tuple[int, ...]
    repeats: int = 5
    regime: str = ORDINARY
    seed: int = 0


def sweep(candidate: str, reference: str, spec: Spec, ask: Sweep, python: str, runner: Runner) -> tuple[Growth, Growth]:
    """The growth of the candidate's error, and of the reference's own in the promised precision."""
    trusted = Reference(load_function(reference), spec)
    source = function_source(candidate, spec.call.files)
    own: dict[float, list[float]] = {float(value): [] for value in ask.values}
    with tempfile.TemporaryDirectory(prefix="growth-") as name:
        exchange = Path(name).resolve() / "exchange"
        exchange.mkdir()
        copy = source.stage(exchange.parent)
        process = CandidateProcess(python, runner, exchange, spec.limits.memory_bytes, spec.call.env)
        session = Session(process, spec, source, exchange, copy)
        try:
            process.start([copy], [Path(reference.rpartition(":")[0]).absolute()], spec.limits.load_s)
            session.load()

            def error_at(size: int, repeat: int) -> float:
                sizes = dict(spec.sizes[0]) | {ask.size: size}
                inputs = draw(spec, sizes, ask.regime, np.random.default_rng((ask.seed, repeat, size)))
                exact, working = _both(trusted, spec, inputs, sizes)
                own[float(size)].append(_relative(working, exact))
                return _relative(values_of(session.call(f"{size}-{repeat}", sizes, inputs), spec), exact)

            errors = measure(error_at, ask.values, ask.repeats)
        finally:
            process.stop()
            session.close()
    floor = FORMATS[spec.precision].unit_roundoff / 64
    return fit(errors, floor=floor), fit(own, floor=floor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    options = _parser().parse_args(argv)
    try:
        spec = load_spec(options.spec)
        ask = _ask(options, spec)
        candidate, reference = sweep(options.candidate, options.reference, spec, ask, options.python, PlainRunner())
    except (JudgeFailure, SpecError, ReferenceFailure, CandidateFailure) as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        return 2
    grows = faster(candidate, reference)
    if options.json:
        document = {"candidate": asdict(candidate), "reference": asdict(reference), "grows_faster": grows}
        sys.stdout.write(to_json(document) + "\n")
    else:
        _show(ask, candidate, reference, grows)
    return 0 if grows is False or (grows is None and candidate.tells == "flat") else 1


def _show(ask: Sweep, candidate: Growth, reference: Growth, grows: bool | None) -> None:
    rows = zip(candidate.sizes, candidate.errors, reference.errors, strict=True)
    lines = [f"{ask.size:>10}{'candidate':>12}{'reference':>12}   ({ask.regime}, {ask.repeats} repeats)"]
    lines += [f"{size:10g}{error:12.2e}{own:12.2e}" for size, error, own in rows]
    lines += [
        f"Candidate  {candidate.sentence()}",
        f"Reference  {reference.sentence()} (float64 against its own precision)",
    ]
    answer = {True: "grows faster than the reference", False: "does not grow faster", None: "cannot tell"}[grows]
    sys.stdout.write(clean("\n".join([*lines, f"Verdict    {answer}"])) + "\n")


def _both(trusted: Reference, spec: Spec, inputs: tuple[Array, ...], sizes: Sizes) -> tuple[list[Array], list[Array]]:
    exact = list(trusted.values(inputs, sizes, "float64"))
    working = trusted.values(inputs, sizes, "float64" if spec.precision == "float64" else "float32")
    return exact, list(trusted.as_stored(working))


def _relative(found: Sequence[Array], exact: Sequence[Array]) -> float:
    error = sum(float(np.sum((a - b) ** 2)) for a, b in zip(found, exact, strict=True))
    size = sum(float(np.sum(b**2)) for b in exact)
    return float(np.sqrt(error / size)) if size else 0.0


def _ask(options: argparse.Namespace, spec: Spec) -> Sweep:
    name, _, text = options.size.partition("=")
    try:
        values = tuple(int(each) for each in text.split(","))
    except ValueError as error:
        raise SpecError(f"--size {options.size!r}: write NAME=128,256,512,1024") from error
    if name not in spec.sizes[0]:
        raise SpecError(f"--size: no size {name!r}; there are {', '.join(spec.sizes[0])}")
    if options.regime not in regimes(spec):
        raise SpecError(f"--regime: {options.regime!r} is none of {', '.join(regimes(spec))}")
    return Sweep(size=name, values=values, repeats=options.repeats, regime=options.regime, seed=options.seed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.numeric.growth", description="Does the error grow with a size?", allow_abbrev=False
    )
    add = parser.add_argument
    add("--candidate", required=True, help="FILE.py:NAME or MODULE:NAME")
    add("--reference", required=True, help="FILE.py:NAME")
    add("--spec", required=True, type=Path, help="TOML file that says what goes in and out")
    add("--size", required=True, help="NAME=128,256,512,1024")
    add("--repeats", type=int, default=5, help="inputs at each size")
    add("--regime", default=ORDINARY, help="kind of inputs, such as 'slow decay, weak write'")
    add("--seed", type=int, default=0)
    add("--python", default=sys.executable, help="the candidate's interpreter")
    add("--json", action="store_true", help="one JSON document on stdout")
    return parser
