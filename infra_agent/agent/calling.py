"""One paid call of a model: what it may cost is set aside before, what it did cost is charged, faults are retried.

Covered: every attempt has its own reservation in the run's budget; usage that the endpoint does not name and answers
that were broken off are charged as reserved. The retry is `harness.retry`, here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, NamedTuple, Protocol

from infra_agent.agent.brains.llm.types import Answer, Question, Usage
from infra_agent.errors import EndpointError
from infra_agent.harness.budget import Budget, Reservation
from infra_agent.harness.budget.calls import reserve_call, settle_call
from infra_agent.harness.budget.prices import Price
from infra_agent.harness.retry import Fault, Policy, Seams, retry
from infra_agent.ledger import kinds as k

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
ANSWER_SHARE = 0.25
"""Of the time that a run has left: one answer may take no more, or nothing would be left to act on it."""
SHORTEST_S = 0.001

UsageSource = Literal["reported", "reserved", "none"]
Send = Callable[[float], Answer]


class Charged(NamedTuple):
    """What a call was charged, all attempts together. `source`: reserved when an attempt's usage was not named."""

    usage: Usage
    source: UsageSource
    usd: float


class Called(NamedTuple):
    """An answer with what it cost."""

    answer: Answer
    charged: Charged
    retries: int


class Account(Protocol):
    """One call's account."""

    @property
    def retries(self) -> int:
        """Attempts after the first."""
        ...

    @property
    def charged(self) -> Charged:
        """What was charged so far."""
        ...

    def send(self, send: Send) -> Called:
        """Send, with retries within the deadline; EndpointError when no answer can be had.

        BudgetSpent when another attempt does not fit any more.
        """
        ...


class Accounts(Protocol):
    """Opens an account per call."""

    def call(self, question: Question) -> AbstractContextManager[Account]:
        """BudgetSpent before anything is sent when the most that it can cost does not fit."""
        ...

    def in_full(self, asked: k.LlmAsked) -> float:
        """The price of everything that was set aside for a question."""
        ...


class RunAccounts:
    """Accounts of one run: its budget is the ceiling."""

    def __init__(self, budget: Budget, price: Price, timeout_s: float, seams: Seams) -> None:
        self._budget = budget
        self._price = price
        self._timeout_s = timeout_s
        self._seams = seams

    @contextmanager
    def call(self, question: Question) -> Iterator[Account]:
        """An account for one question, its first attempt paid for."""
        account = _CallAccount(question, self._budget, self._price, self._seams, self._timeout_s)
        with account.reserved():
            yield account

    def in_full(self, asked: k.LlmAsked) -> float:
        """Everything that was set aside, at the price of now."""
        return self._price.usd(asked.reserved_input_tokens, asked.reserved_output_tokens)


class _CallAccount:
    def __init__(self, question: Question, budget: Budget, price: Price, seams: Seams, timeout_s: float) -> None:
        self.retries = 0
        self.charged = Charged(Usage(input=0, output=0), "none", 0.0)
        self._question = question
        self._budget = budget
        self._price = price
        self._seams = seams
        self._timeout_s = timeout_s
        self._reservation: Reservation

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """Set one attempt aside; one that nobody settles is charged in full."""
        asked = self._question
        with reserve_call(
            self._budget, self._price, tokens_in=asked.input_tokens, tokens_out=asked.output_tokens
        ) as self._reservation:
            yield

    def send(self, send: Send) -> Called:
        """Send until it is answered, or attempts, time or money are used up."""
        share_s = ANSWER_SHARE * self._budget.remaining_s()
        policy = Policy(
            deadline_s=max(SHORTEST_S, min(self._timeout_s, share_s)), base_s=FIRST_WAIT_S, cap_s=LONGEST_WAIT_S
        )
        failures: list[EndpointError] = []

        def fault_of(error: Exception) -> Fault | None:
            if not isinstance(error, EndpointError):
                return None
            failures.append(error)
            kind: Literal["overloaded", "final"] = "overloaded" if error.again else "final"
            return Fault(kind=kind, text=error.message, retry_after=error.retry_after or None)

        outcome = retry(
            lambda left_s: self._attempt(send, max(SHORTEST_S, left_s)),
            fault_of=fault_of,
            policy=policy,
            seams=self._seams,
            charge=self._charge,
        )
        if outcome.value is None:
            raise failures[-1]
        return Called(outcome.value, self.charged, self.retries)

    def _charge(self, number: int) -> AbstractContextManager[None]:
        """The first attempt was set aside before the question was stored."""
        self.retries = number - 1
        return nullcontext() if number == 1 else self.reserved()

    def _attempt(self, send: Send, left_s: float) -> Answer:
        try:
            answer = send(left_s)
        except EndpointError as error:
            if error.billed:
                self._settle(None, error.message)
            else:
                self._reservation.settle({"tokens_in": 0, "tokens_out": 0, "usd": 0}, f"not billed: {error.message}")
            raise
        self._settle(answer.usage, answer.cut)
        return answer

    def _settle(self, usage: Usage | None, outcome: str) -> None:
        """Charge what the endpoint counted, else all that was set aside."""
        asked, before = self._question, self.charged
        counted = usage or Usage(input=asked.input_tokens, output=asked.output_tokens)
        settle_call(
            self._reservation,
            self._price,
            tokens_in=usage.input if usage else None,
            tokens_out=usage.output if usage else None,
            cached_in=counted.cached,
            outcome=outcome,
        )
        total = Usage(
            input=before.usage.input + counted.input,
            output=before.usage.output + counted.output,
            cached=before.usage.cached + counted.cached,
            reasoning=before.usage.reasoning + counted.reasoning,
        )
        usd = before.usd + self._price.usd(counted.input, counted.output, counted.cached)
        named = usage is not None and before.source != "reserved"
        self.charged = Charged(total, "reported" if named else "reserved", usd)
