"""`python -m probes.numeric.answers`: does one server give the answers of another?

Covered: ask both (or a saved set) the same prompts, compare, measure the check's own strength, print a card and,
with --json, one JSON document as the last line. Exit 0 pass · 1 any other verdict · 2 usage.
Not covered: starting or stopping servers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TextIO

from probes.base import Cost, Json, Observation, Rung, Verdict, Where
from probes.clean import clean, escaped
from probes.numeric.collect import collect
from probes.numeric.compare import PROBE, TOLERANCE_NAT, compare
from probes.numeric.mutants import KillRate, kill_rate
from probes.numeric.oracle import OracleProcess
from probes.numeric.prompts import BUILTIN, filled, load_prompts
from probes.numeric.types import Answer, AnswerFileError, AnswerPrompt, Oracle, OracleError

Answers = tuple[Answer, ...]


def main(argv: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command; the exit code is returned."""
    parser = _parser()
    options = parser.parse_args(argv)
    if (options.oracle_python is None) != (options.oracle_model is None):
        parser.error("--oracle-python and --oracle-model belong together")
    try:
        prompts = filled(load_prompts(options.prompts), options.concurrency)
        saved = None if options.against_file is None else load_answers(options.against_file)
    except (AnswerFileError, OSError, UnicodeDecodeError) as error:
        parser.error(str(error))
    observation, strength = _check(options, prompts, saved)
    stream = out or sys.stdout
    stream.write(clean(card(observation, strength)))
    if options.json:
        stream.write(escaped(json.dumps(_document(observation, strength), ensure_ascii=False)) + "\n")
    return 0 if observation.verdict is Verdict.PASS else 1


