"""What is paid for is announced first: intents are flushed, have an end, and an open one is found."""

from __future__ import annotations

import ledger_samples as s
import pytest

from infra_agent.ledger import kinds as k
from infra_agent.ledger.fold import fold
from infra_agent.ledger.intents import open_intents

pytestmark = pytest.mark.requirement("L3")
INTENTS = [model for model in k.KINDS.values() if model.ended_by]


def test_starting_an_engine_and_carrying_out_an_action_are_intents():
    assert {"launch", "action_begun"} <= {model.kind for model in INTENTS}


@pytest.mark.parametrize("model", INTENTS, ids=lambda model: model.kind)
def test_an_intent_is_on_the_disk_before_the_deed_and_its_ends_exist(model):
    assert model.synced
    assert set(model.ended_by) <= set(k.KINDS)
    for end in model.ended_by:
        assert {"id", "turn"} & set(model.model_fields) & set(k.KINDS[end].model_fields)


def state_of(*payloads):
    return fold(s.chained(s.started(), *payloads))


def open_kinds(*payloads):
    return [at.data.kind for at in open_intents(state_of(*payloads))]


def test_an_intent_is_open_until_its_own_end():
    begun = k.ActionBegun(turn=3, action={})
    assert open_kinds() == []
    assert open_kinds(begun, s.launch("L1")) == ["action_begun", "launch"]
    assert open_kinds(begun, s.launch("L1"), s.launch("L2"), s.launch_ended("L2")) == ["action_begun", "launch"]
    assert open_kinds(begun, s.launch("L1"), s.launch_ended("L1")) == ["action_begun"]
    assert open_kinds(begun, k.ActionRefused(turn=3, action="", error="")) == []
    assert open_kinds(begun, k.ActionTaken(turn=3, action={})) == []


def test_a_whole_story_leaves_none_open():
    assert open_intents(fold(s.chained(*s.story()))) == ()
