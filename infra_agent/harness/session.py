"""A Session: all that the harness needs to run experiments for one run, passed along instead of global state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra_agent.changes.change import STOCK
from infra_agent.changes.workspace import Workspace
from infra_agent.goal.model import Goal, Load
from infra_agent.harness.budget import Budget
from infra_agent.harness.narrate import Narrator
from infra_agent.harness.oracle import OracleHolder
from infra_agent.harness.sandbox import Walls
from infra_agent.ledger.approvals import Authority
from infra_agent.ledger.state import RunState
from infra_agent.ledger.store import Ledger
from infra_agent.stack.engines.base import Engine, Parameter
from infra_agent.stack.model import ParameterValue, Stack
from probes.load.types import Prompt
from probes.numeric.types import AnswerPrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One process's work on a run. `clock` is monotonic seconds."""

    ledger: Ledger
    goal: Goal
    stack: Stack
    engine: Engine
    walls: Walls
    run_dir: Path
    narrator: Narrator
    budget: Budget
    clock: Callable[[], float]
    seed: int
    prompts: tuple[Prompt, ...]
    answer_prompts: tuple[AnswerPrompt, ...]
    oracle: OracleHolder
    authority: Authority = Authority()
    """Who may decide on gated changes while this process goes on."""
    workspace: Workspace | None = None
    """The run's own copy of the sources; None when code cannot be changed."""

    @property
    def state(self) -> RunState:
        """What the ledger says now."""
        return self.ledger.state()

    @property
    def attached(self) -> bool:
        """Whether the server is somebody else's: measured at its URL, never started or stopped."""
        return self.stack.url is not None or not self.engine.launches

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The engine's parameter table."""
        return tuple(self.engine.parameters())

    @property
    def load(self) -> Load:
        """The goal's load, or the stack's default."""
        return self.goal.load or Load(arrivals="closed", concurrency=self.stack.workload.concurrency)

    @property
    def concurrency(self) -> int:
        """Requests in flight that the load asks for; with Poisson arrivals the stack's own."""
        return self.load.concurrency or self.stack.workload.concurrency

    @property
    def stock_settings(self) -> Mapping[str, ParameterValue]:
        """The stack's own launch parameters."""
        return self.stack.launch.parameters

    def settings_of(self, candidate: str) -> Mapping[str, ParameterValue]:
        """Complete settings of `stock` or of a candidate."""
        stock = self.stock_settings
        if candidate == STOCK:
            return stock
        # The ledger holds no secrets: a setting that was masked there has stock's own value.
        masker = self.ledger.masker
        return {
            name: stock[name] if name in stock and value == masker.value(stock[name]) else value
            for name, value in self.state.candidates[candidate].proposed.settings.items()
        }

    def title_of(self, candidate: str) -> str:
        """What people call it."""
        return STOCK if candidate == STOCK else self.state.candidates[candidate].proposed.title
