"""What was tried: every proposal with its verdict, what was kept, and what a person must decide.

Covered: candidates, verdicts, accepted, decisions. Each verdict has at least one evidence id.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState
from infra_agent.publish.report.facts import Facts, estimate, finite, ids, json_safe, source
from infra_agent.publish.report.format import setting
from infra_agent.publish.report.rows import (
    AcceptedRow,
    BlockRow,
    CandidateRow,
    ChangeRow,
    DecisionNeeded,
    End,
    ScreenRow,
    Undo,
    VerdictRow,
)
from infra_agent.stack.engines.base import Parameter

STRONGEST_FIRST: tuple[End, ...] = (
    "kept", "waiting", "rejected", "inconclusive", "not_engaged", "crashed", "open", "untested",
)  # fmt: skip


def end_of(candidate: CandidateState) -> End:
    """How a candidate ended, in one word."""
    if candidate.accepted is not None:
        return "kept"
    if candidate.waiting is not None:
        return "waiting"
    verdict = candidate.verdict
    if verdict is None:
        return "open"
    if verdict.cause == "crashed":
        return "crashed"
    if verdict.cause == "not_engaged":
        return "not_engaged"
    if verdict.decision == "accepted":
        return "open"
    return "rejected" if verdict.decision == "rejected" else "inconclusive"


def candidate_rows(facts: Facts, parameters: Sequence[Parameter]) -> list[CandidateRow]:
    """All proposals in the order in which they were made."""
    return [_candidate(facts, candidate, parameters) for candidate in facts.state.candidates.values()]


def _candidate(facts: Facts, candidate: CandidateState, parameters: Sequence[Parameter]) -> CandidateRow:
    proposed = candidate.proposed
    verdict = _verdict(facts, candidate)
    blocks = block_rows(facts, candidate.blocks)
    evidence = ids(candidate.observations, *[block.observations for block in blocks])
    return CandidateRow(
        id=proposed.id,
        title=proposed.title,
        lane=proposed.lane,
        hypothesis=proposed.hypothesis,
        family=proposed.family,
        base=proposed.base,
        changes=change_rows(proposed, parameters),
        settings=dict(proposed.settings),
        digest=proposed.digest,
        risk=proposed.risk,
        risk_reasons=list(proposed.risk_reasons),
        verdict=verdict,
        end=end_of(candidate),
        evidence=evidence or [source(candidate.seq)],
        screen=_screen(facts, candidate.screened),
        blocks=blocks,
        event=candidate.seq,
    )


def verdict_rows(facts: Facts) -> list[VerdictRow]:
    """All verdicts in the order of the proposals."""
    rows = [_verdict(facts, candidate) for candidate in facts.state.candidates.values()]
    return [row for row in rows if row is not None]


def _verdict(facts: Facts, candidate: CandidateState) -> VerdictRow | None:
    given = candidate.verdict
    if given is None:
        return None
    seq = candidate.verdict_seq if candidate.verdict_seq is not None else facts.seq(given)
    row = estimate(given.estimate)
    return VerdictRow(
        candidate=given.candidate,
        title=candidate.proposed.title,
        lane=candidate.proposed.lane,
        decision=given.decision,
        cause=given.cause,
        rung=given.rung,
        estimate=row,
        p=row.p if row is not None else None,
        reason=given.reason,
        evidence=ids(given.evidence) or ids(candidate.observations) or [source(seq)],
        event=seq,
    )


def _screen(facts: Facts, screened: k.Screened | None) -> ScreenRow | None:
    row = estimate(screened.estimate) if screened is not None else None
    if screened is None or row is None:
        return None
    return ScreenRow(
        estimate=row,
        outcome=screened.outcome,
        reason=screened.reason,
        wall_s=screened.wall_s,
        event=facts.seq(screened),
    )


def block_rows(facts: Facts, blocks: Sequence[k.BlockMeasured]) -> list[BlockRow]:
    """Paired blocks, valid or not."""
    return [
        BlockRow(
            stage=block.stage,
            index=block.index,
            order=list(block.order),
            seed=block.seed,
            valid=block.valid,
            base_value=finite(block.base_value),
            candidate_value=finite(block.candidate_value),
            observations=ids(block.base_observation, block.candidate_observation),
            reason=block.reason,
            wall_s=block.wall_s,
            event=facts.seq(block),
        )
        for block in blocks
    ]


def change_rows(proposed: k.CandidateProposed, parameters: Sequence[Parameter]) -> list[ChangeRow]:
    """The changes of a candidate, with the flag's name where the engine's table is known."""
    flags = {parameter.name: parameter.flag for parameter in parameters}
    rows = []
    for change in proposed.changes:
        name = str(change.get("parameter", ""))
        rows.append(
            ChangeRow(
                parameter=name,
                flag=flags.get(name, name),
                value=json_safe(change.get("value")),
                before=json_safe(change.get("before")),
            )
        )
    return rows


def accepted_rows(facts: Facts, parameters: Sequence[Parameter]) -> list[AcceptedRow]:
    """What was kept, in the order in which it was applied."""
    kept = [candidate for candidate in facts.state.candidates.values() if candidate.accepted is not None]
    return [_accepted(facts, candidate, parameters) for candidate in kept]


def _accepted(facts: Facts, candidate: CandidateState, parameters: Sequence[Parameter]) -> AcceptedRow:
    final = facts.state.final
    own_final = final is not None and final.candidate == candidate.proposed.id
    verdict = _verdict(facts, candidate)
    changes = change_rows(candidate.proposed, parameters)
    assert candidate.accepted is not None
    return AcceptedRow(
        candidate=candidate.proposed.id,
        title=candidate.proposed.title,
        changes=changes,
        estimate=verdict.estimate if verdict is not None else None,
        final=estimate(final.estimate) if final is not None and own_final else None,
        risk=candidate.proposed.risk,
        gate=candidate.accepted.gate,
        accepted_after_s=candidate.accepted.elapsed_s,
        undo=Undo(text="; ".join(undo_text(change) for change in changes), command="infra-agent stack up --stock"),
        event=facts.seq(candidate.accepted),
        evidence=verdict.evidence if verdict is not None else [source(candidate.seq)],
    )


def undo_text(change: ChangeRow) -> str:
    """How to take one change back, in words."""
    if change.before is None:
        return f"leave out {change.flag}"
    return f"set {change.flag} back to {setting(change.before)}"


def decision_rows(facts: Facts, parameters: Sequence[Parameter]) -> list[DecisionNeeded]:
    """Proved candidates that wait for a person."""
    rows = []
    for candidate in facts.state.candidates.values():
        waiting = candidate.waiting
        if waiting is None or candidate.accepted is not None:
            continue
        proposed = candidate.proposed
        verdict = _verdict(facts, candidate)
        hypothesis = facts.state.hypotheses.get(proposed.hypothesis)
        rows.append(
            DecisionNeeded(
                candidate=proposed.id,
                title=proposed.title,
                risk=waiting.risk,
                reasons=list(waiting.reasons),
                claim=hypothesis.cause if hypothesis is not None else "",
                changes=change_rows(proposed, parameters),
                estimate=verdict.estimate if verdict is not None else None,
                evidence=verdict.evidence if verdict is not None else [source(candidate.seq)],
                command=f"infra-agent review show {facts.state.started.run_id}/{proposed.id}",
                event=facts.seq(waiting),
            )
        )
    return rows
