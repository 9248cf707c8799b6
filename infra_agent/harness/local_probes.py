"""Probes that look at a stack's sources or run a part of it: no load, no blocks, cheap facts with a place.

A stack file names them (`[probes.NAME]`); a brain asks for them by that name. A probe is registered once, as a function
from a request to observations; it knows nothing of runs, candidates and ledgers.

    LOCAL_PROBES.register("my_scan", lambda: LocalProbe(name="my_scan", rung=Rung.STATIC, summary="...", run=scan))

Covered: which tree, interpreter and parameters a probe gets; its faults as observations; cost; the ledger.
Not covered: probes of a running server (`harness.measuring`), and what a transform proposes (`transforms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra_agent.changes.change import STOCK
from infra_agent.errors import ConfigError, StackError
from infra_agent.harness.code import LaunchSources, launch_sources, tree_holder, tree_of
from infra_agent.harness.experiment.program import Program, run_program
from infra_agent.harness.measuring import record
from infra_agent.harness.session import Session
from infra_agent.judge.plan import plan_blocks
from infra_agent.ledger import kinds as k
from infra_agent.stack.engines.command import python_of
from infra_agent.stack.engines.experiment import of_run
from infra_agent.stack.model import PACKAGE, ProbeSpec, Stack
from probes.base import Cost, Observation, Registry, Rung, Verdict, Where

PROGRAM = "program"
RESULT_NAME = "observations.json"
LADDER = tuple(Rung)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """What a probe gets. `sources`: source name → the candidate's files, read-only. `start` runs a command line in the
    sandbox with the candidate's sources in their place; it raises StackError when the command fails.
    """

    name: str
    rung: Rung
    python: str
    sources: Mapping[str, Path]
    spec: ProbeSpec
    seed: int
    scratch: Path
    result: Path
    stack: Stack
    start: Callable[[Sequence[str]], None]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The stack file's `[probes.NAME.parameters]`."""
        return self.spec.parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalProbe:
    """A kind of local probe. `disturbs`: it may slow down what else runs, so it is never run beside a timed window."""

    name: str
    rung: Rung
    summary: str
    run: Callable[[ProbeRequest], Sequence[Observation]]
    disturbs: bool = False


def _program() -> LocalProbe:
    from infra_agent.harness.experiment.probe_program import observe

    return LocalProbe(
        name=PROGRAM, rung=Rung.MICRO, summary="a program of the stack's own that writes observations", run=observe
    )


LOCAL_PROBES: Registry[LocalProbe] = Registry("local probe")
LOCAL_PROBES.register(PROGRAM, _program)


def required_probes(stack: Stack) -> list[str]:
    """Probes that every candidate has to pass, cheapest rung first."""
    wanted = [name for name, spec in stack.probes.items() if spec.required]
    return sorted(wanted, key=lambda name: LADDER.index(rung_of(stack, name)))


def rung_of(stack: Stack, name: str) -> Rung:
    """The rung of a stack's probe."""
    spec = stack.probes[name]
    if spec.rung is not None:
        return Rung(spec.rung)
    return LOCAL_PROBES.create(spec.probe).rung if spec.probe in LOCAL_PROBES.names() else Rung.MICRO


def require_known(stack: Stack) -> None:
    """Raises ConfigError for a kind of probe that this program does not have."""
    for name, spec in stack.probes.items():
        if spec.probe not in LOCAL_PROBES.names():
            hint = f"known: {', '.join(LOCAL_PROBES.names())}"
            raise ConfigError(f"no kind of local probe {spec.probe!r}", where=f"probes.{name}.probe", hint=hint)


