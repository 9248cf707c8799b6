from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.agent.actions import ACTION, ACTIONS
from infra_agent.agent.brains.llm.parse import decide, with_fenced_diff
from infra_agent.agent.brains.llm.schemas import EXAMPLES, action_names, response_format, tools
from infra_agent.agent.brains.llm.types import Answer, ToolCall

MEASURE = '{"kind":"measure","probe":"load","target":"stock"}'
PROVE = '{"kind":"prove","candidate":"C1"}'


def call(name: str, arguments: Any, id_: str = "c0") -> ToolCall:
    return ToolCall(id_, name, arguments if isinstance(arguments, str) else json.dumps(arguments))


def kinds(answer: Answer) -> list[str]:
    return [action.kind for action in decide(answer).actions]


@pytest.mark.parametrize("name", action_names())
def test_the_example_shown_for_an_action_is_one(name: str) -> None:
    assert ACTION.validate_json(EXAMPLES[name]).kind == name


def test_every_action_is_offered_as_a_tool_and_in_the_schema_with_its_required_fields() -> None:
    offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools()}
    variants = response_format()["json_schema"]["schema"]["properties"]["action"]["anyOf"]
    assert list(offered) == list(action_names())
    assert [variant["properties"]["kind"]["const"] for variant in variants] == list(action_names())
    assert len(ACTIONS) == len(offered)
    assert "kind" not in offered["prove"]["properties"]
    assert offered["prove"]["required"] == ["candidate"]
    assert "$ref" not in json.dumps([*offered.values(), *variants])


@pytest.mark.parametrize(
    "text",
    [
        MEASURE,
        f"Sure, here is my choice:\n```json\n{MEASURE}\n```\nLet me know!",
        f"<think>maybe {PROVE}?</think>{MEASURE}",
        '{"action": ' + MEASURE + "}",
        '{"name": "measure", "arguments": {"probe": "load", "target": "stock"}}',
        '<tool_call>{"name": "measure", "parameters": {"probe": "load", "target": "stock"}}</tool_call>',
        f"{MEASURE}\n{MEASURE}",
        f"a set like {{x}} is no object; {MEASURE}",
    ],
)
def test_one_action_in_text_is_found_whatever_stands_around_it(text: str) -> None:
    assert kinds(Answer(content=text)) == ["measure"]


def test_tool_calls_are_taken_in_order_and_the_first_that_starts_an_engine_is_the_last() -> None:
    hypothesis = json.loads(EXAMPLES["hypothesise"])
    hypothesis.pop("kind")
    calls = (
        call("hypothesise", hypothesis, "a"),
        call("read", {"path": "x.py"}, "b"),
        call("prove", {"candidate": "C1"}, "c"),
        call("conclude", {"reason": "done"}, "d"),
    )
    decision = decide(Answer(calls=calls, finish="tool_calls"))
    assert [action.kind for action in decision.actions] == ["hypothesise", "read", "prove"]
    assert decision.call_ids == ("a", "b", "c")
    assert [(dropped.call_id, "result of prove" in dropped.why) for dropped in decision.dropped] == [("d", True)]


def test_a_faulty_call_after_a_good_one_is_answered_and_stops_the_rest() -> None:
    calls = (call("consult", {}, "a"), call("approve", {}, "b"), call("prove", {"candidate": "C1"}, "c"))
    decision = decide(Answer(calls=calls))
    assert [action.kind for action in decision.actions] == ["consult"]
    assert [dropped.call_id for dropped in decision.dropped] == ["b", "c"]
    assert "no action 'approve'" in decision.dropped[0].why
    assert "not carried out" in decision.dropped[1].why


