"""One measurement of a configuration on a launch of its own, whatever the stack is: a window of load, or a run.

Covered: which of the two a stack has, and what the rung of its figure is called.
Not covered: what is done with the figure (`ladder`, `proving`).
"""

from __future__ import annotations

from infra_agent.harness.experiment.measuring import PROBE as EXPERIMENT_PROBE
from infra_agent.harness.experiment.measuring import Wanted, measure_experiment
from infra_agent.harness.launching import launched
from infra_agent.harness.measuring import Measured, ObservationPurpose, measure_load
from infra_agent.harness.session import Session
from infra_agent.stack.engines.experiment import is_experiment
from infra_agent.stack.model import Stack
from probes.base import Rung


def figure_probe(stack: Stack) -> str:
    """The probe that takes the goal's figure."""
    return EXPERIMENT_PROBE if is_experiment(stack) else "load"


def figure_rung(stack: Stack) -> str:
    """The rung on which the goal's figure stands."""
    return Rung.MICRO.value if is_experiment(stack) else Rung.LOAD.value


def measure_once(session: Session, wanted: Wanted, purpose: ObservationPurpose) -> Measured:
    """Launch it and measure it once. Raises StackError, BudgetSpent."""
    if is_experiment(session.stack):
        return measure_experiment(session, wanted, purpose)
    candidate, lane = wanted.candidate, wanted.lane
    with launched(session, candidate, arm=wanted.arm, purpose=wanted.purpose, lane=lane) as launch:
        return measure_load(session, launch, candidate=candidate, lane=lane, purpose=purpose, seed=wanted.seed)
