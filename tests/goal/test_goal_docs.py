"""docs/goals.md is executed: its sentences, its table of ratios, its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra_agent.errors import GoalError
from infra_agent.goal.files import load_goal
from infra_agent.goal.model import Metric
from infra_agent.goal.parse import parse_goal

DOC = (Path(__file__).parents[2] / "docs" / "goals.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOC, re.DOTALL)
    assert found is not None
    return found[1]


def rows(heading: str) -> list[list[str]]:
    section = DOC.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def test_every_example_of_the_document_parses() -> None:
    sentences = block("goals").splitlines()
    assert len(sentences) >= 8
    assert [parse_goal(sentence).text for sentence in sentences] == sentences


def test_every_metric_name_of_the_document_is_understood() -> None:
    metrics = set()
    for label, names, better, *_ in rows("Metrics"):
        for name in [label, *names.split(", ")]:
            if name == "with an SLO":
                continue
            verb = "raise" if better == "higher" else "cut"
            slo = " with TTFT under 1 s" if label == "goodput" else ""
            metrics.add((label, parse_goal(f"{verb} {name} by 10 %{slo}").metric))
    assert len(metrics) == len(Metric)


def test_every_load_and_constraint_of_the_document_is_understood() -> None:
    for part, words, *_ in rows("Load, constraints, budget, scope"):
        for phrase in re.split(r", |; ", words):
            goal = parse_goal(f"double throughput, {phrase}")
            empty = parse_goal("double throughput").model_copy(update={"text": goal.text})
            assert goal != empty or phrase in ("no code changes", "only launch parameters"), (part, phrase)


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("raise throughput by 30 %", 1.3),
        ("cut TTFT by 30 %", 0.7),
        ("TTFT 30 % faster", 1 / 1.3),
        ("speed up throughput by 30 %", 1.3),
        ("reduce TTFT 2x", 0.5),
        ("TTFT in half", 0.5),
        ("cut TTFT by a third", 2 / 3),
        ("cut TTFT to a third", 1 / 3),
        ("raise throughput by a third", 4 / 3),
        ("cut TTFT to 70 % of the current value", 0.7),
    ],
)
def test_the_table_of_targets_is_true(text: str, ratio: float) -> None:
    assert parse_goal(text).target.value == pytest.approx(ratio, rel=1e-12)


@pytest.mark.parametrize("text", ["raise TTFT by 10 %", "cut TTFT by 100 ms", "double throughput without raising TTFT"])
def test_what_the_document_calls_refused_is_refused(text: str) -> None:
    with pytest.raises(GoalError):
        parse_goal(text)


def test_the_file_of_the_document_is_the_goal_of_its_text(tmp_path: Path) -> None:
    path = tmp_path / "goal.toml"
    path.write_text(block("toml"), encoding="utf-8")
    goal = load_goal(path)
    assert parse_goal(goal.text) == goal
