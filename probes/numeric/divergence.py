"""Where two answers to one prompt part, and what the oracle says about that fork.

Covered: every pair of answers gets exactly one status; unequal texts are settled at their first differing token.
Not covered: the verdict over all prompts (`compare`).

Behind a near-tie the two texts follow different paths and are not compared with each other. So that nothing can hide
there, the candidate's own path is checked instead: no token may be less likely than the oracle's best by more than
`REST_LIMIT_NAT`. The limit is wide on purpose: it is to catch damage, while honest bfloat16 paths of the demo model
stayed within 0.12 nat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from probes.base import Json
from probes.numeric.types import END, Answer, Gap, GapRequest, Oracle, Tokens

REST_LIMIT_NAT = 1.0
END_TEXT = "<end of text>"
Path = tuple[int | None, ...]


class Status(StrEnum):
    """What became of one prompt's answer."""

    SAME = "same"
    NEAR_TIE = "near_tie"
    CHANGED = "changed"
    MISSING = "missing"
    TRUNCATED = "truncated"
    NOT_COMPARABLE = "not_comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptResult:
    """One prompt. `position` counts tokens from 0; the token fields are text; gaps are in nat."""

    prompt_id: str
    status: Status
    reason: str
    position: int | None = None
    reference_token: str | None = None
    candidate_token: str | None = None
    gap_nat: float | None = None
    oracle_prefers: str | None = None
    oracle_best: str | None = None
    step_nat: float | None = None
    rest_deficit_nat: float | None = None

    def to_json(self) -> dict[str, Json]:
        """The result as a JSON object, without the fields that do not apply."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Fork:
    reference: Answer
    candidate: Answer
    position: int
    path: Path
    other: int | None
    reference_token: str
    candidate_token: str


def classify(
    reference: Sequence[Answer], candidate: Sequence[Answer], oracle: Oracle | None, tolerance_nat: float
) -> tuple[PromptResult, ...]:
    """One result per reference answer, in its order. Raises OracleError when the oracle breaks off."""
    answers = {answer.prompt_id: answer for answer in candidate}
    results: dict[str, PromptResult] = {}
    unequal: list[tuple[Answer, Answer]] = []
    for wanted in reference:
        found = answers.get(wanted.prompt_id)
        settled = _without_oracle(wanted, found)
        if settled is not None:
            results[wanted.prompt_id] = settled
        elif found is not None:
            unequal.append((wanted, found))
    results |= {result.prompt_id: result for result in _with_oracle(unequal, oracle, tolerance_nat)}
    return tuple(results[wanted.prompt_id] for wanted in reference)


def _without_oracle(wanted: Answer, found: Answer | None) -> PromptResult | None:
    if found is None:
        return _result(wanted, Status.MISSING, "no answer")
    if found.error is not None:
        return _result(wanted, Status.MISSING, f"the request failed: {found.error}")
    if found.text == wanted.text:
        return _result(wanted, Status.SAME, "equal, character for character")
    shorter = None not in (found.output_tokens, wanted.output_tokens) and (
        (found.output_tokens or 0) < (wanted.output_tokens or 0)
    )
    if found.finish_reason == "length" and shorter:
        return _result(
            wanted, Status.TRUNCATED, f"cut off after {found.output_tokens} of {wanted.output_tokens} tokens"
        )
    return None


def _with_oracle(
    unequal: Sequence[tuple[Answer, Answer]], oracle: Oracle | None, tolerance_nat: float
) -> list[PromptResult]:
    if not unequal:
        return []
    if oracle is None:
        return [
            _result(wanted, Status.NOT_COMPARABLE, "the texts differ, and no oracle weighs how")
            for wanted, _ in unequal
        ]
    texts = [answer.text for pair in unequal for answer in pair]
    tokens = iter(oracle.tokenise(texts))
    results: list[PromptResult] = []
    forks: list[_Fork] = []
    for wanted, found in unequal:
        fork = _fork(wanted, found, next(tokens), next(tokens))
        if isinstance(fork, _Fork):
            forks.append(fork)
        else:
            results.append(fork)
    gaps = oracle.gaps([_request(fork) for fork in forks]) if forks else []
    return results + [_weigh(fork, gap, tolerance_nat) for fork, gap in zip(forks, gaps, strict=True)]


def _fork(wanted: Answer, found: Answer, left: Tokens, right: Tokens) -> _Fork | PromptResult:
    if not (left.faithful and right.faithful):
        return _result(wanted, Status.NOT_COMPARABLE, "a text does not survive re-tokenising, so no fork can be placed")
    mine, theirs = _path(wanted, left), _path(found, right)
    shared = min(len(mine), len(theirs))
    position = next((at for at in range(shared) if mine[at] != theirs[at]), shared)
    if position == shared:
        side = "candidate" if len(theirs) < len(mine) else "reference"
        reason = f"the {side} was cut off at token {position} (finish_reason {found.finish_reason!r} against "
        return _result(wanted, Status.TRUNCATED, f"{reason}{wanted.finish_reason!r})")
    known = theirs[: _sure_tokens(found, right, position)]
    return _Fork(wanted, found, position, known, mine[position], _piece(left, position), _piece(right, position))


def _sure_tokens(answer: Answer, tokens: Tokens, position: int) -> int:
    """How many tokens of a text are surely those that were generated; at least up to the fork itself.

    An answer cut off by its limit may end inside a word or a run of blanks, which re-tokenise to other tokens than were
    generated: its last word and what follows are left out of the check behind the fork; where no blank follows the
    fork, as in scripts without them, only the last token is.
    """
    if answer.finish_reason != "length":
        return len(tokens.ids) + 1
    pieces = tokens.pieces
    words = [at for at, piece in enumerate(pieces) if piece.strip()]
    starts = [at for at in words if pieces[at][:1].isspace() or (at > 0 and not pieces[at - 1].strip())]
    last = starts[-1] if starts and starts[-1] > position else len(tokens.ids) - 1
    return max(position + 1, last)


def _path(answer: Answer, tokens: Tokens) -> Path:
    """Tokens of an answer, closed by END when it stopped by itself.

    An engine may report `length` although the last allowed token was the invisible end-of-text: then exactly one
    token of its count is not in the text.
    """
    full = answer.output_tokens == answer.max_tokens
    unseen_end = answer.finish_reason == "length" and full and len(tokens.ids) == answer.max_tokens - 1
    return (*tokens.ids, END) if answer.finish_reason == "stop" or unseen_end else tokens.ids


def _piece(tokens: Tokens, position: int) -> str:
    return tokens.pieces[position] if position < len(tokens.pieces) else END_TEXT


def _request(fork: _Fork) -> GapRequest:
    asked = fork.reference
    return GapRequest(
        prompt=asked.prompt, endpoint=asked.endpoint, path=fork.path, position=fork.position, other=fork.other
    )


def _weigh(fork: _Fork, gap: Gap, tolerance_nat: float) -> PromptResult:
    prefers = "neither"
    if gap.path_logp != gap.other_logp:
        prefers = "candidate" if gap.path_logp > gap.other_logp else "reference"
    place = f"token {fork.position}: {fork.reference_token!r} became {fork.candidate_token!r}"
    apart = f"{gap.gap_nat:.3g} nat apart, the oracle prefers {prefers}"
    step = "" if gap.step_nat is None else f"; one step of the stored type is {gap.step_nat:.3g}"
    known = PromptResult(
        prompt_id=fork.reference.prompt_id,
        status=Status.CHANGED,
        reason=f"{place}, {apart} (limit {tolerance_nat:g}{step})",
        position=fork.position,
        reference_token=fork.reference_token,
        candidate_token=fork.candidate_token,
        gap_nat=gap.gap_nat,
        oracle_prefers=prefers,
        oracle_best=gap.best_token or END_TEXT,
        step_nat=gap.step_nat,
        rest_deficit_nat=gap.rest_deficit_nat,
    )
    # Written so that a gap that is not a number counts as changed.
    if not gap.gap_nat <= tolerance_nat:
        return known
    limit, rest = max(REST_LIMIT_NAT, tolerance_nat), gap.rest_deficit_nat
    if rest is not None and not rest <= limit:
        behind = f"a near-tie at {place}; behind it, token {gap.rest_position} of the candidate is {rest:.3g} nat "
        return replace(known, reason=f"{behind}less likely than the oracle's best token (limit {limit:g})")
    note = "; the texts behind it follow different paths and are not compared with each other"
    return replace(known, status=Status.NEAR_TIE, reason=f"near-tie at {place}, {apart}{note}")


def _result(answer: Answer, status: Status, reason: str) -> PromptResult:
    return PromptResult(prompt_id=answer.prompt_id, status=status, reason=reason)


def counts(results: Sequence[PromptResult]) -> Mapping[Status, int]:
    """How many results have each status; every status is a key."""
    return {status: sum(result.status is status for result in results) for status in Status}
