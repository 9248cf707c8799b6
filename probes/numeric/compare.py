"""Are the candidate's answers the reference's? One observation over all prompts.

Covered: validity first (same questions, same model, nothing cut short, something said), then the status of every
prompt, then the verdict. A missing answer fails. Without an oracle unequal texts stay undecided.
Not covered: whether either set of answers is good; sampling at a temperature above 0.

Verdicts: `pass` every answer same or near-tie · `fail` one changed or missing · `invalid` the sets cannot be compared
or the candidate says less · `inconclusive` something could not be weighed · `error` the oracle broke off.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from probes.base import Against, Check, Cost, Json, Observation, Quantity, Rung, Verdict, Where
from probes.numeric.divergence import PromptResult, Status, classify, counts
from probes.numeric.types import Answer, Oracle, OracleError

TOLERANCE_NAT = 0.1
PROBE = "answers"


@dataclass(frozen=True, slots=True)
class _Frame:
    """What every outcome shares."""

    where: Where
    against: Against
    tolerance_nat: float


def compare(
    reference: Sequence[Answer],
    candidate: Sequence[Answer],
    *,
    oracle: Oracle | None,
    tolerance_nat: float = TOLERANCE_NAT,
    tolerance_why: str = "stated",
    repeat: Sequence[Answer] | None = None,
    cost: Cost | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Observation:
    """Compare two sets of greedy answers to the same prompts.

    `tolerance_why` says where the tolerance comes from; it stands beside the near-ties and in the detail.
    `repeat` is the reference measured a second time: its flips are counted and shown, and excuse nothing.
    `cost` is what collecting the candidate cost; the comparison's own time is added. Never raises OracleError.
    """
    if not tolerance_nat >= 0:
        raise ValueError(f"tolerance_nat must be 0 or more, not {tolerance_nat}")
    began, paid = clock(), cost or Cost(wall_s=0.0)
    frame = _Frame(Where(input=f"{len(reference)} prompts"), _against(reference, oracle), tolerance_nat)

    def spent() -> Cost:
        wall_s = paid.wall_s + clock() - began
        return Cost(wall_s=wall_s, launches=paid.launches, requests=paid.requests)

    checks = validity(reference, candidate)
    if not all(check.ok for check in checks):
        return _withheld(frame, Verdict.INVALID, _first_failure(checks), checks, {}, spent())
    try:
        results = classify(reference, candidate, oracle, tolerance_nat)
        repeats = None if repeat is None else classify(reference, repeat, oracle, tolerance_nat)
    except OracleError as error:
        return _withheld(frame, Verdict.ERROR, str(error), checks, {}, spent())
    detail = {**_detail(results, repeats, reference, candidate, tolerance_nat), "tolerance_why": tolerance_why}
    checks = (*checks, _full_length(results))
    if not checks[-1].ok:
        return _withheld(frame, Verdict.INVALID, _first_failure(checks), checks, detail, spent())
    return Observation(
        probe=PROBE,
        rung=Rung.NUMERIC,
        verdict=_verdict(results),
        summary=_summary(results, repeats) + _limit_words(results, tolerance_nat, tolerance_why),
        where=frame.where,
        against=frame.against,
        cost=spent(),
        quantities=_quantities(results, reference, candidate),
        checks=checks,
        signals=_signals(results, repeats),
        detail=detail,
    )


def validity(reference: Sequence[Answer], candidate: Sequence[Answer]) -> tuple[Check, ...]:
    """Whether the two sets can be compared at all."""
    failed = [answer.prompt_id for answer in reference if answer.error is not None]
    complete = bool(reference) and not failed
    return (
        Check(
            name="the reference is complete",
            ok=complete,
            measured=f"{len(reference) - len(failed)} of {len(reference)} answers",
            limit="every prompt answered",
        ),
        _same_questions(reference, candidate),
        _same_model(reference, candidate),
        _says_something(reference, candidate),
    )


def _same_questions(reference: Sequence[Answer], candidate: Sequence[Answer]) -> Check:
    asked = {answer.prompt_id: answer.asked for answer in reference}
    strange = sorted(answer.prompt_id for answer in candidate if asked.get(answer.prompt_id) != answer.asked)
    twice = len(asked) < len(reference) or len({answer.prompt_id for answer in candidate}) < len(candidate)
    measured = f"differ for {', '.join(strange[:3])}" if strange else "a prompt is answered twice" if twice else "equal"
    return Check(
        name="the same questions",
        ok=not strange and not twice,
        measured=measured,
        limit="equal prompt, endpoint and token limit",
    )


def _same_model(reference: Sequence[Answer], candidate: Sequence[Answer]) -> Check:
    mine, theirs = _names(reference), _names(candidate)
    nothing_back = not any(answer.error is None for answer in candidate)
    return Check(
        name="the same model",
        ok=len(mine) == 1 and "" not in mine and (mine == theirs or nothing_back),
        measured=f"{_spoken(mine)} and {_spoken(theirs)}",
        limit="one name, in every answer",
    )


def _names(answers: Sequence[Answer]) -> set[str]:
    return {answer.model or "" for answer in answers if answer.error is None}


def _spoken(names: set[str]) -> str:
    return ", ".join(repr(name) if name else "no name" for name in sorted(names)) or "no answer"


def _says_something(reference: Sequence[Answer], candidate: Sequence[Answer]) -> Check:
    sets = [[answer for answer in answers if answer.error is None] for answers in (reference, candidate)]
    silent = any(answers and not any(answer.text.strip() for answer in answers) for answers in sets)
    return Check(
        name="the answers are not all empty",
        ok=not silent,
        measured="all empty" if silent else "text",
        limit="text in at least one answer of each side",
    )


def _full_length(results: Sequence[PromptResult]) -> Check:
    cut = [result for result in results if result.status is Status.TRUNCATED]
    first = f" ({cut[0].prompt_id}: {cut[0].reason})" if cut else ""
    return Check(
        name="no answer is cut short",
        ok=not cut,
        measured=f"{len(cut)} of {len(results)} answers cut short{first}",
        limit="none",
    )


def _first_failure(checks: Sequence[Check]) -> str:
    failed = next(check for check in checks if not check.ok)
    return f"not comparable: {failed.name}? {failed.measured}; needed: {failed.limit}"


def _withheld(
    frame: _Frame, verdict: Verdict, reason: str, checks: tuple[Check, ...], detail: Mapping[str, Json], cost: Cost
) -> Observation:
    return Observation(
        probe=PROBE,
        rung=Rung.NUMERIC,
        verdict=verdict,
        summary=reason,
        where=frame.where,
        against=frame.against,
        cost=cost,
        checks=checks,
        signals={"answers_verdict": verdict.value},
        detail=detail or {"tolerance_nat": frame.tolerance_nat, "prompts": []},
    )


def _verdict(results: Sequence[PromptResult]) -> Verdict:
    found = counts(results)
    if found[Status.CHANGED] or found[Status.MISSING]:
        return Verdict.FAIL
    return Verdict.INCONCLUSIVE if found[Status.NOT_COMPARABLE] else Verdict.PASS


def _quantities(
    results: Sequence[PromptResult], reference: Sequence[Answer], candidate: Sequence[Answer]
) -> tuple[Quantity, ...]:
    found = counts(results)
    names = {
        "answers_same": Status.SAME,
        "answers_near_tie": Status.NEAR_TIE,
        "answers_changed": Status.CHANGED,
        "answers_missing": Status.MISSING,
        "answers_not_comparable": Status.NOT_COMPARABLE,
    }
    total = len(results)
    rows = [Quantity(name=name, value=float(found[status]), unit="1", n=total) for name, status in names.items()]
    gaps = [result.gap_nat for result in results if result.gap_nat is not None]
    if gaps:
        rows.append(Quantity(name="oracle_gap_max_nat", value=max(gaps), unit="nat", n=len(gaps)))
    moves = _engine_logprob_moves(reference, candidate)
    if moves:
        rows.append(Quantity(name="engine_logprob_move_max_nat", value=max(moves), unit="nat", n=len(moves)))
    return tuple(rows)


def _engine_logprob_moves(reference: Sequence[Answer], candidate: Sequence[Answer]) -> list[float]:
    """How far the engine's own log-probabilities moved, over the tokens that both sides share."""
    theirs = {answer.prompt_id: answer.logprobs or () for answer in candidate}
    moves = []
    for answer in reference:
        for mine, other in zip(answer.logprobs or (), theirs.get(answer.prompt_id, ()), strict=False):
            if mine.token != other.token:
                break
            moves.append(abs(mine.logprob - other.logprob))
    return moves


