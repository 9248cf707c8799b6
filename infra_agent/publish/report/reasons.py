"""Why a change is believed to work: hypotheses with their predictions, claims, and the answer check.

Covered: prediction beside measurement; cause or association. A claim is a cause only when the change was alone, was
seen in effect, moved the metric when applied (AB), the move was gone when it was taken back (BA: the base is launched
after the candidate), and stock against stock was measured as the placebo.
Not covered: whether the mechanism in the hypothesis' words is right; a claim is about the change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from infra_agent.goal.model import Direction
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState
from infra_agent.publish.report.candidates import STRONGEST_FIRST, end_of
from infra_agent.publish.report.facts import Facts, estimate, finite, ids, source
from infra_agent.publish.report.model import Answers
from infra_agent.publish.report.outcome import metric_text
from infra_agent.publish.report.reason_rows import (
    AssociationClaim,
    CauseClaim,
    CauseEvidence,
    Claim,
    HypothesisRow,
    Measured,
    Predicted,
    PredictionRow,
    Predictor,
    RungScore,
)
from infra_agent.publish.report.rows import End, EstimateRow
from infra_agent.stack.engines.experiment import is_experiment

_NOMINAL_MISS = 0.2
_SNAPSHOT = "effective-state"
"""A reading of the running engine: what an engagement proof is made from, not the proof."""
_REFERENCE = "reference-answers"


def hypothesis_rows(facts: Facts) -> list[HypothesisRow]:
    """Every hypothesis, what it predicted, and what was measured."""
    return [_hypothesis(facts, stated) for stated in facts.state.hypotheses.values()]


def _hypothesis(facts: Facts, stated: k.HypothesisStated) -> HypothesisRow:
    tests = [c for c in facts.state.candidates.values() if c.proposed.hypothesis == stated.id]
    ends: dict[str, End] = {candidate.proposed.id: end_of(candidate) for candidate in tests}
    end: End = min(ends.values(), key=STRONGEST_FIRST.index, default="untested")
    decisive = next((c for c in tests if ends[c.proposed.id] == end), None)
    predicted = predicted_range(facts, stated)
    measured = measured_ratio(facts, decisive) if decisive is not None else None
    inside = None
    if predicted is not None and measured is not None:
        inside = predicted.low <= measured.ratio <= predicted.high
    return HypothesisRow(
        id=stated.id,
        family=stated.family,
        cause=stated.cause,
        place=stated.place,
        refuted_by=stated.refuted_by,
        refuting_probe=stated.refuting_probe,
        source=stated.source,
        predictions=[_prediction(facts, stated, p) for p in stated.predictions if _is_range(p)],
        predicted=predicted,
        measured=measured,
        inside=inside,
        end=end,
        candidates=list(ends),
        event=facts.seq(stated),
    )


def predicted_range(facts: Facts, stated: k.HypothesisStated) -> Predicted | None:
    """The prediction for the rung of the goal's figure: the one that the judge's estimate can be held against."""
    rung = "micro" if is_experiment(facts.state.started.stack) else "load"
    for prediction in stated.predictions:
        if prediction.get("rung") == rung and _is_range(prediction):
            goal = facts.state.started.goal
            metric = str(prediction.get("metric", goal.metric.value))
            low, high = float(prediction["low"]), float(prediction["high"])
            return Predicted(rung=rung, metric=metric, low=low, high=high)
    return None


def _is_range(prediction: Mapping[str, Any]) -> bool:
    return all(isinstance(prediction.get(bound), int | float) for bound in ("low", "high"))


def _prediction(facts: Facts, stated: k.HypothesisStated, prediction: Mapping[str, Any]) -> PredictionRow:
    """A stated range with its newest score."""
    rung, metric = str(prediction.get("rung", "")), str(prediction.get("metric", ""))
    scores = [s for s in facts.state.scores if (s.hypothesis, s.rung, s.metric) == (stated.id, rung, metric)]
    last = scores[-1] if scores else None
    return PredictionRow(
        rung=rung,
        metric=metric,
        low=float(prediction["low"]),
        high=float(prediction["high"]),
        measured=last.measured if last is not None else None,
        inside=last.inside if last is not None else None,
        basis=last.basis if last is not None else None,
        event=facts.seq(last if last is not None else stated),
    )


def measured_ratio(facts: Facts, candidate: CandidateState) -> Measured | None:
    """What was measured of a candidate: proved in blocks, else screened."""
    verdict = candidate.verdict
    if verdict is not None and verdict.estimate is not None and any(block.valid for block in candidate.blocks):
        row, event, proved = estimate(verdict.estimate), candidate.verdict_seq or facts.seq(verdict), True
    elif candidate.screened is not None:
        row, event, proved = estimate(candidate.screened.estimate), facts.seq(candidate.screened), False
    elif verdict is not None:
        row, event, proved = estimate(verdict.estimate), candidate.verdict_seq or facts.seq(verdict), False
    else:
        return None
    if row is None:
        return None
    return Measured(ratio=row.ratio, low=row.low, high=row.high, basis="proved" if proved else "screen", event=event)


def predictor(facts: Facts, rows: Sequence[HypothesisRow]) -> Predictor:
    """How often the prediction held, and its mean interval score on the log ratio."""
    scored = [row for row in rows if row.inside is not None]
    scores = [_interval_score(row) for row in scored]
    inside = sum(1 for row in scored if row.inside)
    return Predictor(
        brain=facts.state.started.brain,
        scored=len(scored),
        inside=inside,
        hit_rate=inside / len(scored) if scored else None,
        interval_score=finite(math.fsum(scores) / len(scores)) if scores else None,
        rungs=_rung_scores(facts),
    )


def _rung_scores(facts: Facts) -> list[RungScore]:
    """Every measured range once, with its newest evidence."""
    latest = {(score.candidate, score.rung, score.metric): score for score in facts.state.scores}
    rows = []
    for rung in dict.fromkeys(score.rung for score in latest.values()):
        scores = [score for score in latest.values() if score.rung == rung]
        mean = math.fsum(score.score for score in scores) / len(scores)
        hits = sum(score.inside for score in scores)
        rows.append(RungScore(rung=rung, scored=len(scores), inside=hits, interval_score=mean))
    return rows


def _interval_score(row: HypothesisRow) -> float:
    assert row.predicted is not None
    assert row.measured is not None
    low, high, seen = math.log(row.predicted.low), math.log(row.predicted.high), math.log(row.measured.ratio)
    return (high - low) + 2 / _NOMINAL_MISS * (max(0.0, low - seen) + max(0.0, seen - high))


def claims(facts: Facts) -> list[Claim]:
    """One claim for each candidate whose effect was decided by paired blocks, faster or slower."""
    result: list[Claim] = []
    for candidate in facts.state.candidates.values():
        verdict = candidate.verdict
        decided = verdict is not None and verdict.cause in ("proved", "slower") and candidate.proposed.lane == "agent"
        row = estimate(verdict.estimate) if verdict is not None else None
        if decided and row is not None and any(block.valid for block in candidate.blocks):
            result.append(_claim(facts, candidate, row))
    return result


def _claim(facts: Facts, candidate: CandidateState, row: EstimateRow) -> Claim:
    apply = _order_evidence(facts, candidate, row, ("base", "candidate"))
    revert = _order_evidence(facts, candidate, row, ("candidate", "base"))
    placebo = _placebo(facts)
    missing = _missing(facts, candidate, apply, revert, placebo)
    seq = candidate.verdict_seq or facts.seq(candidate.verdict)
    hypothesis = candidate.proposed.hypothesis
    if not missing:
        return CauseClaim(
            candidate=candidate.proposed.id,
            hypothesis=hypothesis,
            statement=_statement(facts, candidate, "Applying", "moves"),
            estimate=row,
            evidence=CauseEvidence(apply=apply, revert=revert, placebo=placebo),
            event=seq,
        )
    found = {"apply": apply, "revert": revert, "placebo": placebo}
    return AssociationClaim(
        candidate=candidate.proposed.id,
        hypothesis=hypothesis,
        statement=_statement(facts, candidate, "With", "goes another value of"),
        estimate=row,
        evidence={name: sources for name, sources in found.items() if sources},
        missing=missing,
        event=seq,
    )


def _statement(facts: Facts, candidate: CandidateState, verb: str, effect: str) -> str:
    goal = facts.state.started.goal
    metric = metric_text(goal.metric, goal.statistic).lower()
    return f"{verb} {candidate.proposed.title} {effect} {metric}"


def _order_evidence(facts: Facts, candidate: CandidateState, row: EstimateRow, order: tuple[str, str]) -> list[str]:
    """Observations of the blocks in this order, if their median ratio lies on the estimate's side of 1."""
    blocks = [b for b in candidate.blocks if b.valid and b.stage == "prove" and tuple(b.order) == order]
    sign = 1 if facts.state.started.goal.direction is Direction.MAXIMISE else -1
    pairs = [(b.base_value, b.candidate_value) for b in blocks]
    logs = [sign * math.log(right / left) for left, right in pairs if left and right and left > 0 and right > 0]
    if not logs or median(logs) * math.log(row.ratio) <= 0:
        return []
    return ids(*[[b.base_observation, b.candidate_observation] for b in blocks])


