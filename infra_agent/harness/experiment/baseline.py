"""Stock of a stack that is an experiment: its figure, repeated where it is declared not to vary.

Covered: a figure that is withheld, repeats that differ, a goal that cannot be proved in its budget.
Not covered: probes of the stack; a brain asks for them.
"""

from __future__ import annotations

from infra_agent.changes.change import STOCK
from infra_agent.harness.experiment.exact import is_exact, may_be_exact
from infra_agent.harness.experiment.measuring import Wanted, measure_experiment
from infra_agent.harness.ladder import screen_seed
from infra_agent.harness.measuring import Measured
from infra_agent.harness.noise import know_exactly, know_noise, require_provable, tell_prior
from infra_agent.harness.proving import tell_difference
from infra_agent.harness.session import Session
from infra_agent.judge.exact import EXACT_REPEATS


def measure_stock_run(session: Session) -> Measured:
    """Run stock; twice on one seed for a deterministic metric. Raises StackError, NotProvable.

    The caller refuses a figure that was withheld: nothing follows from it here.
    """
    exact = may_be_exact(session.goal)
    if not exact:
        tell_prior(session)
    for number in range(EXACT_REPEATS if exact else 1):
        session.narrator.status(f"running the stock stack{', once more' if number else ''}")
        wanted = Wanted(STOCK, "stock", "baseline", "agent", screen_seed(session))
        measured = measure_experiment(session, wanted, "baseline")
        if measured.value is None:
            return measured
    if exact and not is_exact(session.state, session.goal):
        tell_difference(session)
    if is_exact(session.state, session.goal):
        know_exactly(session)
    else:
        know_noise(session)
        require_provable(session)
    return measured