FAULTY = {
    "nothing": (Answer(), "empty", "empty"),
    "only thoughts": (Answer(content="<think>hmm", reasoning="hmm"), "empty", "empty"),
    "prose": (Answer(content="I would measure first."), "no_action", "no action"),
    "another language": (Answer(content="让我先测量一下基线。"), "no_action", "English"),
    "a refusal in words": (Answer(content="I'm sorry, but I can't help with that."), "refusal", "declined"),
    "a refusal in its field": (Answer(refusal="not allowed"), "refusal", "not allowed"),
    "a content filter": (Answer(finish="content_filter"), "refusal", "content filter"),
    "cut by the token limit": (Answer(content=MEASURE[:20], finish="length"), "truncated", "token limit"),
    "a whole action cut by the token limit": (Answer(content=MEASURE, finish="length"), "truncated", "limit"),
    "a broken stream": (Answer(content=MEASURE, cut="the stream broke: x"), "cut", "broken off"),
    "no end": (Answer(content="a" * 99, cut="endless: more than 9 characters"), "endless", "endless"),
    "two actions": (Answer(content=f"{MEASURE} then {PROVE}"), "two_actions", "measure, prove"),
    "a list of two": (Answer(content=f"[{MEASURE}, {PROVE}]"), "two_actions", "exactly one"),
    "half an object": (Answer(content='{"kind": "measure", "probe": '), "bad_json", "not valid"),
    "single quotes": (Answer(content="{'kind': 'measure'}"), "bad_json", "double quotes"),
    "a doubled key": (Answer(content='{"kind":"measure","kind":"prove","candidate":"C1"}'), "bad_json", "twice"),
    "not a number": (Answer(content='{"kind":"search","hypothesis":"H1","minutes":NaN}'), "bad_json", "NaN"),
    "too deep": (Answer(content='{"a":' * 20_000), "bad_json", "nested"),
    "an invented action": (Answer(content='{"kind":"approve","candidate":"C1"}'), "unknown_action", "approve"),
    "a misspelt action": (Answer(content='{"kind":"mesure","probe":"load"}'), "unknown_action", "Did you mean measure"),
    "no kind": (Answer(content='{"probe":"load"}'), "bad_fields", "no `kind`"),
    "a kind of another type": (Answer(content='{"kind":7}'), "bad_fields", "no `kind`"),
    "a wrong type": (Answer(content='{"kind":"prove","candidate":["C1"]}'), "bad_fields", "candidate"),
    "a field too many": (
        Answer(content='{"kind":"prove","candidate":"C1","verdict":"accepted"}'),
        "bad_fields",
        "verdict",
    ),
    "a field missing": (Answer(content='{"kind":"prove"}'), "bad_fields", "candidate"),
    "out of range": (Answer(content='{"kind":"search","hypothesis":"H1","minutes":-1}'), "bad_fields", "minutes"),
    "infinite": (Answer(content='{"kind":"search","hypothesis":"H1","minutes":1e999}'), "bad_fields", "minutes"),
    "an unknown tool": (Answer(calls=(call("bash", {"cmd": "ls"}),)), "unknown_action", "bash"),
    "arguments that are no JSON": (Answer(calls=(call("prove", "C1"),)), "bad_json", "prove"),
    "arguments that are a list": (Answer(calls=(call("prove", ["C1"]),)), "bad_json", "object"),
    "a tool with another kind": (Answer(calls=(call("prove", {"kind": "measure"}),)), "bad_fields", "measure"),
    "a name as long as a book": (Answer(content=json.dumps({"kind": "prove", "x" * 90_000: 1})), "bad_fields", "xxx"),
    "half a character as a name": (Answer(content='{"kind":"prove","candidate":"C1","\\ud800":1}'), "bad_fields", "C1"),
    "two kinds without end": (
        Answer(content=json.dumps([{"kind": "a" * 9000}, {"kind": "b" * 9000}])),
        "two_actions",
        "exactly one",
    ),
    "a lone surrogate": (Answer(content='{"kind":"prove","candidate":"\\ud800"}'), "bad_fields", "candidate"),
}


@pytest.mark.parametrize("case", FAULTY)
def test_what_is_wrong_is_named_and_nothing_is_decided(case: str) -> None:
    answer, fault, named = FAULTY[case]
    decision = decide(answer)
    assert (decision.fault, decision.actions) == (fault, ())
    assert named in decision.correction
    assert len(decision.correction) < 1200
    decision.correction.encode("utf-8")


def test_a_fenced_diff_beside_a_proposal_belongs_to_it_once_proposals_carry_diffs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from infra_agent.agent.actions import ProposeAction

    prose = 'Here it is:\n```diff\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-{"a": 1}\n+{"a": 2}\n```\nand the action.'
    proposal = {"kind": "propose", "hypothesis": "H1", "changes": []}
    monkeypatch.setattr(ProposeAction, "model_fields", {**ProposeAction.model_fields, "diff": None})
    assert with_fenced_diff(proposal, prose)["diff"].startswith("--- a/x.py\n")
    assert with_fenced_diff({**proposal, "diff": "own"}, prose)["diff"] == "own"
    assert "diff" not in with_fenced_diff({"kind": "prove"}, prose)
    assert "diff" not in with_fenced_diff(proposal, prose + prose)


def test_braces_in_a_fenced_diff_are_no_second_action() -> None:
    assert kinds(Answer(content=f'```diff\n+{{"kind": "prove", "candidate": "C1"}}\n```\n{MEASURE}')) == ["measure"]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=80) | JUNK.map(lambda value: json.dumps(value)))
def test_no_text_is_fatal(text: str) -> None:
    decision = decide(Answer(content=text))
    assert bool(decision.fault) != bool(decision.actions)


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from([*action_names(), "approve", ""]), arguments=JUNK)
def test_no_tool_call_is_fatal_and_a_fault_names_what_is_wrong(name: str, arguments: Any) -> None:
    decision = decide(Answer(calls=(call(name, arguments),)))
    assert bool(decision.correction) == bool(decision.fault)
    assert decision.fault or decision.actions[0].kind == name
