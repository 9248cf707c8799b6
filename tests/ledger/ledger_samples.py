"""Builders of ledger events, a clock that ticks once per call, and a way to run code in a process that may die."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from infra_agent.goal.model import Direction, Goal, Metric, Statistic, Target
from infra_agent.ledger import kinds as k
from infra_agent.ledger.event import GENESIS, Event, encode, seal
from infra_agent.ledger.store import Ledger
from infra_agent.review.approval import Grant, SignedGrant
from infra_agent.stack.model import Stack

GOAL = Goal(
    metric=Metric.OUTPUT_TOK_PER_S,
    statistic=Statistic.VALUE,
    direction=Direction.MAXIMISE,
    target=Target(kind="ratio", value=2.0),
    text="double the output tokens per second",
)
ESTIMATE = k.EstimateData(ratio=2.9, low=2.8, high=3.0, p=0.01, n=9, confidence=0.95, method="test")


def ticking(start: str = "2026-11-30T12:00:00+00:00") -> Callable[[], datetime]:
    """A clock that advances by one second per reading."""
    now = [datetime.fromisoformat(start).astimezone(UTC)]

    def read() -> datetime:
        now[0] += timedelta(seconds=1)
        return now[0]

    return read


def started(**changes: Any) -> k.RunStarted:
    fields: dict[str, Any] = {
        "run_id": "R",
        "goal": GOAL,
        "stack": Stack(name="demo", engine="transformers"),
        "stack_digest": "d" * 64,
        "workload_sha256": "e" * 64,
        "brain": "playbook",
        "seed": 7,
        "budget_s": 600,
        "version": "0.1.0",
        "environment": {"cores": 2, "load": 0.5},
        "walls": {"network": "held"},
    }
    return k.RunStarted(**{**fields, **changes})


def phase(name: Any, elapsed_s: float = 0.0) -> k.PhaseStarted:
    return k.PhaseStarted(name=name, elapsed_s=elapsed_s)


def launch(id: str, candidate: str = "stock") -> k.LaunchStarted:
    return k.LaunchStarted(
        id=id, candidate=candidate, arm="stock", purpose="block", lane="agent", settings={"a": 1.0}, argv=("serve",)
    )


def launch_ended(id: str, **changes: Any) -> k.LaunchEnded:
    fields: dict[str, Any] = {"id": id, "outcome": "stopped", "ready_s": 5.0, "wall_s": 9.5}
    return k.LaunchEnded(**{**fields, **changes})


def observation(id: str, candidate: str = "stock", **content: Any) -> k.ObservationMade:
    return k.ObservationMade(id=id, candidate=candidate, lane="agent", purpose="measure", observation=content)


def hypothesis(id: str) -> k.HypothesisStated:
    return k.HypothesisStated(
        id=id, family="batching", cause="one at a time", place="scheduler", refuted_by="2 running", predictions=()
    )


def candidate(id: str, hypothesis: str = "", base: str = "stock") -> k.CandidateProposed:
    return k.CandidateProposed(
        id=id,
        title=f"candidate {id}",
        hypothesis=hypothesis,
        base=base,
        changes=({"parameter": "cb", "value": True},),
        settings={"cb": True, "blocks": 64, "share": 0.5, "mode": "fast"},
        digest="f" * 64,
        risk="routine",
        risk_reasons=(),
        family="batching",
        lane="agent",
    )


def screened(id: str, outcome: Any = "promote") -> k.Screened:
    return k.Screened(candidate=id, against="stock", estimate=ESTIMATE, outcome=outcome, reason="r", wall_s=3.0)


def block(id: str, index: int, stage: Any = "prove") -> k.BlockMeasured:
    return k.BlockMeasured(
        candidate=id,
        base="stock",
        stage=stage,
        index=index,
        order=("base", "candidate"),
        seed=index,
        valid=True,
        base_value=25.0,
        candidate_value=75.5,
    )


def look(id: str, blocks: int) -> k.Looked:
    return k.Looked(
        candidate=id, stage="prove", blocks=blocks, alpha=0.01, estimate=ESTIMATE, decision=None, reason="go on"
    )


def verdict(id: str, decision: Any = "accepted", elapsed_s: float = 100.0) -> k.VerdictGiven:
    return k.VerdictGiven(
        candidate=id,
        decision=decision,
        cause="proved" if decision == "accepted" else "no_gain",
        rung="load",
        estimate=ESTIMATE,
        reason="r",
        elapsed_s=elapsed_s,
    )


def accepted(id: str, elapsed_s: float = 101.0) -> k.Accepted:
    return k.Accepted(candidate=id, gate="routine", elapsed_s=elapsed_s)


def waiting(id: str) -> k.WaitingForApproval:
    return k.WaitingForApproval(candidate=id, risk="numerics", reasons=("dtype",))


def finished(outcome: Any = "met", elapsed_s: float = 300.0) -> k.RunFinished:
    return k.RunFinished(outcome=outcome, exit_code=0, sentence=f"The run ended: {outcome}.", elapsed_s=elapsed_s)


def noise(sd_log: float = 0.02) -> k.NoiseKnown:
    return k.NoiseKnown(sd_log=sd_log, mde_ratio=1.03, blocks=12, samples=6, source="calibrated")


def note(text: str = "a line") -> k.Note:
    return k.Note(topic="info", text=text)


def story() -> list[k.EventData]:
    """A short run that finds, proves and accepts one candidate and rejects another."""
    return [
        started(),
        phase("baseline", 1.0),
        launch("L1"),
        launch_ended("L1"),
        observation("O1", verdict="pass", value=25.25),
        noise(),
        phase("tuning", 60.0),
        hypothesis("H1"),
        candidate("C1", "H1"),
        observation("O2", "C1", verdict="pass"),
        screened("C1"),
        block("C1", 0),
        look("C1", 1),
        verdict("C1"),
        accepted("C1"),
        candidate("C2"),
        screened("C2", "reject"),
        verdict("C2", "rejected", 150.0),
        phase("done", 290.0),
        finished(),
    ]


def write(run_dir: Path, events: list[k.EventData]) -> Path:
    """Store events as a run's ledger and close it."""
    with Ledger.create(run_dir, ticking()) as ledger:
        for data in events:
            ledger.append(data)
    return run_dir


