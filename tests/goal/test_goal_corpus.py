"""The corpus: exact share, named refusals, and nothing silently wrong."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from infra_agent.errors import GoalError
from infra_agent.goal.model import (
    HIGHER_IS_BETTER,
    LATENCIES,
    Constraints,
    Direction,
    Goal,
    Limit,
    Load,
    Metric,
    Scope,
    SpendingCaps,
    Statistic,
    Target,
)
from infra_agent.goal.parse import parse_goal

CORPUS = Path(__file__).with_name("corpus.toml")


def cases() -> list[dict[str, Any]]:
    return tomllib.loads(CORPUS.read_text(encoding="utf-8"))["case"]


def expected_goal(case: dict[str, Any]) -> Goal:
    metric = Metric(case["metric"])
    default = "p50" if metric in LATENCIES else "value"
    load = None
    if "conc" in case:
        load = Load(concurrency=case["conc"])
    elif "rate" in case:
        load = Load(arrivals="poisson", rate_per_s=case["rate"])
    kind = "ratio" if "ratio" in case else "absolute"
    return Goal(
        metric=metric,
        statistic=Statistic(case.get("stat", default)),
        direction=Direction.MAXIMISE if metric in HIGHER_IS_BETTER else Direction.MINIMISE,
        target=Target(kind=kind, value=case[kind]),
        load=load,
        slo=tuple(limit(f"{words.split()[0]} value {words.split()[1]}") for words in case.get("slo", [])),
        constraints=Constraints(
            answers_unchanged=case.get("answers", False),
            limits=tuple(limit(words) for words in case.get("limits", [])),
        ),
        budget_s=case.get("budget_s"),
        budget=SpendingCaps(**{name: case[name] for name in SpendingCaps.model_fields if name in case}),
        scope=Scope(code=case.get("code", False)),
        text=case["text"],
    )


def limit(words: str) -> Limit:
    name, stat, value = words.split()
    metric = Metric(name)
    bound = "at_least" if metric in HIGHER_IS_BETTER else "at_most"
    return Limit(metric=metric, statistic=Statistic(stat), bound=bound, value=float(value))


def outcome(case: dict[str, Any]) -> str:
    """exact, refused, WRONG, named or UNNAMED."""
    try:
        goal = parse_goal(case["text"])
    except GoalError as error:
        if "refuse" not in case:
            return "refused"
        return "named" if all(word in error.message for word in case["refuse"]) else "UNNAMED"
    return "exact" if "refuse" not in case and same(goal, expected_goal(case)) else "WRONG"


def same(goal: Goal, expected: Goal) -> bool:
    """Equal field by field; the target's value to one part in 1e12."""
    close = goal.target.value == pytest.approx(expected.target.value, rel=1e-12)
    return (
        close
        and goal.model_copy(update={"target": expected.target}) == expected
        and (goal.target.kind == expected.target.kind)
    )


def test_the_corpus_parses_exactly_and_nothing_is_silently_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    results = [(case, outcome(case)) for case in cases()]
    parseable = [result for case, result in results if "refuse" not in case]
    share = parseable.count("exact") / len(parseable)
    lines = [f"{result}: {case['text']}" for case, result in results if result in ("WRONG", "UNNAMED", "refused")]
    lines.append(f"{len(results)} goal sentences, {parseable.count('exact')} of {len(parseable)} exact ({share:.1%})")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert [case["text"] for case, result in results if result == "WRONG"] == []
    assert [case["text"] for case, result in results if result == "UNNAMED"] == []
    assert share >= 0.9


def test_the_corpus_is_large_and_each_sentence_stands_once() -> None:
    texts = [case["text"] for case in cases()]
    assert len(texts) >= 240
    assert len(set(texts)) == len(texts)


def test_every_refusal_has_an_example_that_parses() -> None:
    hints = []
    for case in cases():
        try:
            parse_goal(case["text"])
        except GoalError as error:
            hints.append(error.hint)
    assert [hint for hint in hints if parse_goal(hint).text != hint] == []
    assert len(hints) > 50
