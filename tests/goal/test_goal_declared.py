from __future__ import annotations

from pathlib import Path

import pytest

from infra_agent.errors import ConfigError, GoalError
from infra_agent.goal.declared import MetricSpec
from infra_agent.goal.echo import describe
from infra_agent.goal.files import dump_goal, load_goal
from infra_agent.goal.parse import parse_goal, read_goal

SPECS = {
    "error_growth": MetricSpec.model_validate(
        {
            "unit": "1",
            "direction": "minimise",
            "kind": "deterministic",
            "meaning": "exponent of the error",
            "judged": "high",
            "sentences": [{"says": "the merged state's error must not grow with context length", "at_most": 0.1}],
        }
    ),
    "gap": MetricSpec.model_validate(
        {
            "unit": "%",
            "direction": "minimise",
            "meaning": "what the transfer costs",
            "names": ["transfer gap"],
            "sentences": [{"says": "prefill with transfer must stay within {value} % of prefill alone"}],
        }
    ),
    "merge_error": MetricSpec(unit="1", direction="minimise", meaning="relative error"),
    "batch_s": MetricSpec(unit="s", direction="minimise", meaning="time of a batch"),
    "rate": MetricSpec(unit="GB/s", direction="maximise", meaning="bytes moved"),
}


@pytest.mark.parametrize(
    ("text", "metric", "kind", "value"),
    [
        ("The merged state's error must not grow with context length.", "error_growth", "absolute", 0.1),
        ("the merged state’s error must not grow  with context length", "error_growth", "absolute", 0.1),
        ("prefill with transfer must stay within 5 % of prefill alone", "gap", "absolute", 5.0),
        ("transfer gap at most 5 %", "gap", "absolute", 5.0),
        ("get the transfer gap below 2.5 percent", "gap", "absolute", 2.5),
        ("merge error below 1e-6", "merge_error", "absolute", 1e-6),
        ("merge_error must not exceed 1e-3", "merge_error", "absolute", 1e-3),
        ("merge error <= 0.5", "merge_error", "absolute", 0.5),
        ("batch s below 20 ms", "batch_s", "absolute", 0.02),
        ("cut merge error by 30 %", "merge_error", "ratio", 0.7),
        ("halve the merge error", "merge_error", "ratio", 0.5),
        ("reduce merge error by a factor of 4", "merge_error", "ratio", 0.25),
        ("cut merge error by half", "merge_error", "ratio", 0.5),
        ("double rate", "rate", "ratio", 2.0),
        ("raise rate by 30 %", "rate", "ratio", 1.3),
        ("rate at least 3 GB/s", "rate", "absolute", 3.0),
    ],
)
def test_a_declared_metric_is_read_with_its_level_or_change(text: str, metric: str, kind: str, value: float) -> None:
    goal = parse_goal(text, SPECS)
    assert goal.metric.value == metric
    assert (goal.target.kind, goal.target.value) == (kind, pytest.approx(value))


def test_the_rest_of_the_sentence_is_read_by_the_grammar() -> None:
    goal = parse_goal("cut merge error by 30 %, keeping gap below 5 %, code changes allowed, within 10 minutes", SPECS)
    assert goal.scope.code
    assert goal.budget_s == 600
    limit = goal.constraints.limits[0]
    assert (limit.metric.value, limit.bound, limit.value) == ("gap", "at_most", 5.0)
    assert "merge error (relative error)" in describe(goal)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("transfer gap at most 5", "needs its unit: %"),
        ("merge error below 5 %", "needs its unit: no unit"),
        ("rate at least 3 MB/s", "needs its unit: GB/s"),
        ("raise merge error by 3 %", "wrong way"),
        ("merge error above 3", "wrong side"),
        ("merge error", "no level or change"),
        ("merge error below 1,5", "no level or change"),
        ("merge error below -1", "no level or change"),
        ("merge error below 0", "above zero"),
        ("cut merge error by 100 %", "does not improve"),
        ("cut p99 merge error by 30 %", "no level or change"),
        ("cut merge error by 30 % on 8 ranks", "on 8 ranks"),
        ("cut merge error by 30 % at 4 concurrent requests", "speaks of a server"),
        ("cut merge error by 30 % without changing the answers", "speaks of a server"),
        ("cut merge error by 30 % unless gap rises", "speaks of gap"),
        ("merge error below 1e-6 or so", "or so"),
        ("never cut merge error by 30 %", "negation"),
        ("halve merge error, halve gap", "two objectives"),
        ("cut merge error by 30 %, double throughput", "double throughput"),
    ],
)
def test_what_is_not_understood_in_full_is_refused(text: str, said: str) -> None:
    with pytest.raises(GoalError) as caught:
        parse_goal(text, SPECS)
    assert said in caught.value.message
    assert caught.value.hint


def test_a_text_that_names_no_declared_metric_is_refused_or_read_as_before() -> None:
    assert parse_goal("double throughput", SPECS) == parse_goal("double throughput")
    with pytest.raises(GoalError):
        parse_goal("make the kernel nicer", SPECS)


def test_the_note_says_how_a_sentence_was_read() -> None:
    notes = read_goal("prefill with transfer must stay within 5 % of prefill alone", SPECS).notes
    assert notes == ("'prefill with transfer must stay within 5 % of prefill alone' read as gap at most 5 %",)


def test_a_goal_file_names_a_declared_metric_and_comes_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "goal.toml"
    path.write_text(
        'metric = "gap"\nstatistic = "value"\ndirection = "minimise"\n[target]\nkind = "absolute"\nvalue = 5.0\n'
    )
    goal = load_goal(path, SPECS)
    assert goal.metric == SPECS["gap"].declared("gap")
    path.write_text(dump_goal(goal))
    assert load_goal(path, SPECS) == goal
    assert load_goal(path) == goal
    with pytest.raises(ConfigError):
        load_goal(path, {"merge_error": SPECS["merge_error"]})
    with pytest.raises(ConfigError, match="differently"):
        load_goal(path, {"gap": SPECS["gap"].model_copy(update={"unit": "1"})})


def test_a_file_that_names_an_undeclared_metric_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "goal.toml"
    path.write_text(
        'metric = "nothing"\nstatistic = "value"\ndirection = "minimise"\n[target]\nkind = "absolute"\nvalue = 5.0\n'
    )
    with pytest.raises(ConfigError):
        load_goal(path, SPECS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sentences": [{"says": "no level is in here"}]},
        {"sentences": [{"says": "within {value} of that", "at_most": 1.0}]},
        {"sentences": [{"says": "something at the other side", "at_least": 1.0}]},
        {"names": ["9 lives"]},
        {"resolution": 0.0},
        {"judged": "middle"},
    ],
)
def test_a_metric_that_contradicts_itself_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        MetricSpec.model_validate({"unit": "1", "direction": "minimise", "meaning": "m", **wrong})
