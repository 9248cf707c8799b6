"""Judges two sets of load results, of any known tool, or says why they cannot be compared.

Two runs taken one after the other differ by whatever else changed in between; that is not the configuration's doing.
So a ratio is given only for runs that were taken in turns, pair by pair, of one load, one set of prompts and one tool,
with nothing missing and nobody faster by saying less.
Covered: order in time, load, prompts, counts, failures, length of answers, the judge's interval over pairs.
Not covered: whether each run was a fresh launch (no tool's result tells), which is said beside the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from infra_agent.judge.estimate import MIN_BLOCKS, estimate
from infra_agent.judge.types import Estimate
from probes.load.foreign.model import ForeignRun

FASTER_IS_MORE = ("output_tok_per_s", "steady_output_tok_per_s", "total_tok_per_s", "requests_per_s", "goodput_per_s")
LENGTH_SHARE = 0.02
THRESHOLD = 0.01
Outcome = Literal["better", "worse", "no difference that matters", "inconclusive", "not comparable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`ratio` is B over A of the metric, oriented so that above 1 is better. `reasons`: why there is none."""

    metric: str
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pairs: tuple[tuple[float, float], ...] = ()
    order: str = ""
    ratio: Estimate | None = None


def compare(
    a: Sequence[ForeignRun], b: Sequence[ForeignRun], *, metric: str, order: str | None = None, alpha: float = 0.05
) -> Comparison:
    """The judgement. `order`: letters such as ABBAAB, for results that do not tell when they were made."""
    reasons = [*_runs(a, b), *_load(a, b), *_prompts(a, b), *_counts(a, b), *_values(a, b, metric)]
    sequence, trouble = _sequence(a, b, order)
    reasons += trouble
    notes = _notes(a, b, sequence)
    if reasons:
        return Comparison(metric=metric, outcome="not comparable", reasons=tuple(reasons), notes=notes, order=sequence)
    pairs = _pairs(_in_order(a, b, sequence), metric)
    if len(pairs) < MIN_BLOCKS:
        reasons = [f"one arm always came first ({sequence}): {len(pairs)} comparisons with both neighbours are too few"]
        return Comparison(metric=metric, outcome="not comparable", reasons=tuple(reasons), notes=notes, order=sequence)
    sign = 1.0 if metric in FASTER_IS_MORE else -1.0
    found = estimate([sign * math.log(after / before) for before, after in pairs], alpha)
    return Comparison(metric=metric, outcome=_outcome(found), notes=notes, pairs=pairs, order=sequence, ratio=found)


def _outcome(found: Estimate) -> Outcome:
    if found.low > 1.0 and found.ratio >= 1.0 + THRESHOLD:
        return "better"
    if found.high < 1.0:
        return "worse"
    inside = found.high < 1.0 + THRESHOLD and found.low > 1.0 / (1.0 + THRESHOLD)
    return "no difference that matters" if inside else "inconclusive"


def _runs(a: Sequence[ForeignRun], b: Sequence[ForeignRun]) -> list[str]:
    found = [f"{run.source} is invalid: {run.refused}" for run in (*a, *b) if run.refused is not None]
    tools = sorted({run.tool for run in (*a, *b)})
    if len(tools) > 1:
        found.append(f"two tools ({', '.join(tools)}) call different things by the same name")
    models = sorted({run.model for run in (*a, *b) if run.model})
    if len(models) > 1:
        found.append(f"different models: {', '.join(models)}")
    if len(a) != len(b):
        found.append(f"{len(a)} runs of A and {len(b)} of B do not make pairs")
    elif len(a) < MIN_BLOCKS:
        found.append(f"{len(a)} of each: an interval needs at least {MIN_BLOCKS} pairs; a single run shows nothing")
    return found


def _load(a: Sequence[ForeignRun], b: Sequence[ForeignRun]) -> list[str]:
    found = []
    loads = sorted({run.load for run in (*a, *b)})
    if len(loads) > 1:
        found.append(f"different loads: {'; '.join(loads)}")
    requests = sorted({run.requests for run in (*a, *b) if run.requests is not None})
    if len(requests) > 1:
        found.append(f"different numbers of requests: {', '.join(map(str, requests))}")
    return found


def _prompts(a: Sequence[ForeignRun], b: Sequence[ForeignRun]) -> list[str]:
    """The same work in both arms. Repeats may differ from each other as long as both arms have the same ones."""
    left, right = sorted(run.prompts or "" for run in a), sorted(run.prompts or "" for run in b)
    if "" in left or "" in right:
        totals = [sorted(run.input_tokens or 0 for run in arm) for arm in (a, b)]
        if 0 in totals[0] + totals[1]:
            return ["the results do not tell which prompts were sent, nor how long they were"]
        return [] if totals[0] == totals[1] else [f"different prompts: input tokens {totals[0]} and {totals[1]}"]
    return [] if left == right else [f"different prompts, by {(*a, *b)[0].prompts_by}"]


