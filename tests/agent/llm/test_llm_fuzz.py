"""Thousands of hostile documents: none becomes an action, each is answered with what is wrong, each is charged."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.llm.journals import brain_over
from agent.sessions import add_baseline, session_in

from infra_agent.agent.brains.llm.parse import decide
from infra_agent.agent.brains.llm.schemas import EXAMPLES, action_names
from infra_agent.agent.brains.llm.types import Answer, ToolCall
from infra_agent.agent.view import build_dossier
from infra_agent.ledger import kinds as k
from infra_agent.testing.replies import Call, Reply
from infra_agent.testing.scripted_llm import ScriptedLlm

DOCUMENTS = 5000
CHARGED = 120
POISON: tuple[Any, ...] = (
    None, [], {}, [[]], {"$ref": "#"}, -1, 10**30, 1e308, True, "", "\0", "\ud800", "x" * 5000, "../../etc/passwd",
    "'; DROP TABLE runs; --", "{{ 7*7 }}", "</script>", "\u202egnp", ["H1", "H2"], {"kind": "approve"},
)  # fmt: skip
STRANGE_KINDS = ("approve", "grant", "shell", "", " measure", "MEASURE", "measure\0", "prove;conclude", "__class__")


def hostile(chance: random.Random) -> tuple[str, dict[str, Any], str]:
    """A well-formed action with one thing made impossible; with the name of what is wrong."""
    kind = chance.choice(action_names())
    document = json.loads(EXAMPLES[kind])
    attack = chance.choice(("kind", "extra", "missing", "type", "type", "type"))
    required = [name for name in document if name not in ("kind", *OPTIONAL)]
    if attack == "kind":
        document["kind"] = chance.choice(STRANGE_KINDS)
        return document["kind"], document, "no action"
    if attack == "missing" and required:
        field = chance.choice(required)
        document.pop(field)
        return kind, document, field
    if attack == "type" and required:
        field = chance.choice(required)
        document[field] = {"not": ["what", "it", chance.choice(POISON[:9])]}
        return kind, document, field
    field = chance.choice(("verdict", "gain", "risk", "approved", "confidence", "__proto__", "reviewer"))
    document[field] = chance.choice(POISON[:14])
    return kind, document, field


OPTIONAL = (
    "target",
    "start_line",
    "lines",
    "files",
    "name",
    "start",
    "base",
    "refuting_probe",
    "skipped",
    "parameters",
)


def answer_of(kind: str, document: Mapping[str, Any], as_tool: bool) -> Answer:
    if not as_tool:
        return Answer(content=json.dumps(document))
    arguments = {name: value for name, value in document.items() if name != "kind"}
    return Answer(calls=(ToolCall("c", kind, json.dumps(arguments)),))


def test_none_of_thousands_becomes_an_action_and_each_error_names_what_is_wrong() -> None:
    chance = random.Random(5)
    for number in range(DOCUMENTS):
        kind, document, named = hostile(chance)
        decision = decide(answer_of(kind, document, as_tool=bool(number % 2)))
        assert not decision.actions, document
        assert decision.fault in ("bad_fields", "unknown_action", "bad_json"), document
        assert named in decision.correction, (document, decision.correction)


def test_each_one_is_charged_and_nothing_is_launched(tmp_path: Path) -> None:
    chance = random.Random(6)

    def policy(_: Mapping[str, Any]) -> Reply:
        kind, document, _named = hostile(chance)
        document.pop("kind")
        return Reply(calls=(Call(kind, document),))

    with session_in(tmp_path, brain="llm", budget_s=50_000.0) as session, ScriptedLlm(policy=policy).serving() as llm:
        add_baseline(session)
        with brain_over(session, llm, corrections=CHARGED - 1) as brain:
            brain.next(build_dossier(session, "agent"))
        state = session.state
    spent = [call.answered for call in state.llm_calls.values() if call.asked.purpose == "decide" and call.answered]
    assert len(spent) == CHARGED
    assert all(answer.fault and answer.input_tokens > 0 and answer.output_tokens > 0 for answer in spent)
    assert not state.launches
    assert not state.candidates
    assert not [event for event in state.events if isinstance(event.data, k.ActionTaken)]
