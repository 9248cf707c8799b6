"""The engagement rung of a code change: one untimed launch in which every process notes the patched lines it executes.

Noting costs time, so nothing is measured in this launch, and in no other launch anything is noted.

Covered: the goal's own load and the answer prompts as traffic, in streams or not, as the workload asks.
Not covered: code that runs only under a load that the goal does not describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from infra_agent.changes.parse import parse
from infra_agent.changes.workspace import Workspace
from infra_agent.harness.code_places import places_of
from infra_agent.harness.code_proof import PatchedFile, judge_code, judge_run, mapped, prepare, read_notes
from infra_agent.harness.experiment.run import run_experiment
from infra_agent.harness.launching import Launch, launched, require_alive
from infra_agent.harness.measuring import collect_answers, load_request, record
from infra_agent.harness.session import Session
from infra_agent.judge.plan import plan_blocks
from infra_agent.ledger import kinds as k
from infra_agent.stack.engines.experiment import is_experiment
from probes.base import Against, Cost, Observation, Where
from probes.load import probe as load_probe

_LEAST_REQUESTS = 4


def engage_code(session: Session, proposed: k.CandidateProposed, lane: k.Lane) -> tuple[Observation, str]:
    """Launch the candidate for its engagement proof alone; the observation and its id. Raises StackError."""
    assert session.workspace is not None
    started_s = session.clock()
    session.narrator.status(f"{proposed.id} {proposed.title}: is the changed code executed?")
    session.workspace.ensure(proposed.id, proposed.tree)
    files = patched_files(session.workspace, proposed, mounted=session.walls.mode != "none")
    noted: list[Path] = []

    def ready(scratch: Path) -> Mapping[str, str]:
        noted.append(scratch)
        return prepare(scratch, files)

    if is_experiment(session.stack):
        seed = plan_blocks(session.seed, 1, stage="screen")[0].seed
        ran = run_experiment(
            session, proposed.id, arm="candidate", purpose="engagement", lane=lane, seed=seed, prepare=ready
        )
        notes = read_notes(ran.scratch)
        observation = judge_run(
            files, notes, ran.document.sources, Cost(wall_s=session.clock() - started_s, launches=1)
        )
        return observation, _recorded(session, observation, proposed.id, lane, ran.launch)
    with launched(
        session, proposed.id, arm="candidate", purpose="engagement", lane=lane, reporter=True, prepare=ready
    ) as launch:
        _drive(session, launch)
        require_alive(launch)
        notes = read_notes(noted[0])
        notes.opened |= mapped(launch.server.own_pids(), files)
        launch_id = launch.id
    observation = judge_code(files, notes, Cost(wall_s=session.clock() - started_s, launches=1))
    return observation, _recorded(session, observation, proposed.id, lane, launch_id)


def _recorded(session: Session, observation: Observation, candidate: str, lane: k.Lane, launch: str) -> str:
    return record(session, observation, candidate=candidate, lane=lane, purpose="engagement", launch=launch)


def patched_files(workspace: Workspace, proposed: k.CandidateProposed, *, mounted: bool) -> tuple[PatchedFile, ...]:
    """The files that the candidate's own patch leaves behind, with the places that it changes."""
    assert proposed.patch is not None
    origins = {source.name: source.origin for source in workspace.sources}
    tree = workspace.path(proposed.id)
    found = []
    for file in parse(proposed.patch.diff).files:
        if file.new is None:
            continue
        place = workspace.scope.place(file.new)
        name, _, rest = place.partition("/")
        content = (tree / place).read_bytes()
        path = origins[name] / rest if mounted else tree / place
        places = places_of(file, content) if file.new.endswith(".py") else ()
        found.append(PatchedFile(name=file.new, path=path, content=content, places=places))
    return tuple(found)


def _drive(session: Session, launch: Launch) -> None:
    """Requests like those that will be measured, and the answer prompts. Their outcome is not this rung's concern."""
    wanted = load_request(session, launch.server, seed=0)
    request = replace(wanted, requests=min(wanted.requests, max(_LEAST_REQUESTS, session.concurrency)), slo=None)
    with suppress(TimeoutError):
        load_probe.run(
            request,
            where=Where(whole_system=True),
            against=Against(),
            deadline_s=session.budget.remaining_s(),
        )
    collect_answers(session, launch)