def _placebo(facts: Facts) -> list[str]:
    """Stock against stock: the measured noise floor. An assumed one is no placebo."""
    noise = facts.state.noise
    if noise is None or noise.source == "assumed" or noise.samples < 2:
        return []
    return [source(facts.seq(noise))]


def _missing(
    facts: Facts, candidate: CandidateState, apply: list[str], revert: list[str], placebo: list[str]
) -> list[str]:
    lines = []
    together = changes_together(candidate.proposed)
    if together != 1:
        lines.append(f"{together} changes at once: none was tested alone")
    if not _engaged(facts, candidate):
        lines.append("no proof that the change was in effect")
    if not apply:
        lines.append("apply: no valid block with the base first that moves the same way")
    if not revert:
        lines.append("revert: no valid block with the base launched after the candidate that moves back")
    if not placebo:
        lines.append("placebo: stock against stock was not measured")
    return lines


def changes_together(proposed: k.CandidateProposed) -> int:
    """Parameters set and places of code changed: more than one, and their effects cannot be told apart."""
    diff = proposed.patch.diff if proposed.patch is not None else ""
    places = sum(line.startswith("@@ ") for line in diff.split("\n"))
    return len(proposed.changes) + max(places, int(proposed.patch is not None))


def _engaged(facts: Facts, candidate: CandidateState) -> bool:
    own = (facts.state.observations.get(identity) for identity in candidate.observations)
    proofs = [made.observation for made in own if made is not None and made.purpose == "engagement"]
    return any(proof.get("verdict") == "pass" and proof.get("probe") != _SNAPSHOT for proof in proofs)


