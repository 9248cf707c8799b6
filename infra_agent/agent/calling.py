"""One paid call of a model: what it may cost is set aside before, what it did cost is charged, faults are retried.

Covered: usage that the endpoint does not report is estimated from what was sent and received; a broken-off answer is
charged as reserved. The retry is here and nowhere else.
"""

from __future__ import annotations

import email.utils
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Literal, NamedTuple, Protocol

from infra_agent.agent.brains.llm.tokens import estimate_tokens
from infra_agent.agent.brains.llm.types import Answer, Question, Usage
from infra_agent.errors import BudgetSpent, EndpointError
from infra_agent.harness.budget import Budget
from infra_agent.ledger import kinds as k

ATTEMPTS = 6
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
ANSWER_SHARE = 0.25
"""Of the time that a run has left: one answer may take no more, or nothing would be left to act on it."""

UsageSource = Literal["reported", "estimated", "reserved", "none"]
Send = Callable[[float], Answer]


class Called(NamedTuple):
    """An answer with what it cost. `usd` None: no price is known."""

    answer: Answer
    usage: Usage
    source: UsageSource
    usd: float | None
    retries: int


class Account(Protocol):
    """One call's account."""

    retries: int

    def send(self, send: Send) -> Called:
        """Send, with retries within the deadline; EndpointError when no answer can be had."""
        ...


class Accounts(Protocol):
    """Opens an account per call."""

    def call(self, question: Question) -> AbstractContextManager[Account]:
        """BudgetSpent before anything is sent when the most that it can cost does not fit."""
        ...

    def in_full(self, asked: k.LlmAsked) -> float | None:
        """The price of everything that was set aside for a question."""
        ...


class Seams(NamedTuple):
    """What waiting takes from outside: monotonic seconds, sleep, a random number in [0, 1)."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]


class RunAccounts:
    """Accounts of one run: its wall clock is the ceiling."""

    def __init__(self, budget: Budget, timeout_s: float, seams: Seams) -> None:
        self._budget = budget
        self._timeout_s = timeout_s
        self._seams = seams

    @contextmanager
    def call(self, question: Question) -> Iterator[Account]:
        """An account for one question."""
        if self._budget.remaining_s() <= 0:
            raise BudgetSpent("no time is left to ask the model")
        yield _CallAccount(question, self._budget, self._timeout_s, self._seams)

    def in_full(self, asked: k.LlmAsked) -> float | None:
        """No price is known here."""
        return None


class _CallAccount:
    def __init__(self, question: Question, budget: Budget, timeout_s: float, seams: Seams) -> None:
        self.retries = 0
        self._question = question
        self._budget = budget
        self._timeout_s = timeout_s
        self._seams = seams

    def send(self, send: Send) -> Called:
        """Send until it is answered, or attempts or time are used up."""
        ends_s = self._seams.clock() + min(self._timeout_s, ANSWER_SHARE * self._budget.remaining_s())
        while True:
            try:
                answer = send(max(0.001, ends_s - self._seams.clock()))
            except EndpointError as error:
                wait_s = _wait_s(error, self.retries, self._seams.random())
                late = self._seams.clock() + wait_s >= ends_s
                if not error.again or late or self.retries + 1 >= ATTEMPTS:
                    raise
                self._seams.sleep(wait_s)
                self.retries += 1
                continue
            usage, source = used(self._question, answer)
            return Called(answer, usage, source, None, self.retries)


def used(question: Question, answer: Answer) -> tuple[Usage, UsageSource]:
    """The endpoint's count; else all that was set aside for a broken-off answer, and an estimate for a whole one."""
    if answer.usage is not None:
        return answer.usage, "reported"
    if answer.cut:
        return Usage(input=question.input_tokens, output=question.output_tokens), "reserved"
    said = answer.content + answer.reasoning + "".join(call.name + call.arguments for call in answer.calls)
    return Usage(input=question.input_tokens, output=estimate_tokens(said)), "estimated"


def _wait_s(error: EndpointError, retries: int, random: float) -> float:
    asked_s = _asked_s(error.retry_after)
    if asked_s is not None:
        return min(asked_s, LONGEST_WAIT_S) + FIRST_WAIT_S * random
    return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**retries) * random)


def _asked_s(text: str) -> float | None:
    """Seconds of a Retry-After header, given in seconds or as a date; None for neither."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
