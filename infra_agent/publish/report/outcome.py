"""Which run this is, what was asked, and whether it was reached.

Covered: run, goal, stack and outcome sections. A run without an end is never called met.
"""

from __future__ import annotations

from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.model import AnyMetric, Goal, Limit, Load, Metric, Statistic, higher_is_better
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState
from infra_agent.publish.report.facts import Facts, json_safe, label
from infra_agent.publish.report.model import GoalInfo, Outcome, RunInfo, StackInfo
from infra_agent.stack.engines.experiment import is_experiment


def status(state: RunState) -> str:
    """`finished`, or `interrupted` when the last session was stopped, else `running`."""
    if state.finished is not None:
        return "finished"
    for event in reversed(state.events):
        if isinstance(event.data, k.Interrupted):
            return "interrupted"
        if isinstance(event.data, k.RunResumed):
            break
    return "running"


def run_info(facts: Facts) -> RunInfo:
    """The run's identity."""
    state, started = facts.state, facts.state.started
    return RunInfo.model_validate(
        {
            "id": started.run_id,
            "started": state.started_ts,
            "status": status(state),
            "sessions": state.sessions,
            "phase": state.phase,
            "brain": started.brain,
            "brain_note": started.brain_note,
            "fell_back": f"{state.fell_back.to}: {state.fell_back.reason}" if state.fell_back is not None else None,
            "seed": started.seed,
            "command": list(started.command),
            "version": started.version,
            "event": facts.seq(started),
        }
    )


def goal_info(goal: Goal) -> GoalInfo:
    """The goal with its parts in words."""
    return GoalInfo.model_validate(
        {
            **goal.model_dump(),
            "target_text": target_text(goal),
            "load_text": "one run" if isinstance(goal.metric, DeclaredMetric) else load_text(goal.load),
            "constraints_text": constraints_text(goal),
        }
    )


def metric_text(metric: AnyMetric, statistic: Statistic) -> str:
    """`TTFT p50` in words."""
    if isinstance(metric, DeclaredMetric):
        return metric.label.capitalize()
    words = label(metric.value).removesuffix(", mean")
    return words if statistic is Statistic.VALUE else f"{words}, {statistic.value}"


def target_text(goal: Goal) -> str:
    """The target in words."""
    rate = higher_is_better(goal.metric)
    metric = metric_text(goal.metric, goal.statistic)
    if goal.target.kind == "ratio":
        bound = "at least" if rate else "at most"
        return f"{metric}: {bound} x{goal.target.value:.2f} of stock"
    return f"{metric}: {'at least' if rate else 'at most'} {_amount(goal.target.value, goal.metric)}"


def load_text(load: Load | None) -> str:
    """The load in words."""
    if load is None:
        return "the stack's default load"
    if load.arrivals == "closed":
        return f"{load.concurrency} concurrent requests"
    return f"Poisson arrivals at {load.rate_per_s:g} requests/s"


def constraints_text(goal: Goal) -> list[str]:
    """Each constraint in words."""
    lines = ["answers unchanged"] if goal.constraints.answers_unchanged else []
    lines += [_limit_text(limit) for limit in goal.constraints.limits]
    lines += [f"a request counts if {_limit_text(limit)}" for limit in goal.slo]
    return lines


def _limit_text(limit: Limit) -> str:
    bound = limit.bound.replace("_", " ")
    amount = f"x{limit.value:g} of stock" if limit.kind == "ratio" else _amount(limit.value, limit.metric)
    return f"{metric_text(limit.metric, limit.statistic)} {bound} {amount}"


def _amount(value: float, metric: AnyMetric) -> str:
    if isinstance(metric, DeclaredMetric):
        return metric.level(value)
    if metric is Metric.MEMORY_BYTES:
        return f"{value / 2**20:.4g} MiB"
    if metric.value.endswith("per_s"):
        return f"{value:g} {'tok/s' if 'tok' in metric.value else 'per second'}"
    return f"{value:g} s"


def stack_info(state: RunState) -> StackInfo:
    """The system under test."""
    stack = state.started.stack
    return StackInfo(
        name=stack.name,
        engine=stack.engine,
        model=stack.model,
        served_model=stack.served_model or stack.model,
        url=stack.url,
        health_path=stack.launch.health_path,
        digest=state.started.stack_digest,
        workload_sha256=state.started.workload_sha256,
        workload=json_safe((stack.experiment if is_experiment(stack) else stack.workload).model_dump()),
    )


def outcome(facts: Facts) -> Outcome:
    """The verdict in one sentence."""
    state = facts.state
    end = state.finished
    if end is not None:
        met = end.outcome == "met"
        return Outcome(met=met, code=end.outcome, exit_code=end.exit_code, sentence=end.sentence, event=facts.seq(end))
    code = status(state)
    if code == "interrupted":
        text = "Interrupted before the end: no verdict on the goal. What was measured so far is below; resume goes on."
    else:
        text = "This run has not ended: no verdict on the goal yet. What was measured so far is below."
    return Outcome(met=False, code=code, exit_code=None, sentence=text, event=state.head_seq)