def _signals(results: Sequence[PromptResult], repeats: Sequence[PromptResult] | None) -> dict[str, float | str | bool]:
    signals: dict[str, float | str | bool] = {"answers_verdict": _verdict(results).value}
    signals |= {f"answers_{status.value}": float(number) for status, number in counts(results).items()}
    if repeats is not None:
        signals["repeat_flips"] = float(_flips(repeats))
    return signals


def _flips(repeats: Sequence[PromptResult]) -> int:
    return sum(result.status is not Status.SAME for result in repeats)


def _summary(results: Sequence[PromptResult], repeats: Sequence[PromptResult] | None) -> str:
    found = counts(results)
    parts = [f"{found[Status.SAME]} same"]
    ties = [result.gap_nat or 0.0 for result in results if result.status is Status.NEAR_TIE]
    if ties:
        parts.append(f"{len(ties)} near-tie{'s' * (len(ties) > 1)} (largest gap {max(ties):.2g} nat)")
    changed = [result for result in results if result.status is Status.CHANGED]
    if changed:
        parts.append(f"{len(changed)} changed ({changed[0].prompt_id}: {changed[0].reason})")
    for status, word in ((Status.MISSING, "missing"), (Status.NOT_COMPARABLE, "not comparable")):
        first = next((result for result in results if result.status is status), None)
        if first is not None:
            parts.append(f"{found[status]} {word} ({first.prompt_id}: {first.reason})")
    if repeats is not None:
        parts.append(f"reference against itself: {_flips(repeats)} of {len(repeats)} differ")
    return ", ".join(parts)