def _counts(a: Sequence[ForeignRun], b: Sequence[ForeignRun]) -> list[str]:
    found = []
    for run in (*a, *b):
        if run.completed is None or run.failed is None:
            found.append(f"{run.source} does not tell how many requests failed")
        elif run.failed:
            found.append(f"{run.source}: {run.failed} requests failed")
    if found:
        return found[:4]
    tokens = [run.output_tokens for run in (*a, *b)]
    if None in tokens or 0 in tokens:
        return ["a result has no output token count: nobody can tell whether both arms said as much"]
    means = [sum(run.output_tokens or 0 for run in arm) / sum(run.completed or 1 for run in arm) for arm in (a, b)]
    if abs(means[1] / means[0] - 1) > LENGTH_SHARE:
        found.append(f"answers of different length: {means[0]:.1f} and {means[1]:.1f} tokens on average")
    return found


def _values(a: Sequence[ForeignRun], b: Sequence[ForeignRun], metric: str) -> list[str]:
    missing = [run.source for run in (*a, *b) if run.figures.get(metric, 0.0) <= 0]
    known = sorted(set.intersection(*(set(run.figures) for run in (*a, *b)))) if a and b else []
    return [f"no {metric} in {missing[0]}; all have {', '.join(known) or 'nothing in common'}"] if missing else []


def _sequence(a: Sequence[ForeignRun], b: Sequence[ForeignRun], order: str | None) -> tuple[str, list[str]]:
    """The order of the runs in time as letters, and what is wrong with it."""
    if order is not None:
        letters = order.upper()
        if sorted(letters) != ["A"] * len(a) + ["B"] * len(b):
            return letters, [f"the order {order!r} does not name each of {len(a)} A and {len(b)} B once"]
    else:
        stamped = [("A", run) for run in a] + [("B", run) for run in b]
        if any(run.started_unix_s is None for _, run in stamped):
            return "", ["the results do not tell when the runs were made; --order says it, such as --order ABBAAB"]
        letters = "".join(letter for letter, _ in sorted(stamped, key=lambda each: each[1].started_unix_s or 0.0))
    pairs = [letters[index : index + 2] for index in range(0, len(letters), 2)]
    if any(set(pair) != {"A", "B"} for pair in pairs):
        return letters, [f"the runs were not taken in turns ({letters}): a drift in time would look like a difference"]
    return letters, []


def _in_order(a: Sequence[ForeignRun], b: Sequence[ForeignRun], letters: str) -> list[tuple[str, ForeignRun]]:
    def by_time(runs: Sequence[ForeignRun]) -> list[ForeignRun]:
        stamped = all(run.started_unix_s is not None for run in runs)
        return sorted(runs, key=lambda run: run.started_unix_s or 0.0) if stamped else list(runs)

    arms = {"A": iter(by_time(a)), "B": iter(by_time(b))}
    return [(letter, next(arms[letter])) for letter in letters]


def _pairs(ordered: Sequence[tuple[str, ForeignRun]], metric: str) -> tuple[tuple[float, float], ...]:
    """A and B of each pair. Where one arm always came first, its later run is set between its neighbours of the other
    arm (their geometric mean), so that a steady drift falls out.
    """
    values = [(letter, run.figures[metric]) for letter, run in ordered]
    if not _one_first("".join(letter for letter, _ in values)):
        return tuple((found["A"], found["B"]) for found in map(dict, zip(values[::2], values[1::2], strict=True)))
    found = []
    for (letter, before), (_, middle), (_, after) in zip(values[::2], values[1::2], values[2::2], strict=False):
        around = math.sqrt(before * after)
        found.append((around, middle) if letter == "A" else (middle, around))
    return tuple(found)


def _one_first(letters: str) -> bool:
    return len({letters[index : index + 2] for index in range(0, len(letters), 2)}) == 1


def _notes(a: Sequence[ForeignRun], b: Sequence[ForeignRun], letters: str) -> tuple[str, ...]:
    notes = list(dict.fromkeys(note for run in (*a, *b) for note in run.notes))
    if letters and _one_first(letters):
        notes.append(f"one arm always came first ({letters}): each later run was set between its neighbours")
    notes.append("no result tells whether the server was launched afresh for each run")
    return tuple(notes)