def save_answers(path: str, answers: Answers) -> None:
    """Write answers as a JSON array."""
    document = [answer.to_json() for answer in answers]
    Path(path).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load_answers(path: str) -> Answers:
    """Read answers that `save_answers` wrote; AnswerFileError when the file holds something else."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise AnswerFileError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, list) or not document:
        raise AnswerFileError(f"{path} is not a list of saved answers")
    return tuple(Answer.from_json(entry) for entry in document)


def _check(
    options: argparse.Namespace, prompts: Sequence[AnswerPrompt], saved: Answers | None
) -> tuple[Observation, KillRate | None]:
    began = time.monotonic()
    if saved is not None:
        prompts = [AnswerPrompt(id=answer.prompt_id, text=answer.prompt) for answer in saved]
    repeats = None
    if saved is None:
        reference = _ask(options, options.against_url, prompts)
        repeats = _ask(options, options.against_url, prompts) if options.repeat else None
    else:
        reference = saved
    candidate = _ask(options, options.url, prompts)
    if options.save is not None:
        save_answers(options.save, candidate)
    requests = len(prompts) * (1 if saved is not None else 3 if options.repeat else 2)
    try:
        with _oracle(options) as oracle:
            cost = Cost(wall_s=time.monotonic() - began, requests=requests)
            tolerance = options.tolerance
            found = compare(reference, candidate, oracle=oracle, tolerance_nat=tolerance, repeat=repeats, cost=cost)
            wanted = options.mutants and found.verdict not in (Verdict.INVALID, Verdict.ERROR)
            strength = kill_rate(reference, oracle, tolerance) if wanted else None
    except OracleError as error:
        return _failed(str(error), len(prompts), time.monotonic() - began, requests), None
    return weaken(found, strength), strength


def weaken(found: Observation, strength: KillRate | None) -> Observation:
    """A check that lets mutants through cannot say pass."""
    if strength is None or strength.sufficient or found.verdict is not Verdict.PASS:
        return found
    reason = f"the check refused only {strength.killed} of {strength.total} broken answer sets; {found.summary}"
    return replace(found, verdict=Verdict.INCONCLUSIVE, summary=reason)


def _ask(options: argparse.Namespace, url: str, prompts: Sequence[AnswerPrompt]) -> Answers:
    return collect(
        url,
        options.endpoint,
        options.model,
        prompts,
        max_tokens=options.max_tokens,
        concurrency=options.concurrency,
        timeout_s=options.timeout,
        logprobs=options.logprobs,
    )


def _oracle(options: argparse.Namespace) -> AbstractContextManager[Oracle | None]:
    if options.oracle_python is None:
        return nullcontext(None)
    return OracleProcess(options.oracle_python, options.oracle_model, timeout_s=options.oracle_timeout)


def _failed(reason: str, prompts: int, wall_s: float, requests: int) -> Observation:
    return Observation(
        probe=PROBE,
        rung=Rung.NUMERIC,
        verdict=Verdict.ERROR,
        summary=reason,
        where=Where(input=f"{prompts} prompts"),
        cost=Cost(wall_s=wall_s, requests=requests),
    )


def card(observation: Observation, strength: KillRate | None = None) -> str:
    """What a person reads."""
    cost = observation.cost
    lines = [
        f"answers  {observation.verdict.value}  {observation.summary}",
        f"  input    {observation.where.input}",
        f"  against  {observation.against.name or '-'} {observation.against.digest[:12]}".rstrip(),
    ]
    lines += [
        f"  {row['status']:<9}{row['prompt_id']:<5} {row['reason']}"
        for row in observation.detail.get("prompts", ())
        if row["status"] != "same"
    ]
    lines += [f"  check    {check.name}: {check.measured}" for check in observation.checks if not check.ok]
    if strength is not None:
        lived = f"; survivors: {', '.join(strength.survivors)}" if strength.survivors else ""
        lines.append(f"  strength {strength.killed} of {strength.total} broken answer sets refused{lived}")
    lines.append(f"  cost     {cost.wall_s:.1f} s, {cost.requests} requests")
    return "\n".join(lines) + "\n"


def _document(observation: Observation, strength: KillRate | None) -> Mapping[str, Json]:
    return asdict(observation) | {"strength": None if strength is None else strength._asdict()}


def _number(kind: type[int] | type[float], low: float) -> Callable[[str], int | float]:
    def read(text: str) -> int | float:
        value = kind(text)
        if not low <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"must be at least {low:g}")
        return value

    read.__name__ = kind.__name__
    return read


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.numeric.answers", description="Same answers? Measured greedily."
    )
    add = parser.add_argument
    add("--url", required=True, help="root URL of the candidate, without /v1")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--against-url", help="root URL of the reference server")
    source.add_argument("--against-file", help="answers of the reference, saved earlier with --save")
    add("--save", metavar="FILE", help="keep the candidate's answers")
    add("--model", required=True, help="model field of the requests")
    add(
        "--oracle-python", help="interpreter of the stack (torch, transformers); without it, differences stay undecided"
    )
    add("--oracle-model", help="model directory for the oracle")
    add("--oracle-timeout", type=_number(float, 1), default=300.0, metavar="S")
    add("--prompts", default=BUILTIN, help="builtin:answers or a JSONL file of {prompt: text}")
    add("--endpoint", choices=("chat", "completions"), default="chat")
    add("--max-tokens", type=_number(int, 1), default=48)
    add("--concurrency", type=_number(int, 1), default=4, help="requests at once: the load of the goal")
    add("--timeout", type=_number(float, 0.1), default=120.0, metavar="S", help="per request")
    add("--tolerance", type=_number(float, 0), default=TOLERANCE_NAT, metavar="NAT", help="largest gap of a near-tie")
    add("--logprobs", action="store_true", help="ask for log-probabilities (the engine must offer them)")
    add("--repeat", action=argparse.BooleanOptionalAction, default=True, help="measure the reference twice")
    add("--mutants", action="store_true", help="also measure how many broken answer sets the check refuses")
    add("--json", action="store_true", help="print one JSON document as the last line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
