"""Goal files: round trips, and errors that name file and key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra_agent.errors import ConfigError
from infra_agent.goal.files import dump_goal, load_goal
from infra_agent.goal.parse import parse_goal

CORPUS = Path(__file__).with_name("corpus.toml")
GOOD = """
metric = "ttft_s"
statistic = "p99"
direction = "minimise"
budget_s = 600
[target]
kind = "absolute"
value = 0.4
[budget]
usd = 2.5
launches = 30
turns = 40
[load]
concurrency = 8
[[constraints.limits]]
metric = "tpot_s"
statistic = "p95"
bound = "at_most"
value = 0.04
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "goal.toml"
    path.write_text(text, encoding="utf-8")
    return path


def failure(folder: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_goal(write(folder, text))
    return caught.value


def test_every_parsed_goal_of_the_corpus_survives_a_file(tmp_path: Path) -> None:
    for case in tomllib.loads(CORPUS.read_text(encoding="utf-8"))["case"]:
        if "refuse" not in case:
            goal = parse_goal(case["text"])
            assert load_goal(write(tmp_path, dump_goal(goal))) == goal


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_survives_a_file(tmp_path: Path, text: str) -> None:
    goal = parse_goal("double throughput").model_copy(update={"text": text})
    assert load_goal(write(tmp_path, dump_goal(goal))) == goal


def test_a_complete_file_is_read(tmp_path: Path) -> None:
    goal = load_goal(write(tmp_path, GOOD))
    assert goal.budget_s == 600
    assert goal.load is not None
    assert goal.load.concurrency == 8
    assert goal.constraints.limits[0].value == 0.04


@pytest.mark.parametrize(
    ("old", "new", "place", "hint"),
    [
        ('statistic = "p99"', 'statistics = "p99"', "statistics", "did you mean statistic?"),
        ("concurrency = 8", "concurency = 8", "load.concurency", "did you mean concurrency?"),
        ('bound = "at_most"', 'bond = "at_most"', "constraints.limits[0].bond", "did you mean bound?"),
        ("budget_s = 600", "zzz = 600", "zzz", "known keys: metric"),
    ],
)
def test_an_unknown_key_names_its_place_and_the_nearest_known_key(
    tmp_path: Path, old: str, new: str, place: str, hint: str
) -> None:
    error = failure(tmp_path, GOOD.replace(old, new))
    assert error.where == f"{tmp_path / 'goal.toml'}:{place}"
    assert "unknown key" in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("value = 0.4\n", "", "target.value"),
        ("value = 0.4\n", 'value = "0.4"\n', "target.value"),
        ("value = 0.4\n", "value = inf\n", "target.value"),
        ("value = 0.4\n", "value = nan\n", "target.value"),
        ("value = 0.4\n", "value = -1\n", "target.value"),
        ("value = 0.4\n", "value = 2026-01-01\n", "target.value"),
        ('"ttft_s"', '"latency"', "metric"),
        ("concurrency = 8", "concurrency = true", "load.concurrency"),
        ("concurrency = 8", "concurrency = 0", "load.concurrency"),
        ("concurrency = 8", "concurrency = 8\nrate_per_s = 2.0", "load"),
        ("budget_s = 600", "budget_s = 0", "budget_s"),
    ],
)
def test_a_wrong_value_names_its_place(tmp_path: Path, old: str, new: str, place: str) -> None:
    error = failure(tmp_path, GOOD.replace(old, new))
    assert error.where == f"{tmp_path / 'goal.toml'}:{place}"
    assert error.hint


def test_an_incoherent_goal_is_refused(tmp_path: Path) -> None:
    assert "lowered" in failure(tmp_path, GOOD.replace("minimise", "maximise")).message


def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_goal(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_goal(tmp_path)
    assert "not TOML" in failure(tmp_path, "metric = ").message
    (tmp_path / "goal.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_goal(tmp_path / "goal.toml")