def answers(facts: Facts, of: str | None = None) -> Answers:
    """The newest answer check of a configuration, the best when none is named. Nothing measured is never a pass."""
    best = facts.state.best if of is None else of
    made_of_best = [m for m in facts.state.observations.values() if m.purpose == "answers" and m.candidate == best]
    own = [made for made in made_of_best if made.observation.get("probe") != _REFERENCE]
    if not own:
        code = "not_needed" if best not in facts.state.candidates else "not_checked"
        detail = "stock is the reference" if code == "not_needed" else "no answer check of this configuration"
        if is_experiment(facts.state.started.stack):
            detail = "an experiment gives no answers; what its results were held against stands with its probes"
        return Answers.model_validate(
            {"verdict": code, "candidate": best, "same": None, "near_ties": None, "changed": None}
            | {"detail": detail, "sources": [source(facts.state.head_seq)]}
        )
    made = own[-1]
    document = made.observation
    return Answers.model_validate(
        {
            "verdict": document.get("verdict", "error"),
            "candidate": best,
            "same": _count(document, "same"),
            "near_ties": _count(document, "near_tie"),
            "changed": _count(document, "changed"),
            "detail": str(document.get("summary", "")),
            "sources": [made.id],
        }
    )


def _count(document: dict[str, Any], name: str) -> int | None:
    """A count of the answer check; None when the check withheld it."""
    found = next((q for q in document.get("quantities", ()) if q.get("name") == f"answers_{name}"), None)
    value = finite(found.get("value")) if found is not None else None
    return None if value is None else round(value)
