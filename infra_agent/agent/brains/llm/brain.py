"""The LLM brain: the dossier to a model, its answer to one action, a correction for each fault, and an end to patience.

Deterministic on resume: what was answered is in the journal and is not asked again. After too many faults in a row, or
when the endpoint or the money is gone, another brain decides; that is an event, and the report says so.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from infra_agent.agent.actions import Action
from infra_agent.agent.brains.base import Brain
from infra_agent.agent.brains.llm import capability, prompt, schemas
from infra_agent.agent.brains.llm.client import REFUSES, Endpoint
from infra_agent.agent.brains.llm.journal import Journal
from infra_agent.agent.brains.llm.parse import decide
from infra_agent.agent.brains.llm.tokens import estimate_document
from infra_agent.agent.brains.llm.types import Answer, Decision, Exchange, Fault, LlmSettings, Mode, Question
from infra_agent.agent.dossier import Dossier
from infra_agent.errors import BudgetSpent, EndpointError

MARGIN_TOKENS = 256
"""Of the window, kept free: the estimate of a prompt's length is one."""
VAIN_SHARE = 0.2
"""Of the run's budget: faulty answers in a row may take no more, so that another brain still has time to tune."""
MAX_DOSSIER_TOKENS = 6_000
"""A longer dossier costs more than it tells; everything left out can be asked for."""


class _GaveUp(Exception):
    """The model is no longer asked."""


class _Frame(NamedTuple):
    """Everything of a request but the dossier."""

    mode: Mode
    exchange: Exchange
    correction: str


class LlmBrain:
    """Asks a model; falls back to another brain for good.

    `nonce`: of the blocks that text from outside stands in (`agent.quote`).
    """

    name = "llm"

    def __init__(
        self, settings: LlmSettings, endpoint: Endpoint, journal: Journal, fallback: Brain, nonce: str
    ) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._journal = journal
        self._fallback = fallback
        self._nonce = nonce

    def next(self, dossier: Dossier) -> Action:
        """The next action: of an answer that is already there, of a new one, or the other brain's."""
        if not self._journal.given_up():
            try:
                return self._journal.queued(dossier.turn) or self._asked(dossier)
            except _GaveUp as end:
                reason = str(end)
            except EndpointError as error:
                reason = error.message
            except BudgetSpent as error:
                reason = f"no budget for another question: {error.message}"
            self._journal.give_up(dossier.turn, self._fallback.name, reason)
        return self._fallback.next(dossier)

    def _asked(self, dossier: Dossier) -> Action:
        """Ask until an answer holds an action; every fault is answered with its correction."""
        mode = self._journal.mode() or self._find_mode()
        correction, attempt = "", 0
        while True:
            decision = self._journal.decided(dossier.turn, attempt)
            if decision is None:
                self._require_patience(dossier)
                decision = self._ask(dossier, mode, attempt, correction)
            if decision.actions:
                return decision.actions[0]
            correction, attempt = decision.correction or correction, attempt + 1

    def _require_patience(self, dossier: Dossier) -> None:
        faults = self._journal.faults_in_a_row()
        if faults > self._settings.corrections:
            raise _GaveUp(f"{faults} faulty answers or refused actions in a row")
        lost_s = self._journal.seconds_in_vain()
        if lost_s > VAIN_SHARE * dossier.budget_s:
            raise _GaveUp(f"{faults} faulty answers took {lost_s:.0f} s of a budget of {dossier.budget_s:.0f} s")

    def _find_mode(self) -> Mode:
        """One short exchange per form of asking until one works; kept for the run."""
        found = capability.find_mode(self._check, self._settings.model)
        self._journal.choose(found.mode, found.evidence)
        return found.mode

    def _check(self, mode: Mode, body: dict[str, Any]) -> Answer:
        question = _question(mode, body, capability.CHECK_TOKENS)
        return self._journal.check(capability.label(mode), question, partial(self._send, question))

    def _ask(self, dossier: Dossier, mode: Mode, attempt: int, correction: str) -> Decision:
        question = self._fitting(dossier, _Frame(mode, self._journal.last_exchange(), correction))
        send = partial(self._send, question)
        try:
            return self._journal.ask(dossier.turn, attempt, question, send, decide, _fault_of)
        except EndpointError as error:
            # What may pass was tried again already, by the one layer that does so.
            if error.again or error.status in REFUSES or not error.status:
                raise
            return Decision(fault=_fault_of(error))

    def _send(self, question: Question, left_s: float) -> Answer:
        timeout_s = min(self._settings.timeout_s, left_s)
        return self._endpoint.chat(question.body, question.mode.stream, timeout_s)

    def _fitting(self, dossier: Dossier, frame: _Frame) -> Question:
        """The whole request, its dossier cut to what the model's window leaves for it."""
        limit = MAX_DOSSIER_TOKENS >> self._journal.count("context")
        for candidate in (frame, frame._replace(exchange=())):
            room = min(limit, self._room(candidate))
            rendered = prompt.render(dossier, room, self._nonce)
            if rendered.tokens <= room:
                return _question(frame.mode, self._body(rendered.text, candidate), self._answer_tokens)
        window = self._settings.window_tokens
        raise _GaveUp(
            f"a window of {window} tokens, {self._answer_tokens} of them for the answer, does not hold the rules and "
            f"the shortest dossier ({rendered.tokens} tokens where {max(0, room)} are left)"
        )

    def _room(self, frame: _Frame) -> int:
        taken = estimate_document(self._body("", frame)) + MARGIN_TOKENS + self._answer_tokens
        return self._settings.window_tokens - taken

    @property
    def _answer_tokens(self) -> int:
        return min(self._settings.answer_tokens, self._settings.window_tokens // 4)

    def _body(self, dossier_text: str, frame: _Frame) -> dict[str, Any]:
        said = prompt.messages(dossier_text, frame.mode.name, frame.exchange, frame.correction)
        body = capability.request_body(self._settings.model, frame.mode, list(said), self._answer_tokens)
        if frame.mode.name == "tools":
            body["tools"] = list(schemas.tools())
        elif frame.mode.name == "json_schema":
            body["response_format"] = schemas.response_format()
        return body


def _question(mode: Mode, body: dict[str, Any], answer_tokens: int) -> Question:
    return Question(mode=mode, body=body, input_tokens=estimate_document(body), output_tokens=answer_tokens)


def _fault_of(error: EndpointError) -> Fault:
    too_long = error.status in (400, 413, 422) and "context" in error.message.lower()
    return "context" if too_long else "endpoint"
