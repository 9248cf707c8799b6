"""What the brain needs of a run's ledger. The harness side implements it; in tests a list does.

An answer that was stored is replayed by `decided`, never asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from infra_agent.agent.actions import Action
from infra_agent.agent.brains.llm.types import Answer, Decision, Exchange, Fault, Mode, Question
from infra_agent.errors import EndpointError

Send = Callable[[float], Answer]
"""Sends a question; is given the seconds left."""


class Journal(Protocol):
    """The record of one run's conversation with a model."""

    def mode(self) -> Mode | None:
        """How the endpoint is talked to, once that was found out."""
        ...

    def choose(self, mode: Mode, evidence: str) -> None:
        """Keep what was found out."""
        ...

    def queued(self, turn: int) -> Action | None:
        """The action of this turn if an earlier answer held several and none of them was refused since."""
        ...

    def decided(self, turn: int, attempt: int) -> Decision | None:
        """What an attempt of this turn came to, if it was answered already."""
        ...

    def last_exchange(self) -> Exchange:
        """Tool calls of the newest answer that led to actions, in order, each with its result."""
        ...

    def faults_in_a_row(self) -> int:
        """Faulty answers and refused actions since an action was last carried out."""
        ...

    def seconds_in_vain(self) -> float:
        """What faulty answers took since an action was last carried out."""
        ...

    def count(self, fault: Fault) -> int:
        """How often an answer of this run had this fault."""
        ...

    def check(self, label: str, question: Question, send: Send) -> Answer:
        """The answer to a question of the capability check, stored under its label; asked once."""
        ...

    def ask(
        self,
        turn: int,
        attempt: int,
        question: Question,
        send: Send,
        judge: Callable[[Answer], Decision],
        fault_of: Callable[[EndpointError], Fault],
    ) -> Decision:
        """Store the question, send it, store the answer and what it comes to.

        BudgetSpent before anything is sent; EndpointError, stored as the fault it is, when no answer can be had.
        """
        ...

    def given_up(self) -> str:
        """Why the brain gave up; empty while it has not."""
        ...

    def give_up(self, turn: int, to: str, reason: str) -> None:
        """From here on another brain decides."""
        ...
