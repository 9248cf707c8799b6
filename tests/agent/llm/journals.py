"""An LLM brain over a real ledger and a real (scripted) endpoint; nothing of it is launched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from infra_agent.agent.actions import Action
from infra_agent.agent.brains.llm.brain import LlmBrain
from infra_agent.agent.brains.llm.client import Endpoint
from infra_agent.agent.brains.llm.types import Credentials, LlmSettings
from infra_agent.agent.brains.script import ScriptBrain
from infra_agent.agent.calling import RunAccounts
from infra_agent.agent.journal import LedgerJournal
from infra_agent.agent.results import result_of
from infra_agent.agent.telemetry import Spans
from infra_agent.agent.under_way import begin_action
from infra_agent.harness.budget.prices import FlatPrice
from infra_agent.harness.retry import Seams
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.testing.scripted_llm import ScriptedLlm

PRICE = FlatPrice(input_usd=1.0, output_usd=10.0, source="test")


@contextmanager
def brain_over(
    session: Session, llm: ScriptedLlm, sleep: Callable[[float], None] = lambda _: None, **settings: Any
) -> Iterator[LlmBrain]:
    """The brain as a run has it; it falls back to a script that concludes. Waiting takes no time."""
    chosen = replace(LlmSettings(model=llm.model, base_url=llm.url, timeout_s=60.0), **settings)
    endpoint = Endpoint(chosen, Credentials(), time.monotonic)
    seams = Seams(clock=time.monotonic, sleep=sleep, random=lambda: 0.5, now=lambda: datetime.now(UTC))
    accounts = RunAccounts(session.budget, PRICE, chosen.timeout_s, seams)
    journal = LedgerJournal(session, chosen.model, accounts, Spans(session.run_dir.name))
    try:
        yield LlmBrain(chosen, endpoint, journal, ScriptBrain([]), "0" * 32)
    finally:
        endpoint.close()


def carried_out(session: Session, action: Action) -> None:
    """Record an action as carried out; nothing is done."""
    turn = session.state.turns
    begin_action(session, action, turn)
    result = result_of(session.state, action, session.state.begun_seq)
    session.ledger.append(k.ActionTaken(turn=turn, action=action.model_dump(mode="json"), result=result))
