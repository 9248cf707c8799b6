"""An LLM brain over a real ledger and a real (scripted) endpoint; nothing of it is launched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from infra_agent.agent.brains.llm.brain import LlmBrain
from infra_agent.agent.brains.llm.client import Endpoint
from infra_agent.agent.brains.llm.types import Credentials, LlmSettings
from infra_agent.agent.brains.script import ScriptBrain
from infra_agent.agent.calling import RunAccounts, Seams
from infra_agent.agent.journal import LedgerJournal
from infra_agent.agent.telemetry import Spans
from infra_agent.harness.session import Session
from infra_agent.testing.scripted_llm import ScriptedLlm


@contextmanager
def brain_over(
    session: Session, llm: ScriptedLlm, sleep: Callable[[float], None] = lambda _: None, **settings: Any
) -> Iterator[LlmBrain]:
    """The brain as a run has it; it falls back to a script that concludes. Waiting takes no time."""
    chosen = replace(LlmSettings(model=llm.model, base_url=llm.url, timeout_s=60.0), **settings)
    endpoint = Endpoint(chosen, Credentials(), time.monotonic)
    accounts = RunAccounts(session.budget, chosen.timeout_s, Seams(time.monotonic, sleep, lambda: 0.5))
    journal = LedgerJournal(session, chosen.model, accounts, Spans(session.run_dir.name))
    try:
        yield LlmBrain(chosen, endpoint, journal, ScriptBrain([]))
    finally:
        endpoint.close()
