"""The brain and its journal over a real ledger, against a scripted endpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.llm.journals import PRICE, brain_over, carried_out
from agent.sessions import add_baseline, session_in

from infra_agent.agent.actions import Action
from infra_agent.agent.brains.llm.brain import LlmBrain
from infra_agent.agent.loop import pursue
from infra_agent.agent.view import build_dossier
from infra_agent.goal.model import SpendingCaps
from infra_agent.harness.session import Session
from infra_agent.ledger import artifacts
from infra_agent.ledger import kinds as k
from infra_agent.testing.replies import Call, Reply, action, say
from infra_agent.testing.scripted_llm import FEATURES, ScriptedLlm

MEASURE = action("measure", probe="load", target="stock")
CONSULT = action("consult", name="serial-admission")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_in(tmp_path, brain="llm", budget_s=20_000.0) as made:
        add_baseline(made)
        yield made


def ask(session: Session, brain: LlmBrain) -> Action:
    return brain.next(build_dossier(session, "agent"))


def answers(session: Session) -> list[k.LlmAnswered]:
    return [call.answered for call in session.state.llm_calls.values() if call.answered is not None]


def faults(session: Session) -> list[str]:
    return [answer.fault for answer in answers(session) if answer.fault]


def test_a_question_and_its_answer_are_stored_around_the_call_with_usage_and_artifacts(session: Session) -> None:
    with ScriptedLlm(policy=[MEASURE]).serving() as llm, brain_over(session, llm) as brain:
        assert ask(session, brain).kind == "measure"
    call = list(session.state.llm_calls.values())[-1]
    assert call.answered is not None
    assert call.answered.usage == "reported"
    assert call.answered.input_tokens > 100
    request = json.loads(artifacts.path_of(session.run_dir, call.asked.request_artifact).read_bytes())
    assert request["messages"] == llm.questions[0].body["messages"]
    stored = json.loads(artifacts.path_of(session.run_dir, call.answered.response_artifact).read_bytes())
    assert stored["calls"][0][1] == "measure"


def test_the_way_to_ask_is_found_once_and_kept(session: Session) -> None:
    with ScriptedLlm(policy=[CONSULT, CONSULT], features=FEATURES - {"tools"}).serving() as llm:
        for _ in range(2):
            with brain_over(session, llm) as brain:
                ask(session, brain)
                session.ledger.append(k.ActionTaken(turn=session.state.turns, action={"kind": "consult"}))
    assert session.state.llm_mode is not None
    assert session.state.llm_mode.mode == "json_schema"
    assert sum(asked.check for asked in llm.asked) == 4


def test_an_answered_question_is_replayed_by_a_new_process_and_never_sent_again(session: Session) -> None:
    with ScriptedLlm(policy=[say("prose"), MEASURE]).serving() as llm:
        with brain_over(session, llm) as brain:
            first = ask(session, brain)
        sent = len(llm.asked)
        with brain_over(session, llm) as again:
            assert ask(session, again) == first
        assert len(llm.asked) == sent
    assert faults(session) == ["no_action"]


def test_several_calls_of_one_answer_are_carried_out_in_turn_and_answered_in_order(session: Session) -> None:
    calls = (
        Call("consult", {"name": ""}), Call("consult", {"name": "host-threads"}), Call("prove", {"candidate": "C9"}),
        Call("conclude", {"reason": "x"}),
    )  # fmt: skip
    policy = [Reply(calls=calls), MEASURE]
    with ScriptedLlm(policy=policy).serving() as llm, brain_over(session, llm) as brain:
        done = []
        for _ in range(2):
            decided = ask(session, brain)
            done.append(decided.kind)
            carried_out(session, decided)
        third = ask(session, brain)
        refused = k.ActionRefused(turn=session.state.turns, action=third.model_dump_json(), error="no candidate 'C9'")
        session.ledger.append(refused)
        ask(session, brain)
    assert [*done, third.kind] == ["consult", "consult", "prove"]
    assert len(llm.questions) == 2
    said = llm.questions[1].body["messages"]
    assert [call["function"]["name"] for call in said[2]["tool_calls"]] == ["consult", "consult", "prove", "conclude"]
    results = [message["content"] for message in said if message["role"] == "tool"]
    assert results[2] == "«refused: no candidate 'C9'»"
    assert "result of prove" in results[3]


def test_after_a_refusal_the_rest_of_an_answer_is_dropped(session: Session) -> None:
    calls = (Call("consult", {"name": "nonsense"}), Call("measure", {"probe": "load"}))
    with ScriptedLlm(policy=[Reply(calls=calls), CONSULT]).serving() as llm, brain_over(session, llm) as brain:
        ask(session, brain)
        session.ledger.append(k.ActionRefused(turn=0, action="{}", error="no playbook"))
        assert ask(session, brain).kind == "consult"
    results = [message["content"] for message in llm.questions[1].body["messages"] if message["role"] == "tool"]
    assert "an earlier call of the same answer was refused" in results[1]


def test_a_fault_is_answered_with_its_correction_in_the_next_question(session: Session) -> None:
    with ScriptedLlm(policy=[say('{"kind": "approve"}'), MEASURE]).serving() as llm, brain_over(session, llm) as brain:
        ask(session, brain)
    last = llm.questions[1].body["messages"][-1]["content"]
    assert "was charged" in last
    assert "There is no action 'approve'" in last
    assert faults(session) == ["unknown_action"]


def test_after_too_many_faults_in_a_row_another_brain_decides_for_good_and_the_ledger_says_so(session: Session) -> None:
    with (
        ScriptedLlm(policy=lambda _: say("no idea")).serving() as llm,
        brain_over(session, llm, corrections=2) as brain,
    ):
        assert ask(session, brain).kind == "conclude"
        asked = len(llm.questions)
        assert ask(session, brain).kind == "conclude"
        assert len(llm.questions) == asked == 3
    fell = session.state.fell_back
    assert fell is not None
    assert (fell.brain, fell.to) == ("llm", "script")
    assert "3 faulty answers" in fell.reason


def test_refused_actions_count_among_the_faults(session: Session) -> None:
    wrong = ScriptedLlm(policy=lambda _: action("prove", candidate="C9"))
    with wrong.serving() as llm, brain_over(session, llm, corrections=3) as brain:
        pursue(session, brain, "agent")
    assert session.state.fell_back is not None
    assert len(session.state.refused) == 4


def test_an_action_carried_out_ends_the_row(session: Session) -> None:
    policy = [say("x"), CONSULT, say("x"), action("consult", name="host-threads")]
    with ScriptedLlm(policy=policy).serving() as llm, brain_over(session, llm, corrections=1) as brain:
        for _ in range(2):
            carried_out(session, ask(session, brain))
    assert session.state.fell_back is None


LIMITED = Reply(status=429, error="slow down", headers={"retry-after": "3"})


def test_rate_limits_are_waited_out_by_one_layer_and_nothing_is_charged_twice(session: Session) -> None:
    waits: list[float] = []
    policy = [LIMITED, Reply(status=503, error="busy"), MEASURE]
    with ScriptedLlm(policy=policy).serving() as llm, brain_over(session, llm, waits.append) as brain:
        assert ask(session, brain).kind == "measure"
    assert len(llm.questions) == 3
    assert 3.0 <= waits[0] < 4.0
    assert answers(session)[-1].retries == 2
    assert len(session.state.llm_calls) == 2


def test_an_endpoint_that_never_gets_better_is_given_up_after_a_bounded_number_of_tries(session: Session) -> None:
    busy = ScriptedLlm(policy=lambda _: Reply(status=503, error="busy"))
    with busy.serving() as llm, brain_over(session, llm) as brain:
        assert ask(session, brain).kind == "conclude"
    assert 1 < len(llm.questions) <= 6
    assert session.state.fell_back is not None
    assert "503" in session.state.fell_back.reason
    assert answers(session)[-1].usage == "none"


def test_an_answer_that_never_came_in_time_is_charged_as_reserved(session: Session) -> None:
    with ScriptedLlm(policy=[Reply(delay_s=3.0)]).serving() as llm, brain_over(session, llm, timeout_s=1.0) as brain:
        assert ask(session, brain).kind == "conclude"
    late = answers(session)[-1]
    assert (late.fault, late.usage, late.output_tokens) == ("endpoint", "reserved", 4096)


def test_a_model_that_wastes_the_budget_is_given_up_before_its_patience_ends(tmp_path: Path) -> None:
    with session_in(tmp_path, brain="llm", budget_s=20_000.0) as session:
        add_baseline(session)
        for number in range(2):
            asked = _lost(session, number)
            session.ledger.append(k.LlmAnswered(id=asked.id, fault="endless", seconds=2_500.0))
        with ScriptedLlm(policy=[MEASURE]).serving() as llm, brain_over(session, llm) as brain:
            assert ask(session, brain).kind == "conclude"
        assert not llm.questions
        assert session.state.fell_back is not None
        assert "2 faulty answers took 5000 s" in session.state.fell_back.reason


def test_a_key_that_is_refused_is_not_tried_again(session: Session) -> None:
    with ScriptedLlm(policy=[], key="right").serving() as llm, brain_over(session, llm) as brain:
        ask(session, brain)
    assert len(llm.asked) == 1
    assert session.state.fell_back is not None


def test_an_answer_that_was_lost_with_the_process_is_charged_in_full_and_asked_once_more(session: Session) -> None:
    asked = _lost(session, 0)
    with ScriptedLlm(policy=[MEASURE]).serving() as llm, brain_over(session, llm) as brain:
        ask(session, brain)
    lost = session.state.llm_calls[asked.id].answered
    assert lost is not None
    assert (lost.fault, lost.usage) == ("lost", "reserved")
    assert (lost.input_tokens, lost.output_tokens) == (900, 100)
    assert len(llm.questions) == 1


def test_lost_twice_it_is_a_fault_like_any_other(session: Session) -> None:
    for _ in range(2):
        _lost(session, 0)
        with ScriptedLlm(policy=[]).serving() as llm, brain_over(session, llm):
            pass
    with ScriptedLlm(policy=[MEASURE]).serving() as llm, brain_over(session, llm) as brain:
        ask(session, brain)
    attempts = [c.asked.attempt for c in session.state.llm_calls.values() if c.asked.purpose == "decide"]
    assert attempts == [0, 0, 1]


def _lost(session: Session, attempt: int) -> k.LlmAsked:
    asked = k.LlmAsked(
        id=f"A{len(session.state.llm_calls) + 1}", turn=session.state.turns, attempt=attempt, purpose="decide",
        model="scripted", mode="tools", request_artifact="", reserved_input_tokens=900, reserved_output_tokens=100,
    )  # fmt: skip
    session.ledger.append(asked)
    return asked


def test_a_dossier_that_the_endpoint_finds_too_long_is_sent_shorter(session: Session) -> None:
    too_long = Reply(status=400, error="This model's maximum context length is 900 tokens")
    with ScriptedLlm(policy=[too_long, MEASURE]).serving() as llm, brain_over(session, llm) as brain:
        assert ask(session, brain).kind == "measure"
    first, second = (len(asked.body["messages"][-1]["content"]) for asked in llm.questions)
    assert second <= first
    assert faults(session) == ["context"]


def test_a_window_that_holds_not_even_the_rules_ends_it_before_anything_is_sent(session: Session) -> None:
    with ScriptedLlm(policy=[MEASURE]).serving() as llm, brain_over(session, llm, window_tokens=1024) as brain:
        assert ask(session, brain).kind == "conclude"
    assert not llm.questions
    assert session.state.fell_back is not None
    assert "window of 1024 tokens" in session.state.fell_back.reason


def test_reasoning_is_kept_and_never_sent_back(session: Session) -> None:
    thinking = Reply(reasoning="SECRET THOUGHT", calls=(Call("consult", {"name": ""}),))
    with ScriptedLlm(policy=[thinking, MEASURE]).serving() as llm, brain_over(session, llm) as brain:
        carried_out(session, ask(session, brain))
        ask(session, brain)
    assert "SECRET THOUGHT" not in json.dumps([dict(asked.body) for asked in llm.questions])
    stored = [artifacts.path_of(session.run_dir, answer.response_artifact).read_text() for answer in answers(session)]
    assert any("SECRET THOUGHT" in text for text in stored)


def test_usage_that_nobody_reported_is_charged_as_reserved(session: Session) -> None:
    silent = Reply(calls=(Call("consult", {"name": ""}),), report_usage=False)
    with ScriptedLlm(policy=[silent]).serving() as llm, brain_over(session, llm) as brain:
        ask(session, brain)
    answer = answers(session)[-1]
    assert answer.usage == "reserved"
    assert answer.input_tokens > 1000
    assert answer.output_tokens == 4096


def test_a_cut_answer_is_charged_as_reserved(session: Session) -> None:
    broken = Reply(content="x" * 90, cut_after=2)
    with ScriptedLlm(policy=[broken, MEASURE]).serving() as llm, brain_over(session, llm) as brain:
        ask(session, brain)
    cut = next(answer for answer in answers(session) if answer.fault == "cut")
    assert cut.usage == "reserved"
    assert cut.output_tokens == 4096


@pytest.mark.parametrize("features", [FEATURES, FEATURES - {"tools"}, FEATURES - {"tools", "json_schema"}])
def test_the_same_run_is_pursued_in_every_mode(session: Session, features: frozenset[str]) -> None:
    def policy(body: Any) -> Reply:
        families = ("batching", "dtype", "threads")
        skipped = [{"family": f, "disposition": "not_worth_it", "reason": "no sign of it"} for f in families]
        document = {"kind": "conclude", "reason": "done", "skipped": skipped}
        if "tools" in body:
            return action(**document)
        return say(json.dumps({"action": document} if "response_format" in body else document))

    with ScriptedLlm(policy=policy, features=features).serving() as llm, brain_over(session, llm) as brain:
        assert pursue(session, brain, "agent") == "done"
    assert not faults(session)


def test_every_attempt_is_set_aside_and_settled_in_the_runs_budget(session: Session) -> None:
    policy = [LIMITED, Reply(calls=MEASURE.calls, usage=(1000, 100))]
    with ScriptedLlm(policy=policy).serving() as llm, brain_over(session, llm) as brain:
        ask(session, brain)
    answer = answers(session)[-1]
    assert (answer.input_tokens, answer.output_tokens, answer.usage) == (1000, 100, "reported")
    assert answer.usd == pytest.approx((1000 * PRICE.input_usd + 100 * PRICE.output_usd) / 1e6)
    spending = session.state.spending
    assert not spending.open
    assert spending.reservations == 3
    assert spending.total("tokens_in") == sum(each.input_tokens for each in answers(session))
    assert spending.total("usd") == pytest.approx(sum(each.usd or 0.0 for each in answers(session)))


def test_a_question_that_does_not_fit_under_a_ceiling_is_not_sent_and_the_other_brain_goes_on(tmp_path: Path) -> None:
    with session_in(tmp_path, brain="llm", budget_s=20_000.0) as session:
        add_baseline(session)
        session.budget.caps = SpendingCaps(tokens=3_000)
        with ScriptedLlm(policy=[MEASURE]).serving() as llm, brain_over(session, llm) as brain:
            assert ask(session, brain).kind == "conclude"
        assert not llm.questions
        assert session.state.fell_back is not None
        assert "no budget for another question" in session.state.fell_back.reason
        assert all(call.answered is not None for call in session.state.llm_calls.values())
