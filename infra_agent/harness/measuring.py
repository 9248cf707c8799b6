"""Takes measurements on a running server and puts each into the ledger as an observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Literal, NamedTuple

from infra_agent.changes.change import STOCK
from infra_agent.errors import BudgetSpent
from infra_agent.goal.model import Goal, Load
from infra_agent.harness.disturbance import Watch
from infra_agent.harness.figure import goal_value, requests_needed
from infra_agent.harness.launching import Launch, require_alive
from infra_agent.harness.server import Server
from infra_agent.harness.session import Session
from infra_agent.harness.stalls import with_stall_figures
from infra_agent.ledger import kinds as k
from probes.base import Against, Cost, Json, Observation, Quantity, Rung, Verdict, Where
from probes.events import overlap
from probes.load import probe as load_probe
from probes.load.hosts import host_of
from probes.load.types import Arrivals, Closed, LoadRequest, Poisson, RequestRecord, Slo
from probes.numeric.collect import collect
from probes.numeric.types import Answer

ObservationPurpose = Literal["baseline", "engagement", "answers", "screen", "block", "final", "measure", "probe"]
CLIENT_CHECKS = ("client delay", "mean in flight", "peak in flight")
"""A client that woke late, or sent the next request late, measured itself: that is not the candidate's fault."""
MOST_WINDOWS = 3


class Measured(NamedTuple):
    """A recorded load observation and the goal's figure in it (None when withheld)."""

    id: str
    observation: Observation
    value: float | None


def record(
    session: Session,
    observation: Observation,
    *,
    candidate: str,
    lane: k.Lane,
    purpose: ObservationPurpose,
    launch: str,
) -> str:
    """Append an observation to the ledger; returns its id."""
    observation_id = f"O{len(session.state.observations) + 1}"
    session.ledger.append(
        k.ObservationMade(
            id=observation_id, candidate=candidate, lane=lane, purpose=purpose, launch=launch,
            observation=to_json(observation),
        )
    )  # fmt: skip
    return observation_id


def to_json(observation: Observation) -> dict[str, Json]:
    """An observation as plain JSON values."""
    document = asdict(observation)
    document["signals"] = dict(observation.signals)
    document["detail"] = dict(observation.detail)
    return document


def measure_load(
    session: Session, launch: Launch, *, candidate: str, lane: k.Lane, purpose: ObservationPurpose, seed: int
) -> Measured:
    """One measured window of the goal's load, with start-up time, memory and CPU use of the engine beside it."""
    cpu_before_s = launch.server.cpu_s()
    watch = Watch(launch.server.own_pids())
    request = load_request(session, launch.server, seed)
    where = Where(parameter=f"configuration {candidate}", input=f"seed {seed}")
    against = Against() if candidate == STOCK else Against(kind="baseline", name=STOCK)
    left_s = session.budget.remaining_s()
    try:
        observation, result = load_probe.run(
            request,
            where=where,
            against=against,
            deadline_s=left_s,
            on_record=_running_figure(session, candidate, request),
        )
    except TimeoutError as error:
        raise BudgetSpent(f"the budget ended in the middle of a window of {request.requests} requests") from error
    require_alive(launch)
    cpu_s = _used(cpu_before_s, launch.server.cpu_s())
    others = watch.seen(launch.server.own_pids()).signals()
    observation = replace(observation, signals={**observation.signals, **others})
    observation = with_engine_figures(with_stall_figures(observation, result), launch.server, cpu_s)
    observation_id = record(session, observation, candidate=candidate, lane=lane, purpose=purpose, launch=launch.id)
    if purpose in ("baseline", "screen", "measure"):
        seen = overlap.observe(result.records)
        record(session, seen, candidate=candidate, lane=lane, purpose=purpose, launch=launch.id)
    return Measured(observation_id, observation, goal_value(session.goal, observation))


def measure_undisturbed(
    session: Session, launch: Launch, *, candidate: str, lane: k.Lane, purpose: ObservationPurpose,
    seed_of: Callable[[int], int],
) -> Measured:  # fmt: skip
    """A window for a baseline or a screen. One that this client itself spoilt by waking late is measured again.

    At most three windows on the same launch, the n-th on `seed_of(n)`: fresh prompts, so that nothing is cached.
    """
    for attempt in range(MOST_WINDOWS):
        seed = seed_of(attempt)
        measured = measure_load(session, launch, candidate=candidate, lane=lane, purpose=purpose, seed=seed)
        late = client_was_late(measured.observation)
        if not late:
            break
        session.narrator.status(f"{candidate}: the window is not valid ({late}); measuring again")
    return measured


def client_was_late(observation: Observation) -> str:
    """By how much the client's own delay spoilt a window; empty when it did not, or when something else failed too."""
    failed = [check for check in observation.checks if not check.ok]
    if failed and all(check.name in CLIENT_CHECKS for check in failed):
        return f"client late: {failed[0].name} {failed[0].measured} (limit: {failed[0].limit})"
    return ""


