"""The draft of a goal: what could be read so far, and what is wrong with the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from infra_agent.goal.model import (
    HIGHER_IS_BETTER,
    Constraints,
    Direction,
    Goal,
    Limit,
    Load,
    Metric,
    Scope,
    SpendingCaps,
    Statistic,
    Target,
)


@dataclass(slots=True)
class Draft:
    """What could be read so far; the complete ones become a Goal, the others the hint of an error."""

    metric: Metric | None = None
    statistic: Statistic | None = None
    target: Target | None = None
    load: Load | None = None
    slo: list[Limit] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    answers: bool = False
    code: bool = False
    budget_s: float | None = None
    budget: SpendingCaps = SpendingCaps()
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def goal(self, text: str) -> Goal:
        """The Goal; metric, statistic and target must be set."""
        if self.metric is None or self.target is None or self.statistic is None:
            raise ValueError("draft incomplete")
        direction = Direction.MAXIMISE if self.metric in HIGHER_IS_BETTER else Direction.MINIMISE
        return Goal(
            metric=self.metric,
            statistic=self.statistic,
            direction=direction,
            target=self.target,
            load=self.load,
            slo=tuple(self.slo),
            constraints=Constraints(answers_unchanged=self.answers, limits=tuple(self.limits)),
            budget_s=self.budget_s,
            budget=self.budget,
            scope=Scope(code=self.code),
            text=text,
        )
