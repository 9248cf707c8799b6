"""The LLM brain's journal, kept in the run's ledger: asked before a call, answered after it, replayed on resume.

The pair is the only record: what a model was asked and what it said are artifacts, so a run can be replayed word for
word. A question whose answer was lost with the process is charged in full and asked once more; lost twice, it is a
fault like any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from infra_agent.agent import asked
from infra_agent.agent.actions import ACTION, Action
from infra_agent.agent.brains.llm.capability import label as label_of
from infra_agent.agent.brains.llm.journal import Send
from infra_agent.agent.brains.llm.types import (
    Answer,
    Decision,
    Exchange,
    Exchanged,
    Fault,
    Mode,
    Question,
    ToolCall,
    Usage,
)
from infra_agent.agent.calling import Account, Accounts, Called, Charged
from infra_agent.agent.telemetry import Spans
from infra_agent.errors import BudgetSpent, EndpointError, LedgerError
from infra_agent.harness.session import Session
from infra_agent.ledger import artifacts
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import LlmCall

LOST: Fault = "lost"
MOST_LOST = 2
"""A question is asked again once when its answer was lost."""


class LedgerJournal:
    """`brains.llm.journal.Journal` over a session."""

    def __init__(self, session: Session, model: str, accounts: Accounts, spans: Spans) -> None:
        self._session = session
        self._model = model
        self._accounts = accounts
        self._spans = spans
        self._close_lost()

    def mode(self) -> Mode | None:
        """What the capability check found."""
        chosen = self._session.state.llm_mode
        if chosen is None:
            return None
        return Mode(chosen.mode, chosen.stream, chosen.stream_usage, chosen.limit_field)

    def choose(self, mode: Mode, evidence: str) -> None:
        """Keep the mode and tell the user."""
        chosen = k.LlmModeChosen(
            mode=mode.name,
            stream=mode.stream,
            stream_usage=mode.stream_usage,
            limit_field=mode.limit_field,
            evidence=evidence,
        )
        self._session.ledger.append(chosen)
        streamed = "streamed" if mode.stream else "not streamed"
        self._session.narrator.line("Model", f"answers by {mode.name.replace('_', ' ')}, {streamed} ({evidence})")

    def queued(self, turn: int) -> Action | None:
        """The due action of an answer that is there already."""
        due = asked.due_action(self._session.state)
        return ACTION.validate_python(due.action) if due is not None and self._session.state.turns == turn else None

    def decided(self, turn: int, attempt: int) -> Decision | None:
        """A stored decision; None when it is still to be asked for."""
        calls = [call for call in self._calls("decide") if (call.asked.turn, call.asked.attempt) == (turn, attempt)]
        answered = [call.answered for call in calls if call.answered is not None]
        kept = [answer for answer in answered if answer.fault != LOST]
        if kept:
            return _decision(kept[-1])
        return _decision(answered[-1]) if len(answered) >= MOST_LOST else None

    def last_exchange(self) -> Exchange:
        """The newest tool calls with their results, those not carried out among them."""
        call = asked.last_with_actions(self._session.state)
        if call is None or call.answered is None or not all(call.answered.call_ids):
            return ()
        answered = call.answered
        ends = asked.ends_of(self._session.state, call)
        done = [
            Exchanged(id_, str(action["kind"]), _arguments(action), end)
            for id_, action, end in zip(answered.call_ids, answered.actions, ends, strict=True)
        ]
        dropped = [Exchanged(entry["call_id"], entry["name"], "{}", entry["why"]) for entry in answered.dropped]
        return (*done, *dropped)

    def faults_in_a_row(self) -> int:
        """Since an action was last carried out."""
        return asked.faults_in_a_row(self._session.state)

    def seconds_in_vain(self) -> float:
        """Since an action was last carried out."""
        return asked.seconds_in_vain(self._session.state)

    def count(self, fault: Fault) -> int:
        """Answers of this run with this fault."""
        calls = self._session.state.llm_calls.values()
        return sum(1 for call in calls if call.answered is not None and call.answered.fault == fault)

    def given_up(self) -> str:
        """Why another brain decides."""
        fell = self._session.state.fell_back
        return fell.reason if fell is not None else ""

    def give_up(self, turn: int, to: str, reason: str) -> None:
        """Record it and tell the user."""
        self._session.ledger.append(k.BrainFellBack(turn=turn, brain="llm", to=to, reason=reason))
        self._session.narrator.line("Brain", f"{to} from here on: {reason}")

    def check(self, label: str, question: Question, send: Send) -> Answer:
        """The stored answer of this form of asking, or a new one. A form that is not taken is no fault of the model."""
        for call in self._calls("capability"):
            if call.asked.mode == label and call.answered is not None and call.answered.response_artifact:
                return self._load(call.answered.response_artifact)
        answers: list[Answer] = []

        def keep(answer: Answer) -> Decision:
            answers.append(answer)
            return Decision()

        self._ask(0, len(self._calls("capability")), "capability", label, question, send, keep, lambda _: "")
        return answers[0]

    def ask(
        self,
        turn: int,
        attempt: int,
        question: Question,
        send: Send,
        judge: Callable[[Answer], Decision],
        fault_of: Callable[[EndpointError], Fault],
    ) -> Decision:
        """Store, send, store."""
        label = label_of(question.mode)
        return self._ask(turn, attempt, "decide", label, question, send, judge, fault_of)

    def _ask(
        self, turn: int, attempt: int, purpose: Any, label: str, question: Question, send: Send,
        judge: Callable[[Answer], Decision], fault_of: Callable[[EndpointError], Fault],
    ) -> Decision:  # fmt: skip
        session = self._session
        ledger = session.ledger
        id_ = f"A{len(session.state.llm_calls) + 1}"
        session.narrator.status(f"asking {self._model}")
        started_s = session.clock()
        with self._accounts.call(question) as account, self._spans.chat(self._model) as span:
            request = ledger.put_artifact(_json(question.body))
            ledger.append(
                k.LlmAsked(
                    id=id_, turn=turn, attempt=attempt, purpose=purpose, model=self._model, mode=label,
                    request_artifact=request, reserved_input_tokens=question.input_tokens,
                    reserved_output_tokens=question.output_tokens,
                )
            )  # fmt: skip
            try:
                called = account.send(send)
            except (EndpointError, BudgetSpent) as error:
                fault = fault_of(error) if isinstance(error, EndpointError) else "endpoint"
                failed = _failed(id_, error.message, fault, session.clock() - started_s, account)
                ledger.append(failed)
                span.failed(failed.fault or "endpoint")
                raise
            decision = judge(called.answer)
            stored = ledger.put_artifact(_json(asdict(called.answer)))
            answered = _answered(id_, called, decision, stored, session.clock() - started_s)
            ledger.append(answered)
            span.answered(answered)
        self._tell(answered, decision)
        return decision

    def _tell(self, answered: k.LlmAnswered, decision: Decision) -> None:
        if decision.fault:
            self._session.narrator.line("Model", f"{decision.fault}: {decision.correction}", answered.seconds)

    def _calls(self, purpose: str) -> list[LlmCall]:
        return [call for call in self._session.state.llm_calls.values() if call.asked.purpose == purpose]

    def _load(self, name: str) -> Answer:
        try:
            document = json.loads(artifacts.path_of(self._session.run_dir, name).read_bytes())
            return answer_from(document)
        except (ValueError, TypeError, KeyError) as error:
            raise LedgerError(f"artifact {name} is no stored answer", where=str(self._session.run_dir)) from error

    def _close_lost(self) -> None:
        """Questions that a killed process had asked: what they may have cost is charged in full."""
        for call in list(self._session.state.llm_calls.values()):
            if call.answered is None:
                lost = k.LlmAnswered(
                    id=call.asked.id, fault=LOST, usage="reserved", input_tokens=call.asked.reserved_input_tokens,
                    output_tokens=call.asked.reserved_output_tokens, usd=self._accounts.in_full(call.asked),
                )  # fmt: skip
                self._session.ledger.append(lost)


def answer_from(document: Mapping[str, Any]) -> Answer:
    """An answer as it was stored."""
    usage = document.get("usage")
    fields = {**document, "usage": Usage(**usage) if usage else None}
    fields["calls"] = tuple(ToolCall(*call) for call in document["calls"])
    return Answer(**fields)


def _decision(answered: k.LlmAnswered) -> Decision:
    return Decision(
        actions=tuple(ACTION.validate_python(action) for action in answered.actions),
        call_ids=answered.call_ids,
        fault=answered.fault,  # type: ignore[arg-type]
        correction=answered.correction,
    )


def _answered(id_: str, called: Called, decision: Decision, stored: str, seconds: float) -> k.LlmAnswered:
    return k.LlmAnswered(
        id=id_,
        fault=decision.fault,
        correction=decision.correction,
        actions=tuple(action.model_dump(mode="json") for action in decision.actions),
        call_ids=decision.call_ids,
        dropped=tuple(dropped._asdict() for dropped in decision.dropped),
        response_artifact=stored,
        finish=called.answer.cut or called.answer.finish,
        seconds=seconds,
        retries=called.retries,
        **_cost(called.charged),
    )


def _failed(id_: str, why: str, fault: Fault, seconds: float, account: Account) -> k.LlmAnswered:
    """A question without an answer; attempts that the endpoint may have worked on are charged."""
    cost = _cost(account.charged)
    return k.LlmAnswered(id=id_, fault=fault, finish=why, seconds=seconds, retries=account.retries, **cost)


def _cost(charged: Charged) -> dict[str, Any]:
    return {
        "input_tokens": charged.usage.input,
        "output_tokens": charged.usage.output,
        "cached_tokens": charged.usage.cached,
        "reasoning_tokens": charged.usage.reasoning,
        "usage": charged.source,
        "usd": charged.usd if charged.source != "none" else None,
    }


def _arguments(action: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in action.items() if name != "kind"}, ensure_ascii=False)


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")