def _running_figure(session: Session, candidate: str, request: LoadRequest) -> Callable[[RequestRecord], None]:
    """Tells the user how the window goes while it runs: an unchecked figure, said to be one, never stored."""
    records: list[RequestRecord] = []

    def tell(record: RequestRecord) -> None:
        records.append(record)
        tokens = sum(r.output_tokens or 0 for r in records)
        rate = tokens / max(r.end_s for r in records)
        done = f"{len(records)} of {request.requests} requests"
        session.narrator.status(f"{candidate}: {done}, {rate:.1f} output tokens/s so far (window not checked yet)")

    return tell


def load_request(session: Session, server: Server, seed: int) -> LoadRequest:
    """The window that the goal and the stack's workload describe."""
    workload = session.stack.workload
    return LoadRequest(
        base_url=server.base_url,
        model=server.model,
        prompts=session.prompts,
        arrivals=arrivals_of(session.load),
        requests=requests_needed(session.goal, workload.requests, session.load.concurrency or 1),
        max_tokens=workload.max_tokens,
        endpoint=workload.endpoint,
        warmup_requests=workload.warmup_requests,
        stream=workload.stream,
        seed=seed,
        request_timeout_s=workload.request_timeout_s,
        expected_model=session.stack.served_model or server.answered_model,
        slo=slo_of(session.goal),
        via=server.via,
        hosts=host_of(session.stack.url),
    )


def arrivals_of(load: Load) -> Arrivals:
    """The goal's load in the probe's words."""
    if load.rate_per_s is not None:
        return Poisson(load.rate_per_s)
    return Closed(load.concurrency or 1)


def slo_of(goal: Goal) -> Slo | None:
    """The goal's SLO in the probe's words."""
    limits = {limit.metric.value: limit.value for limit in goal.slo}
    return Slo(**limits) if limits else None


def with_engine_figures(observation: Observation, server: Server, cpu_s: float | None) -> Observation:
    """Add what only the harness can see: start-up time, memory, busy cores. A withheld result stays withheld."""
    signals: dict[str, float | str | bool] = dict(observation.signals)
    if cpu_s is not None and observation.cost.wall_s > 0:
        signals["cpu_cores_busy"] = round(cpu_s / observation.cost.wall_s, 3)
    if observation.verdict in (Verdict.INVALID, Verdict.ERROR):
        return replace(observation, signals=signals)
    extra = [Quantity(name="startup_s", value=server.ready_s, unit="s")] if server.process is not None else []
    memory = server.memory_bytes()
    if memory is not None:
        extra.append(Quantity(name="memory_bytes", value=float(memory), unit="B"))
    return replace(observation, signals=signals, quantities=(*observation.quantities, *extra))


def record_snapshot(session: Session, launch: Launch, *, candidate: str, lane: k.Lane) -> Mapping[str, Json]:
    """What is in effect in the running engine, read from inside it and kept in the ledger."""
    started_s = session.clock()
    snapshot = dict(launch.server.snapshot())
    device = str(snapshot.get("model.device", ""))
    observation = Observation(
        probe="effective-state",
        rung=Rung.STATIC,
        verdict=Verdict.PASS if snapshot else Verdict.INCONCLUSIVE,
        summary=f"{len(snapshot)} effective values read" if snapshot else "this engine cannot be looked into",
        where=Where(whole_system=True),
        cost=Cost(wall_s=session.clock() - started_s),
        signals={"device": device.split(":")[0]} if device else {},
        detail={"snapshot": snapshot},
    )
    record(session, observation, candidate=candidate, lane=lane, purpose="engagement", launch=launch.id)
    return snapshot


def collect_answers(session: Session, launch: Launch) -> tuple[Answer, ...]:
    """Greedy answers of a running server, at the goal's concurrency, because batching interacts.

    Secrets in them are masked at once: they are compared with answers that were kept in the ledger.
    """
    workload, reference = session.stack.workload, session.stack.reference
    answers = collect(
        launch.server.base_url,
        workload.endpoint,
        launch.server.model,
        session.answer_prompts,
        max_tokens=reference.max_tokens,
        concurrency=session.concurrency,
        timeout_s=workload.request_timeout_s,
        via=launch.server.via,
    )
    masker = session.ledger.masker
    return tuple(Answer.from_json(masker.value(answer.to_json())) for answer in answers) if masker else answers


def record_reference_answers(session: Session, launch: Launch) -> None:
    """Keep stock's answers in the ledger: what candidates are compared with, also after a resume."""
    started_s = session.clock()
    answers = collect_answers(session, launch)
    require_alive(launch)
    failed = [answer for answer in answers if answer.error is not None]
    observation = Observation(
        probe="reference-answers",
        rung=Rung.NUMERIC,
        verdict=Verdict.ERROR if failed else Verdict.PASS,
        summary=f"{len(failed)} of {len(answers)} answers failed" if failed else f"{len(answers)} answers kept",
        where=Where(input=f"{len(answers)} prompts"),
        cost=Cost(wall_s=session.clock() - started_s, requests=len(answers)),
        detail={"answers": [answer.to_json() for answer in answers]},
    )
    record(session, observation, candidate=STOCK, lane="agent", purpose="answers", launch=launch.id)


def _used(before_s: float | None, after_s: float | None) -> float | None:
    return None if before_s is None or after_s is None else max(0.0, after_s - before_s)
