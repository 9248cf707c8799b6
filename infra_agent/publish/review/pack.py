"""The evidence pack of a gated candidate: what a person needs before they say yes or no, made from the ledger alone.

Covered: claim, exact change and patch text, how the cause was established, prediction beside measurement, figures with
intervals, the answer check, what was not tested, how to reproduce and undo, what approving does, who has signed.
Not covered: how it looks (`publish.review.text`), deciding.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra_agent.changes.change import STOCK
from infra_agent.errors import LedgerError
from infra_agent.ledger.approvals import patches_of, request_of
from infra_agent.ledger.artifacts import path_of
from infra_agent.ledger.decisions import stands_on_best
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.publish.commands import measure_commands
from infra_agent.publish.publish import report_of
from infra_agent.publish.report import reasons
from infra_agent.publish.report.candidates import block_rows, change_rows, end_of, person_rows, undo_text
from infra_agent.publish.report.facts import Facts, estimate
from infra_agent.publish.report.measures import configuration
from infra_agent.publish.report.model import Answers, Gap, Report
from infra_agent.publish.report.reason_rows import Claim, Measured, Predicted
from infra_agent.publish.report.rows import BlockRow, ChangeRow, EstimateRow, PersonRow, Row
from infra_agent.stack.engines import engine_of

CONFIRM_CHARACTERS = 12
_MOST_PATCH_BYTES = 1 << 20


class PatchText(Row):
    """A patch of the candidate. `text` None: it is not stored in the run."""

    sha256: str
    text: str | None


class ReviewPack(Row):
    """One gate. `confirm`: the first characters of the request's id, for approving without a terminal."""

    run: str
    candidate: str
    title: str
    status: str
    risk: str
    reasons: list[str]
    goal: str
    base: str
    best: str
    stands_on_best: bool
    claim: str
    place: str
    refuted_by: str
    source: str
    cause: Claim | None
    predicted: Predicted | None
    measured: Measured | None
    inside: bool | None
    changes: list[ChangeRow]
    patches: list[PatchText]
    estimate: EstimateRow | None
    blocks: list[BlockRow]
    answers: Answers
    not_tested: list[Gap]
    sandboxed: bool
    reproduce: list[str]
    undo: list[str]
    effect: str
    needed: int
    decisions: list[PersonRow]
    request_id: str
    confirm: str
    request: dict[str, Any]


def pack_of(run_dir: Path, state: RunState, id: str, pending: Sequence[PersonRow] = (), needed: int = 1) -> ReviewPack:
    """The pack of a candidate whose gate has opened. `pending`: signed decisions not yet taken in by the run."""
    facts, candidate = Facts(state), state.candidates[id]
    proposed, verdict = candidate.proposed, candidate.verdict
    stated = state.hypotheses.get(proposed.hypothesis)
    predicted = reasons.predicted_range(facts, stated) if stated is not None else None
    measured = reasons.measured_ratio(facts, candidate)
    request, report = request_of(state, id), report_of(state)
    changes = change_rows(proposed, tuple(engine_of(state.started.stack).parameters()))
    return ReviewPack(
        run=state.started.run_id,
        candidate=id,
        title=proposed.title,
        status=end_of(candidate),
        risk=request.risk,
        reasons=list(proposed.risk_reasons),
        goal=state.started.goal.text,
        base=proposed.base,
        best=state.best,
        stands_on_best=stands_on_best(state, id),
        claim=stated.cause if stated is not None else "",
        place=stated.place if stated is not None else "",
        refuted_by=stated.refuted_by if stated is not None else "",
        source=stated.source if stated is not None else "",
        cause=next((claim for claim in reasons.claims(facts) if claim.candidate == id), None),
        predicted=predicted,
        measured=measured,
        inside=predicted.low <= measured.ratio <= predicted.high if predicted and measured else None,
        changes=changes,
        patches=[_patch(run_dir, sha256) for sha256 in patches_of(proposed)],
        estimate=estimate(verdict.estimate) if verdict is not None else None,
        blocks=block_rows(facts, [block for block in candidate.blocks if block.stage == "prove"]),
        answers=reasons.answers(facts, id),
        not_tested=report.not_measured,
        sandboxed=state.started.walls.get("mode", "none") != "none",
        reproduce=_reproduce(facts, report, candidate),
        undo=[undo_text(change) for change in changes] + ["all of it: infra-agent stack up --stock"],
        effect=_effect(state, candidate),
        needed=needed,
        decisions=[*person_rows(facts, candidate), *pending],
        request_id=request.id,
        confirm=request.id[:CONFIRM_CHARACTERS],
        request=request.document(),
    )


def _patch(run_dir: Path, sha256: str) -> PatchText:
    try:
        with path_of(run_dir, sha256).open("rb") as source:
            return PatchText(sha256=sha256, text=source.read(_MOST_PATCH_BYTES).decode("utf-8", "replace"))
    except (LedgerError, OSError):
        return PatchText(sha256=sha256, text=None)


def _reproduce(facts: Facts, report: Report, candidate: CandidateState) -> list[str]:
    """Base and candidate, launched and measured as the run did."""
    arms = [candidate.proposed.base or STOCK, candidate.proposed.id]
    lines = [line for arm in arms for line in measure_commands(report, configuration(facts, arm))]
    return [*lines, f"infra-agent runs verify {report.run.id}"]


def _effect(state: RunState, candidate: CandidateState) -> str:
    """What a yes sets in motion, in one sentence."""
    id, base, run = candidate.proposed.id, candidate.proposed.base, state.started.run_id
    if state.best == id:
        return f"{id} is the run's best already."
    if stands_on_best(state, id):
        return (
            f"{id} becomes the run's best in place of {state.best}; `infra-agent runs resume {run}` then relaunches it "
            "clean beside stock and decides the goal. Nothing outside the run is changed."
        )
    return (
        f"{id} was proved on {base}, and the best is now {state.best}. `infra-agent runs resume {run}` then proves the "
        f"change again on top of {state.best}, and asks again about the two together."
    )