def _limit_words(results: Sequence[PromptResult], tolerance_nat: float, why: str) -> str:
    """The limit of a near-tie, where one was needed and it was not simply stated."""
    if why == "stated" or not any(result.status is Status.NEAR_TIE for result in results):
        return ""
    return f"; a near-tie is at most {tolerance_nat:.2g} nat: {why}"


def _detail(
    results: Sequence[PromptResult],
    repeats: Sequence[PromptResult] | None,
    reference: Sequence[Answer],
    candidate: Sequence[Answer],
    tolerance_nat: float,
) -> dict[str, Json]:
    said = {answer.prompt_id: answer for answer in candidate}
    rows = [
        result.to_json()
        | {"prompt": wanted.prompt, "reference": _said(wanted), "candidate": _said(said.get(wanted.prompt_id))}
        for wanted, result in zip(reference, results, strict=True)
    ]
    null = None if repeats is None else [result.to_json() for result in repeats]
    return {"tolerance_nat": tolerance_nat, "prompts": rows, "reference_repeated": null}


def _said(answer: Answer | None) -> dict[str, Json] | None:
    if answer is None:
        return None
    return {"text": answer.text, "finish_reason": answer.finish_reason, "output_tokens": answer.output_tokens}


def _against(reference: Sequence[Answer], oracle: Oracle | None) -> Against:
    if oracle is not None:
        return Against(kind="reference", name=oracle.name, digest=oracle.digest())
    texts = "\0".join(f"{answer.prompt_id}\0{answer.text}" for answer in reference)
    return Against(
        kind="reference", name="reference answers, no oracle", digest=hashlib.sha256(texts.encode()).hexdigest()
    )
