"""One run of an experiment, from event to event: started on a candidate's sources, and its result read.

Covered: seed and result file, every way to fail as the launch's outcome.
Not covered: what the document says about a candidate (`measuring`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from infra_agent.harness.disturbance import Disturbance
from infra_agent.harness.experiment.document import BadDocument, ResultDocument, read_document
from infra_agent.harness.experiment.program import Program, run_program
from infra_agent.harness.launch_errors import LaunchFailed
from infra_agent.harness.launching import Arm, Begun, Prepare, Purpose, begun
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.stack.engines.base import LaunchPlan
from infra_agent.stack.engines.experiment import of_run

RESULT_NAME = "result.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that ended well. `wall_s`: from its start to its end."""

    launch: str
    document: ResultDocument
    wall_s: float
    memory_bytes: int
    others: Disturbance
    scratch: Path


def run_experiment(
    session: Session, candidate: str, *, arm: Arm, purpose: Purpose, lane: k.Lane, seed: int,
    prepare: Prepare | None = None,
) -> Ran:  # fmt: skip
    """Run it once. Raises StackError (recorded as the launch's outcome), and BudgetSpent also while it runs.

    With `prepare` every Python process of the run loads the harness's notes of executed lines: such a run is not timed.
    """
    complete = partial(_complete, seed)
    with begun(session, candidate, arm=arm, purpose=purpose, lane=lane, prepare=prepare, complete=complete) as launch:
        return _run(session, launch, noting=prepare is not None)


def _complete(seed: int, plan: LaunchPlan, scratch: Path) -> LaunchPlan:
    return of_run(plan, seed, scratch / RESULT_NAME)


def _run(session: Session, launch: Begun, *, noting: bool) -> Ran:
    program = Program(
        name=session.stack.name, argv=launch.plan.argv, env=launch.plan.env, scratch=launch.scratch, log=launch.log,
        overlays=launch.sources.overlays, timeout_s=session.stack.experiment.timeout_s, deadline="experiment.timeout_s",
    )  # fmt: skip
    ended = run_program(session, program, noting=noting)
    try:
        document = read_document(launch.scratch / RESULT_NAME, ResultDocument)
    except BadDocument as error:
        raise LaunchFailed(
            f"{program.name}: {error.message}", outcome="unhealthy", where=error.where, hint=error.hint,
            lines=ended.lines,
        ) from error  # fmt: skip
    return Ran(
        launch=launch.id, document=document, wall_s=ended.wall_s, memory_bytes=ended.memory_bytes,
        others=ended.others, scratch=launch.scratch,
    )  # fmt: skip
