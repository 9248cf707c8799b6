"""Builds a run's brain from the choice that was made, over the run's session."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from infra_agent.agent.actions import ConcludeAction
from infra_agent.agent.brains.base import Brain
from infra_agent.agent.brains.ending import EndingBrain
from infra_agent.agent.brains.llm.brain import LlmBrain
from infra_agent.agent.brains.llm.client import Endpoint
from infra_agent.agent.brains.playbook import PlaybookBrain
from infra_agent.agent.brains.script import ScriptBrain
from infra_agent.agent.brains.search import SearchBrain
from infra_agent.agent.calling import RunAccounts
from infra_agent.agent.choose import Choice
from infra_agent.agent.journal import LedgerJournal
from infra_agent.agent.quote import new_nonce
from infra_agent.agent.scripts import load_script
from infra_agent.agent.telemetry import Spans
from infra_agent.errors import UsageError
from infra_agent.harness.budget.prices import FlatPrice, price_from, price_of
from infra_agent.harness.retry import Seams
from infra_agent.harness.session import Session
from infra_agent.library.playbooks import Playbook, all_playbooks

MCP = "mcp"
"""The brain of a run that another agent acts on."""


def require_brain(choice: Choice) -> None:
    """UsageError or ConfigError, before anything is spent, for a brain that cannot be built."""
    if choice.name == "script":
        if choice.script is None:
            raise UsageError("the script brain needs a script", hint="--brain script --script FILE.toml")
        load_script(choice.script)
    elif choice.name == MCP:
        raise UsageError("the run is acted on over MCP", hint="infra-agent mcp --allow-run RUN")
    elif choice.name not in ("playbook", "search", "llm"):
        raise UsageError(f"the run's brain is {choice.name!r}: it cannot be carried on")


def require_price(choice: Choice, given: FlatPrice | None) -> None:
    """UsageError, before anything is spent, for a model whose price nobody knows."""
    if choice.llm is not None:
        price_of(choice.llm.model, choice.llm.base_url, given)


@contextmanager
def brain_for(choice: Choice, session: Session) -> Iterator[Brain]:
    """The brain; its connections are closed at the end. A run of MCP that has waited for a person only has to end."""
    if choice.name == MCP and session.state.phase == "done":
        yield EndingBrain(MCP, ConcludeAction(reason="nobody acts on the run any more"))
        return
    require_brain(choice)
    if choice.llm is not None:
        endpoint = Endpoint(choice.llm, choice.credentials, time.monotonic)
        try:
            yield _llm(choice, session, endpoint)
        finally:
            endpoint.close()
    elif choice.script is not None and choice.name == "script":
        yield ScriptBrain(load_script(choice.script))
    else:
        yield SearchBrain() if choice.name == "search" else PlaybookBrain(_pages(session))


def _llm(choice: Choice, session: Session, endpoint: Endpoint) -> Brain:
    assert choice.llm is not None
    seams = Seams(clock=time.monotonic, sleep=time.sleep, random=random.random, now=lambda: datetime.now(UTC))
    price = price_of(choice.llm.model, choice.llm.base_url, price_from(session.state.started.price))
    accounts = RunAccounts(session.budget, price, choice.llm.timeout_s, seams)
    journal = LedgerJournal(session, choice.llm.model, accounts, Spans(session.run_dir.name))
    return LlmBrain(choice.llm, endpoint, journal, PlaybookBrain(_pages(session)), new_nonce())


def _pages(session: Session) -> tuple[Playbook, ...]:
    """The program's pages and the stack's own, walked together by rank."""
    own = session.stack.playbooks
    return all_playbooks(Path(own) if own is not None else None)
