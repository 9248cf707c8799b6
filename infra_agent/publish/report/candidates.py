"""What was tried: every proposal with its verdict, what was kept, and what a person must decide.

Covered: candidates, verdicts, accepted, decisions. Each verdict has at least one evidence id.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra_agent.errors import ApprovalRefused
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import request_of
from infra_agent.ledger.consent import consent_of, grants_of
from infra_agent.ledger.state import CandidateState
from infra_agent.publish.report.facts import Facts, estimate, finite, ids, json_safe, source
from infra_agent.publish.report.format import setting
from infra_agent.publish.report.patches import patch_row, undo_patch_text
from infra_agent.publish.report.rows import (
    AcceptedRow,
    BlockRow,
    CandidateRow,
    ChangeRow,
    Corrected,
    DecisionNeeded,
    DifferenceRow,
    End,
    PersonRow,
    ScreenRow,
    StallsRow,
    Undo,
    VerdictRow,
)
from infra_agent.review.approval import SignedGrant
from infra_agent.review.verify import signer
from infra_agent.stack.engines.base import Parameter

STRONGEST_FIRST: tuple[End, ...] = (
    "kept", "waiting", "approved", "declined", "rejected", "inconclusive", "not_engaged", "crashed", "open", "untested",
)  # fmt: skip


def end_of(candidate: CandidateState) -> End:
    """How a candidate ended, in one word."""
    if candidate.accepted is not None:
        return "kept"
    if candidate.declined is not None:
        return "declined"
    if candidate.waiting is not None:
        return "approved" if candidate.approved is not None else "waiting"
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
        patch=patch_row(facts, proposed),
        patches=list(proposed.patches),
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
    patch = patch_row(facts, candidate.proposed)
    undo = [*(undo_text(change) for change in changes), *([undo_patch_text(patch)] if patch is not None else [])]
    assert candidate.accepted is not None
    return AcceptedRow(
        candidate=candidate.proposed.id,
        title=candidate.proposed.title,
        changes=changes,
        patch=patch,
        estimate=verdict.estimate if verdict is not None else None,
        final=estimate(final.estimate) if final is not None and own_final else None,
        difference=_difference(candidate),
        corrected=corrected(facts, candidate.proposed.id, "gain"),
        stalls=_stalls(facts, candidate),
        risk=candidate.proposed.risk,
        gate=candidate.accepted.gate,
        approvals=person_rows(facts, candidate),
        accepted_after_s=candidate.accepted.elapsed_s,
        undo=Undo(text="; ".join(undo), command="infra-agent stack up --stock"),
        event=facts.seq(candidate.accepted),
        evidence=verdict.evidence if verdict is not None else [source(candidate.seq)],
    )


def _difference(candidate: CandidateState) -> DifferenceRow | None:
    """Candidate minus base at the last look that proved it."""
    looks = [look for look in candidate.looks if look.stage == "prove"]
    found = looks[-1].difference if looks else None
    return DifferenceRow(**found.model_dump()) if found is not None else None


def _stalls(facts: Facts, candidate: CandidateState) -> StallsRow | None:
    """Stalled runs at the last look that proved it; None where stalls cannot be seen."""
    looks = [look for look in candidate.looks if look.stage == "prove"]
    last = looks[-1] if looks else None
    if last is None or last.base_stalls is None or last.candidate_stalls is None:
        return None
    return StallsRow(
        base=last.base_stalls,
        candidate=last.candidate_stalls,
        runs=last.blocks,
        p=next((finite(guard.p) for guard in last.guards if guard.name == "stalls"), None),
        corrected=corrected(facts, candidate.proposed.id, "stalls"),
        compared=last.basis,
        event=facts.seq(last),
    )


def corrected(facts: Facts, candidate: str, family: str) -> Corrected | None:
    """A candidate's claim among all that were tested, as last written down."""
    for seq, data in reversed(facts.of(k.ClaimsAdjusted)):
        if isinstance(data, k.ClaimsAdjusted) and data.family == family:
            own = next((claim for claim in data.claims if claim.candidate == candidate), None)
            if own is None:
                return None
            return Corrected(
                p=own.p, p_adjusted=own.p_adjusted, tested=len(data.claims), survives=own.survives, event=seq
            )
    return None


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
        if waiting is None or not candidate.undecided:
            continue
        place = f"{facts.state.started.run_id}/{candidate.proposed.id}"
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
                patch=patch_row(facts, proposed),
                estimate=verdict.estimate if verdict is not None else None,
                evidence=verdict.evidence if verdict is not None else [source(candidate.seq)],
                request=request_of(facts.state, proposed.id).id,
                command=f"infra-agent review show {place}",
                approve=f"infra-agent review approve {place}",
                event=facts.seq(waiting),
            )
        )
    return rows


def all_person_rows(facts: Facts) -> list[PersonRow]:
    """Every decision that a person made in this run, in the order of the candidates."""
    return [row for candidate in facts.state.candidates.values() for row in person_rows(facts, candidate)]


def person_rows(facts: Facts, candidate: CandidateState) -> list[PersonRow]:
    """What people decided on a candidate, as the ledger has it."""
    consent = consent_of(candidate)
    if consent is None:
        return []
    return [person_row(candidate.proposed.id, signed, facts.seq(consent)) for signed in grants_of(consent)]


def person_row(candidate: str, signed: SignedGrant, event: int | None) -> PersonRow:
    """One decision. A signature that does not hold has no fingerprint."""
    grant = signed.grant
    try:
        fingerprint = signer(signed).fingerprint
    except ApprovalRefused as error:
        fingerprint = f"invalid: {error.what}"
    return PersonRow(
        candidate=candidate, decision=grant.decision, reviewer=grant.reviewer, fingerprint=fingerprint, time=grant.time,
        expires=grant.expires, reason=grant.reason, request=grant.request, event=event,
    )  # fmt: skip
