"""The one run that the person who started the server opened, and the one thread that works on it.

The harness is not made for several threads, and its engines die with the thread that started them: everything that
touches the run is done in one thread that lives as long as the server. The run is begun or resumed by the first action,
so that a client that only reads leaves nothing behind. Nothing here can approve.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from infra_agent.agent.actions import Action, ConcludeAction
from infra_agent.agent.brains.ending import EndingBrain
from infra_agent.agent.brains.llm import prompt
from infra_agent.agent.brains.llm.brain import MAX_DOSSIER_TOKENS
from infra_agent.agent.decisions import take_in_decisions
from infra_agent.agent.discipline import require_conduct
from infra_agent.agent.loop import attempt, pick_up
from infra_agent.agent.quote import new_nonce
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.run import begin_tuning, carry_out
from infra_agent.agent.telemetry import Spans
from infra_agent.agent.under_way import concluded
from infra_agent.agent.view import build_dossier
from infra_agent.errors import BudgetSpent, InfraAgentError, UsageError
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.mcp.models import Done, DossierText
from infra_agent.mcp.observed import observation_lines
from infra_agent.publish.publish import publish

Open = Callable[[], AbstractContextManager[Session]]
T = TypeVar("T")


class NoScope(UsageError):
    """The server was started read-only."""

    kind = "no_scope"


class Scope:
    """A run that may be acted on. Without `open` every action is refused."""

    def __init__(self, open: Open | None = None) -> None:
        self._open = open
        self._session: Session | None = None
        self._stack = ExitStack()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="run")

    async def call(self, work: Callable[[Session], T]) -> T:
        """Do something with the run in its own thread; one caller after the other."""
        if self._open is None:
            raise NoScope(
                "this server was started read-only: only the person who starts it can open a run",
                hint="infra-agent mcp --goal TEXT, or --allow-run RUN",
            )
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._ready()))

    def _ready(self) -> Session:
        if self._session is None:
            assert self._open is not None
            self._session = self._stack.enter_context(self._open())
            begin_tuning(self._session)
        return self._session

    def close(self) -> None:
        """Let the action that is going on end, and give the run back; it can be resumed."""
        self._thread.submit(self._stack.close).result()
        self._thread.shutdown()


def dossier_text(session: Session) -> DossierText:
    """The dossier as a brain would see it now."""
    dossier = build_dossier(session, "agent")
    rendered = prompt.render(dossier, MAX_DOSSIER_TOKENS, new_nonce())
    run = session.run_dir.name
    return DossierText(run=run, turn=dossier.turn, text=rendered.text, tokens_estimated=rendered.tokens)


def act(session: Session, action: Action) -> Done:
    """Carry out one action by the rules of the loop; ActionError when it is refused, BudgetSpent when that ends it."""
    _require_open(session)
    spans = Spans(session.run_dir.name)
    with _ended_by_errors(session):
        take_in_decisions(session)
        pick_up(session, spans)
    reason = concluded(session)
    if reason is not None:
        # Cut off in its last phases: they are gone on with, and this action comes too late.
        _finish(session, ConcludeAction(reason=reason))
        _require_open(session)
    dossier = build_dossier(session, "agent")
    since = session.state.head_seq
    if isinstance(action, ConcludeAction):
        _conclude(session, action)
    else:
        try:
            session.budget.require(0.001, action.kind)
            session.budget.require_turn(dossier.turn)
            with _ended_by_errors(session):
                refusal = attempt(session, action, dossier, spans)
        except BudgetSpent as spent:
            _finish(session, ConcludeAction(reason=f"the budget was spent: {spent.message}"[:500]))
            raise
        if refusal is not None:
            raise refusal
    return _done(session, action, dossier.turn, since)


@contextmanager
def _ended_by_errors(session: Session) -> Iterator[None]:
    """An action that the stack could not bear is over: the client is told, and decides what to do next."""
    try:
        yield
    except BudgetSpent:
        raise
    except InfraAgentError as error:
        begun = session.state.begun
        if begun is not None:
            text = json.dumps(begun.action, ensure_ascii=False)
            session.ledger.append(k.ActionRefused(turn=begun.turn, action=text, error=error.message, code=error.kind))
        raise


def _require_open(session: Session) -> None:
    if session.state.finished is not None:
        raise UsageError(f"the run has ended: {session.state.finished.sentence}")


def _conclude(session: Session, action: ConcludeAction) -> None:
    """Refused like any other action when levers are untried; else the run is carried to its end."""
    dossier = build_dossier(session, "agent")
    try:
        require_conduct(session, action, dossier)
    except ActionError:
        refusal = attempt(session, action, dossier, Spans(session.run_dir.name))
        assert refusal is not None
        raise refusal from None
    _finish(session, action)


def _finish(session: Session, action: ConcludeAction) -> None:
    """Final relaunch, plain search, verdict and report."""
    try:
        carry_out(session, EndingBrain("mcp", action))
    finally:
        if session.state.finished is not None:
            publish(session.run_dir, session.state, session.ledger.masker)


def _done(session: Session, action: Action, turn: int, since: int) -> Done:
    state = session.state
    taken = [entry.result for entry in state.taken if entry.turn == turn]
    waiting = [c.proposed.id for c in state.candidates.values() if c.undecided]
    made = [at.data for at in state.events if at.seq > since and isinstance(at.data, k.ObservationMade)]
    dossier = build_dossier(session, "agent")
    return Done(
        run=session.run_dir.name,
        turn=turn,
        action=action.kind,
        result=taken[-1] if taken else "",
        observations=observation_lines([m for m in made if isinstance(m, k.ObservationMade)]),
        best=state.best,
        waiting=waiting,
        budget_left_s=max(0.0, dossier.budget_s - dossier.elapsed_s - dossier.reserve_s),
        finished=state.finished is not None,
        outcome=state.finished.sentence if state.finished is not None else "",
    )