def chained(*payloads: k.EventData | tuple[str, dict[str, Any]]) -> list[Event]:
    """Events linked in order without a store, so that impossible ones can be built too."""
    events: list[Event] = []
    prev = GENESIS
    for seq, item in enumerate(payloads, start=1):
        kind, data = item if isinstance(item, tuple) else (item.kind, item.model_dump(mode="python"))
        events.append(seal(seq=seq, prev=prev, ts=f"2026-11-30T12:00:{seq:02}.000000Z", kind=kind, data=data))
        prev = events[-1].hash
    return events


def restamped(event: Event, ts: str) -> bytes:
    """The line of an event with another time stamp and its own right hash."""
    return encode(seal(seq=event.seq, prev=event.prev, ts=ts, kind=event.kind, data=event.data))


def in_child(work: Callable[[], None]) -> int:
    """Start a process that runs `work` and exits 0, or 1 after an error; return its pid. The caller waits for it."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def ended(pid: int) -> int:
    """Wait for a child: its exit status, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def signed(
    request: str = "0" * 64, nonce: str = "0123456789abcdef0123456789abcdef", decision: Any = "approve"
) -> SignedGrant:
    """Of the right form; a fold looks at no signature."""
    grant = Grant(
        request=request, decision=decision, reviewer="alice", time="2026-11-30T13:00:00Z",
        expires="2026-12-07T13:00:00Z", nonce=nonce,
    )  # fmt: skip
    return SignedGrant(grant=grant, signature="x")


def approved(id: str = "C1", request: str = "0" * 64, nonce: str = "0" * 32) -> k.Approved:
    return k.Approved(candidate=id, request=request, grants=(signed(request, nonce),))


def asked(id: str = "A1", turn: int = 0, **changes: Any) -> k.LlmAsked:
    fields: dict[str, Any] = {
        "attempt": 0, "purpose": "decide", "model": "m", "mode": "tools", "request_artifact": "",
        "reserved_input_tokens": 900, "reserved_output_tokens": 100,
    }  # fmt: skip
    return k.LlmAsked(id=id, turn=turn, **{**fields, **changes})


def answered(id: str = "A1", **changes: Any) -> k.LlmAnswered:
    fields: dict[str, Any] = {
        "actions": ({"kind": "measure", "probe": "load", "target": "stock"},), "call_ids": ("call_0",),
        "input_tokens": 800, "output_tokens": 20, "usage": "reported",
    }  # fmt: skip
    return k.LlmAnswered(id=id, **{**fields, **changes})


def brain_events() -> tuple[k.EventData, ...]:
    """One event of each kind around a brain."""
    return (
        k.LlmModeChosen(mode="tools", stream=True, stream_usage=True, limit_field="max_tokens", evidence="works"),
        asked(),
        answered(),
        k.ReadingMade(id="R1", turn=1, action="read", source="a.py:1-2", artifact="", lines=2, total=2),
        k.SearchStarted(turn=2, hypothesis="H1", parameters=("x",), minutes=1.0),
        k.PredictionScored(
            hypothesis="H1", candidate="C1", rung="load", metric="output_tok_per_s", low=1.5, high=3.0,
            measured=2.9, inside=True, score=0.7, basis="proved",
        ),
        k.FamilySkipped(family="dtype", disposition="not_worth_it", reason="nothing speaks for it"),
        k.BrainFellBack(turn=3, brain="llm", to="playbook", reason="nonsense"),
    )  # fmt: skip
