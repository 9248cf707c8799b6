"""The run's verdict in a sentence, and its exit code. Computed from the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from infra_agent.changes.change import STOCK
from infra_agent.errors import ExitCode
from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.model import Direction, Goal
from infra_agent.harness.evidence import arm_logs, evidence_of
from infra_agent.harness.experiment.exact import is_exact
from infra_agent.harness.figure import oriented_log, quantity_name
from infra_agent.harness.memory import FIGURE_PURPOSES, figure_in, launch_logs, quantity_in
from infra_agent.judge.decide import goal_reached
from infra_agent.judge.estimate import estimate
from infra_agent.judge.evidence import guards_of
from infra_agent.judge.exact import exact_estimate, exact_guard
from infra_agent.judge.types import Estimate, Guard
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState

Kind = Literal["met", "not_met", "waiting", "budget_spent"]
STOCK_LAUNCHES = 3
SMALLEST_SHOWN = 0.01
"""Smaller ratios are not said in two decimals."""
FINAL_ALPHA = 0.05 / 3
"""Three looks share 5 %: the final relaunch stops as soon as the goal is settled."""
EXIT = {
    "met": ExitCode.OK,
    "not_met": ExitCode.NOT_MET,
    "waiting": ExitCode.WAITING,
    "budget_spent": ExitCode.BUDGET,
}


class Outcome(NamedTuple):
    """How the run ended."""

    kind: Kind
    sentence: str

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return int(EXIT[self.kind])


def conclude(state: RunState, budget_spent: str = "") -> Outcome:
    """The outcome. `budget_spent`: why the budget ended the run early, if it did."""
    goal = state.started.goal
    waiting = [c.proposed for c in state.open_gates]
    verdict, sentence = _goal_verdict(state, goal)
    if waiting:
        names = ", ".join(f"{c.id} ({c.risk})" for c in waiting)
        return Outcome("waiting", f"{sentence} Waiting for a person's approval: {names}.")
    if verdict == "met":
        return Outcome("met", sentence)
    if budget_spent:
        return Outcome("budget_spent", f"{sentence} The budget ended the run: {budget_spent}")
    return Outcome("not_met", f"{sentence}{_stalled(state)}")


def _stalled(state: RunState) -> str:
    reasons = [note.text for note in state.notes if note.topic == "stalled"]
    return f" The brain was stopped because it made no progress: {reasons[-1]}." if reasons else ""


def _goal_verdict(state: RunState, goal: Goal) -> tuple[str, str]:
    name = quantity_name(goal.metric, goal.statistic)
    if state.best == STOCK:
        return _stock_verdict(state, goal, name)
    if state.final is None:
        return "undecided", f"Goal not decided: {state.best} was accepted, but not relaunched on fresh seeds."
    found = state.final.estimate
    reached = goal_reached(target_margin(state, 1 - found.confidence), 1.0)
    title = state.candidates[state.best].proposed.title
    figures = f"{name} x{_as_asked(goal, found)} of stock by {title}; target {_target_words(goal)}"
    broken = _broken_guards(state)
    if reached == "met" and not broken:
        return "met", f"Goal met: {figures}."
    if broken:
        return "not_met", f"Goal not met: {figures}; {broken}."
    how = "lies below the target" if reached == "not_met" else "does not settle the target"
    return "not_met", f"Goal not met: {figures}; the interval {how}."


def target_margin(state: RunState, alpha: float) -> Estimate:
    """How far the winner lies beyond the target on the final blocks: a ratio, met when its whole interval is above 1.

    A relative target is compared with the paired ratio to stock; an absolute one with the winner's own figure, whose
    launches carry their own noise. Raises ValueError with fewer than three valid blocks.
    """
    goal = state.started.goal
    asked = oriented_log(goal, goal.target.value)
    relative = goal.target.kind == "ratio"
    arms = arm_logs(state, goal, state.best, "final")
    return estimated(state, [arm.candidate - asked - (arm.base if relative else 0.0) for arm in arms], alpha)


def estimated(state: RunState, log_ratios: Sequence[float], alpha: float) -> Estimate:
    """The interval of this level; of figures that do not vary, their range."""
    exact = is_exact(state, state.started.goal)
    return exact_estimate(log_ratios) if exact else estimate(log_ratios, alpha)


def final_is_settled(state: RunState) -> bool:
    """Whether more final blocks could change nothing: the goal is decided, and every constraint of it."""
    if goal_reached(target_margin(state, FINAL_ALPHA), 1.0) == "undecided":
        return False
    return not any(guard.state == "open" and guard.cause == "infeasible" for guard in final_guards(state))


def final_guards(state: RunState) -> tuple[Guard, ...]:
    """Constraints and stalls on the final blocks."""
    found = evidence_of(state, state.started.goal, state.best, "final")
    if is_exact(state, state.started.goal):
        return tuple(exact_guard(limit) for limit in found.limits)
    return guards_of(found, FINAL_ALPHA)


def stock_seems_enough(state: RunState) -> bool:
    """Whether every launch of stock so far reaches an absolute target by itself."""
    goal = state.started.goal
    logs = launch_logs(state, goal, STOCK)
    return goal.target.kind == "absolute" and bool(logs) and min(logs) >= oriented_log(goal, goal.target.value)


def _stock_verdict(state: RunState, goal: Goal, name: str) -> tuple[str, str]:
    logs = launch_logs(state, goal, STOCK)
    if not logs:
        return "undecided", "Goal not decided: the stock stack has no valid figure."
    if stock_seems_enough(state):
        already = f"the stock stack itself reached {name} {_target_words(goal)} in {len(logs)} launches"
        broken = _broken_limits(state, goal)
        if broken:
            return "not_met", f"Goal not met: {already}, but {broken}."
        if len(logs) < STOCK_LAUNCHES:
            return "undecided", f"Goal not decided: {already}; {STOCK_LAUNCHES} are needed."
        return "met", f"Goal met: {already}; nothing was changed."
    if not state.started.stack.space and state.workspace is None:
        return (
            "not_met",
            f"Goal not met: this stack's search space is empty, so nothing may be changed; {name} was measured.",
        )
    return "not_met", f"Goal not met: no change of {name} was proved. Target {_target_words(goal)}."


def _as_asked(goal: Goal, found: k.EstimateData) -> str:
    """The ratio as the goal speaks of it: for a metric to be lowered, below 1."""
    up = goal.direction is Direction.MAXIMISE
    shown = (found.ratio, found.low, found.high) if up else (1 / found.ratio, 1 / found.high, 1 / found.low)
    ratio, low, high = (f"{value:.2f}" if value >= SMALLEST_SHOWN else f"{value:.2g}" for value in shown)
    return f"{ratio} [{low}, {high}]"


def _target_words(goal: Goal) -> str:
    if goal.target.kind == "ratio":
        return f"x{goal.target.value:.2f}"
    bound = "at least" if goal.direction is Direction.MAXIMISE else "at most"
    unit = goal.metric.unit if isinstance(goal.metric, DeclaredMetric) and goal.metric.unit != "1" else ""
    return f"{bound} {goal.target.value:g} {unit}".rstrip()


def _broken_guards(state: RunState) -> str:
    """What speaks against the winner on the final blocks: a constraint not shown to hold, more stalls, a net loss."""
    against = [guard for guard in final_guards(state) if guard.state == "broken"]
    against += [guard for guard in final_guards(state) if guard.state == "open" and guard.cause != "stalls"]
    return against[0].reason if against else ""


def _broken_limits(state: RunState, goal: Goal) -> str:
    """Which level does not hold, or cannot be told, on stock's launches. Stock keeps every ratio to itself."""
    launches = [m for m in state.standing if m.purpose in FIGURE_PURPOSES and m.candidate == STOCK]
    valid = [made for made in launches if figure_in(made, goal) is not None]
    for limit in goal.constraints.limits:
        if limit.kind == "ratio":
            continue
        name = quantity_name(limit.metric, limit.statistic)
        values = [quantity_in(made, name) for made in valid]
        if not values or any(value is None for value in values):
            return f"{name} could not be measured on its launches, so its limit is not shown to hold"
        present = [value for value in values if value is not None]
        worst = max(present) if limit.bound == "at_most" else min(present)
        holds = worst <= limit.value if limit.bound == "at_most" else worst >= limit.value
        if not holds:
            return f"{name} reached {worst:.4g}, {limit.bound.replace('_', ' ')} {limit.value:.4g} is asked"
    return ""
