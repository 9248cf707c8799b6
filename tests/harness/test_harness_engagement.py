"""A change counts only when it can be seen at work in the running engine."""

from __future__ import annotations

import pytest
from harness_help import parameter

from infra_agent.changes.change import LaunchChange
from infra_agent.harness.engagement import judge_engagement
from infra_agent.stack.engines.base import Engagement
from infra_agent.stack.model import ParameterValue
from probes.base import Cost, Observation, Rung, Verdict

TABLE = (
    parameter("batching", "--batching", engagement=Engagement(signal="cb.running")),
    parameter("blocks", "--blocks", type="int", engagement=Engagement(signal="cb.num_blocks")),
    parameter("device", "--device", type="str", engagement=Engagement(signal="device", expect={"cuda": "cuda:0"})),
    parameter("graphs", "--graphs", engagement=Engagement(signal="graphs", expect={"true": "full"})),
    parameter("seed", "--seed", type="int"),
)
BASE = {"cb.running": False, "python.version": "3.11", "threads.count": 9}


def judged(
    candidate: dict[str, float | str | bool],
    base: dict[str, float | str | bool] | None = None,
    **changes: ParameterValue,
) -> Observation:
    asked = [LaunchChange(parameter=name, value=value) for name, value in changes.items()]
    return judge_engagement(asked, TABLE, BASE, BASE if base is None else base, candidate, Cost(wall_s=1))


def test_a_signal_that_moved_to_the_asked_value_is_engaged() -> None:
    seen = judged({**BASE, "cb.running": True}, batching=True)
    assert seen.verdict is Verdict.PASS
    assert seen.signals == {"engaged": True}
    assert seen.summary == "engaged: --batching: cb.running false → true"
    assert seen.rung is Rung.STATIC
    assert seen.where.parameter == "batching"
    assert seen.cost.wall_s == 1


def test_a_flag_that_was_accepted_and_ignored_is_not_engaged() -> None:
    seen = judged(BASE, batching=True)
    assert seen.verdict is Verdict.FAIL
    assert seen.signals == {"engaged": False}
    assert seen.summary == "not engaged: --batching was accepted, but cb.running is false, not true"


def test_a_value_that_was_in_effect_already_is_no_change() -> None:
    running = {**BASE, "cb.running": True}
    seen = judged(running, running, batching=True)
    assert seen.verdict is Verdict.FAIL
    assert "no effect: already true on the base" in seen.summary


def test_an_absent_signal_is_not_engaged() -> None:
    seen = judged(BASE, blocks=64)
    assert seen.verdict is Verdict.FAIL
    assert "cannot see it in the running engine" in seen.summary


@pytest.mark.parametrize("seen_value", [64, 64.0])
def test_numbers_are_compared_as_numbers(seen_value: float) -> None:
    assert judged({**BASE, "cb.num_blocks": seen_value}, blocks=64).verdict is Verdict.PASS


def test_a_number_does_not_pass_for_a_switch() -> None:
    assert judged({**BASE, "cb.running": 1}, batching=True).verdict is Verdict.FAIL


def test_the_table_says_which_value_a_setting_shows_as() -> None:
    assert judged({"device": "cuda:0"}, {"device": "cpu"}, device="cuda").verdict is Verdict.PASS
    assert judged({"device": "cpu:0"}, {"device": "cpu"}, device="cuda").verdict is Verdict.FAIL
    assert judged({"graphs": "full"}, {"graphs": "none"}, graphs=True).verdict is Verdict.PASS


def test_every_change_of_a_set_must_be_engaged() -> None:
    seen = judged({**BASE, "cb.running": True}, batching=True, blocks=64)
    assert seen.verdict is Verdict.FAIL
    assert "--blocks" in seen.summary
    assert "--batching" not in seen.summary
    assert [entry["engaged"] for entry in seen.detail["changes"]] == [True, False]


def test_a_parameter_without_a_signal_needs_some_difference_to_the_base() -> None:
    assert judged({**BASE, "extra": "new"}, seed=1).verdict is Verdict.PASS
    assert judged(BASE, seed=1).verdict is Verdict.FAIL


def test_what_varies_by_itself_is_no_difference() -> None:
    assert judged({**BASE, "threads.count": 12}, seed=1).verdict is Verdict.FAIL


def test_an_unknown_parameter_is_judged_by_difference() -> None:
    assert judged(BASE, unheard_of=1).verdict is Verdict.FAIL


def test_without_a_snapshot_nothing_is_proved() -> None:
    seen = judged({}, batching=True)
    assert seen.verdict is Verdict.INCONCLUSIVE
    assert seen.signals == {"engaged": False}


def test_a_missing_base_is_replaced_by_stock() -> None:
    seen = judged({**BASE, "cb.running": False}, {}, batching=False)
    assert seen.verdict is Verdict.FAIL
    assert seen.against.name == "stock"