def run_local(session: Session, name: str, candidate: str, lane: k.Lane) -> list[tuple[str, Observation]]:
    """Run a stack's probe on stock or a candidate and record what it says. Raises BudgetSpent, and ConfigError for a
    kind of probe that this program does not have.
    """
    spec, rung = session.stack.probes[name], rung_of(session.stack, name)
    require_known(session.stack)
    session.budget.require(1.0, f"the probe {name}")
    session.narrator.status(f"probe {name} on {candidate}")
    started_s = session.clock()
    try:
        found = list(_observed(session, name, spec, rung, candidate))
    except StackError as error:
        lines = " · ".join([error.message, *error.lines[-1:]])
        where = Where(whole_system=True)
        found = [
            Observation(probe=name, rung=rung, verdict=Verdict.ERROR, summary=lines, where=where, cost=Cost(wall_s=0.0))
        ]
    wall_s = (session.clock() - started_s) / max(1, len(found))
    return [
        _recorded(session, replace(each, cost=replace(each.cost, wall_s=wall_s)), (number, len(found)), candidate, lane)
        for number, each in enumerate(found, start=1)
    ]


def _recorded(
    session: Session, observation: Observation, place: tuple[int, int], candidate: str, lane: k.Lane
) -> tuple[str, Observation]:
    """`place`: which of how many observations of one probe run, so that a resumed run knows whether all are there."""
    whole = replace(observation, detail={**observation.detail, "of_run": list(place)})
    return record(session, whole, candidate=candidate, lane=lane, purpose="probe", launch=""), whole


def _observed(session: Session, name: str, spec: ProbeSpec, rung: Rung, candidate: str) -> Sequence[Observation]:
    probe = LOCAL_PROBES.create(spec.probe)
    sources = launch_sources(session.workspace, session.stack, session.state, session.walls, candidate)
    number = 1 + sum(made.purpose == "probe" for made in session.state.observations.values())
    scratch = session.run_dir.absolute() / "scratch" / f"P{number}"
    scratch.mkdir(parents=True, exist_ok=True)
    seed, result = plan_blocks(session.seed, 1, stage="screen")[0].seed, scratch / RESULT_NAME
    plan = session.engine.plan(sources.stack, session.settings_of(candidate), 1) if not session.attached else None
    env = of_run(plan, seed, result).env if plan is not None else {}

    def start(argv: Sequence[str]) -> None:
        program = Program(
            name=f"probe {name}", argv=argv, env={**env, **sources.env}, scratch=scratch,
            log=_log(session, number), overlays=sources.overlays, timeout_s=spec.timeout_s,
            deadline=f"probes.{name}.timeout_s",
        )  # fmt: skip
        run_program(session, program)

    request = ProbeRequest(
        name=name, rung=rung, python=python_of(session.stack), sources=trees_of(session, candidate, sources), spec=spec,
        seed=seed, scratch=scratch, result=result, stack=sources.stack, start=start,
    )  # fmt: skip
    found = probe.run(request)
    return found or [_nothing(name, rung, Verdict.INCONCLUSIVE, "the probe found nothing to look at")]


def _nothing(name: str, rung: Rung, verdict: Verdict, text: str) -> Observation:
    where, cost = Where(whole_system=True), Cost(wall_s=0.0)
    return Observation(probe=name, rung=rung, verdict=verdict, summary=text, where=where, cost=cost)


def trees_of(session: Session, candidate: str, sources: LaunchSources) -> dict[str, Path]:
    """Where a configuration's files lie, by the name of their source: the run's copy, or the originals."""
    workspace = session.workspace
    if workspace is None:
        return {Path(s).name: Path(s) for s in sources.stack.sources if not s.startswith(PACKAGE)}
    holder = tree_holder(session.state, candidate)
    tree = workspace.ensure(holder, tree_of(session.state, candidate))
    return {source.name: tree / source.name for source in workspace.sources}


def known_target(session: Session, target: str) -> bool:
    """Whether a probe can be run on it."""
    return target == STOCK or target in session.state.candidates


def _log(session: Session, number: int) -> Path:
    folder = session.run_dir / "logs"
    folder.mkdir(exist_ok=True)
    return folder / f"P{number}.log"
