"""The evidence pack for a terminal, in the order in which a person asks.

Covered: plain lines, foreign text made inert. Not covered: colour and width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra_agent.publish.report.format import amount, change, clean, estimate, ratio
from infra_agent.publish.report.reason_rows import CauseClaim
from infra_agent.publish.report.rows import BlockRow, PersonRow
from infra_agent.publish.review.pack import ReviewPack

_WIDTH = 12
_MOST_PATCH_LINES = 400


def pack_lines(pack: ReviewPack) -> list[str]:
    """The whole pack, one line per entry, free of control characters."""
    return [clean(line) for line in _lines(pack)]


def _lines(pack: ReviewPack) -> Iterator[str]:
    yield f"{pack.run}/{pack.candidate} ({pack.risk}): {pack.title}   {_status(pack)}"
    yield _line("Goal", pack.goal or "stated in a file")
    yield _line("Why you", "; ".join(pack.reasons) or f"class {pack.risk} waits for a person")
    yield _line("Claim", pack.claim or "no hypothesis was stated")
    if pack.claim:
        yield _line("", f"at {pack.place}; would be refuted by: {pack.refuted_by}")
    yield ""
    yield from _change(pack)
    yield ""
    yield _line("Cause", _cause(pack))
    yield _line("Predicted", _prediction(pack))
    yield _line("Measured", _measured(pack))
    yield from (_line("", text) for text in _blocks(pack.blocks))
    yield _line("Answers", _answers(pack))
    yield from _named("Not tested", [_gap(gap.what, gap.reason) for gap in pack.not_tested] or ["nothing is known"])
    if not pack.sandboxed:
        yield _line("Walls", "none: its engines could read what their user can, keys without a passphrase included")
    yield ""
    yield from _named("Reproduce", pack.reproduce)
    yield from _named("Undo", pack.undo)
    yield _line("Approving", pack.effect)
    yield from _named("Decided", [person(row) for row in pack.decisions])
    yield ""
    yield from _decide(pack)


def _line(label: str, text: str) -> str:
    return f"{label:<{_WIDTH}}{' '.join(text.splitlines())}"


def _named(label: str, texts: Sequence[str]) -> Iterator[str]:
    for index, text in enumerate(texts):
        yield _line("" if index else label, text)


def _status(pack: ReviewPack) -> str:
    signed = sum(row.decision == "approve" for row in pack.decisions)
    return f"waiting, {signed} of {pack.needed} signed" if pack.status == "waiting" else pack.status


def _change(pack: ReviewPack) -> Iterator[str]:
    yield from _named("Change", [f"on {pack.base}: {change(row)}" for row in pack.changes])
    for patch in pack.patches:
        yield _line("Patch", f"sha256 {patch.sha256}")
        if patch.text is None:
            yield _line("", "its text is not stored in this run: do not approve what you cannot read")
            continue
        lines = patch.text.splitlines()
        yield from (f"  | {line}" for line in lines[:_MOST_PATCH_LINES])
        if len(lines) > _MOST_PATCH_LINES:
            yield f"  | ... {len(lines) - _MOST_PATCH_LINES} more lines in artifacts/{patch.sha256}"


def _cause(pack: ReviewPack) -> str:
    claim = pack.cause
    if claim is None:
        return "nothing was established"
    if isinstance(claim, CauseClaim):
        return f"{claim.statement}: alone, applied and taken back, and stock against stock does not move it"
    return f"association only. {claim.statement}. Missing: {'; '.join(claim.missing)}"


def _prediction(pack: ReviewPack) -> str:
    if pack.predicted is None:
        return "nothing was predicted"
    held = {None: "not compared", True: "held", False: "did not hold"}[pack.inside]
    return f"{ratio(pack.predicted.low)} to {ratio(pack.predicted.high)} {pack.predicted.metric}: {held}"


def _measured(pack: ReviewPack) -> str:
    row = pack.estimate
    if row is None:
        return "no estimate"
    return f"{estimate(row)} of {pack.base} over {row.n} blocks, {row.confidence * 100:g} % interval, {row.method}"


def _blocks(blocks: Sequence[BlockRow]) -> Iterator[str]:
    """Base and candidate of every valid block, as launched: the figures behind the estimate."""
    for block in blocks:
        if block.valid and block.base_value is not None and block.candidate_value is not None:
            pair = f"{amount(block.base_value, '')} → {amount(block.candidate_value, '')}"
            yield f"block {block.index + 1}, {' then '.join(block.order)}: {pair}"


def _answers(pack: ReviewPack) -> str:
    answers = pack.answers
    return f"{answers.verdict.replace('_', ' ')}: {answers.detail}"


def _gap(what: str, reason: str) -> str:
    return reason if what == "note" else f"{what.replace('_', ' ')}: {reason}"


def person(row: PersonRow) -> str:
    """One decision in words."""
    taken = "" if row.event is not None else ", not yet taken in by the run"
    reason = f": {row.reason}" if row.reason else ""
    return f"{row.decision.replace('_', ' ')} by {row.reviewer} ({row.fingerprint}) at {row.time}{taken}{reason}"


def _decide(pack: ReviewPack) -> Iterator[str]:
    place = f"{pack.run}/{pack.candidate}"
    yield _line("Request", pack.request_id)
    if pack.status == "waiting":
        yield _line("Decide", f"infra-agent review approve {place}")
        yield _line("", f'infra-agent review reject {place} --reason "..."')
        yield _line("", f'infra-agent review request-changes {place} --reason "..."')
