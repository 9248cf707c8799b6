"""Is this window worth a number? Each check says what was measured and what the limit is; one that fails is enough.

Covered: failures, load actually offered, the client's own delay, token counts, identity, prefix caches, replayed
answers, complete answers. A check that these records or this server leave no way to make is named as not made.
Not covered: clocks of the machine (the harness reads those).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from probes.base import Check
from probes.load.arrivals import Closed
from probes.load.offered import Limits as Limits
from probes.load.offered import client_delay, offered, planned_requests
from probes.load.sharing import sharing
from probes.load.spread import FEWEST
from probes.load.types import LoadRequest, RequestRecord, Window

REPLAY_SPEEDUP = 5.0
REPLAY_MIN_TOKENS = 8
PROMPT_SHARE = 0.01
COMPLETE = frozenset({"stop", "length", "tool_calls"})


def check(window: Window, request: LoadRequest, limits: Limits) -> tuple[Check, ...]:
    """All checks of a window, in the order in which a person would ask them."""
    checks = [_warm(window)]
    if not checks[0].ok:
        return tuple(checks)
    records = window.records
    good = [record for record in records if record.ok]
    checks.append(_ended(window, request))
    checks.append(_failures(records, request, limits))
    if not good or len(records) < planned_requests(request, len(records)):
        return tuple(checks)
    checks += offered(records, request, limits)
    checks.append(client_delay(window, good, limits))
    checks += _answers(good, request)
    checks += _prefixes(window, request)
    checks += _replays(good, request)
    return tuple(checks)


def not_checked(window: Window, request: LoadRequest) -> Mapping[str, str]:
    """Checks that could not be made, and why: never counted as passed."""
    good = [record for record in window.records if record.ok]
    missing: dict[str, str] = {}
    if not isinstance(request.arrivals, Closed) and len(window.records) < FEWEST:
        missing["arrival dispersion"] = f"{len(window.records)} arrivals; {FEWEST} are needed"
    if sharing(window, request) is None:
        missing["prefix cache"] = "the server tells nothing about its cache (no cached_tokens, no known counters)"
    if not any(request.prompt(record.id).tokens is not None for record in good):
        missing["prompt tokens"] = "the prompts' lengths in tokens are not known beforehand"
    if request.stream and any(record.chunk_tokens is None for record in good):
        missing["tokens per chunk"] = "no token counts in every chunk"
    return missing


def _warm(window: Window) -> Check:
    failed = [record for record in window.warmup if not record.ok]
    measured = f"{len(failed)} of {len(window.warmup)} failed: {failed[0].error}" if failed else "all answered"
    return Check(name="warm-up", ok=not failed, measured=measured, limit="all answered")


def _ended(window: Window, request: LoadRequest) -> Check:
    return Check(
        name="time limit", ok=window.cut is None, measured=window.cut or f"{window.wall_s:.1f} s",
        limit=f"{request.time_limit_s:g} s",
    )  # fmt: skip


def _failures(records: Sequence[RequestRecord], request: LoadRequest, limits: Limits) -> Check:
    failed = [record for record in records if not record.ok]
    planned = planned_requests(request, len(records))
    unsent = planned - len(records)
    text = f"{len(failed)} of {planned} requests failed"
    text += f", {unsent} were not sent" if unsent else ""
    text += f": {failed[0].error}" if failed else ""
    ok = len(failed) <= limits.allowed_failures and not unsent and len(failed) < len(records)
    return Check(name="failures", ok=ok, measured=text, limit=f"at most {limits.allowed_failures}")


def _answers(good: Sequence[RequestRecord], request: LoadRequest) -> Iterator[Check]:
    n = len(good)
    counted = sum(record.output_tokens is not None for record in good)
    yield Check(name="token counts", ok=counted == n, measured=f"{counted} of {n} answers", limit="every answer")
    tokens = sum(record.output_tokens or 0 for record in good)
    chunks = sum(len(record.chunk_times_s) for record in good)
    if counted == n:
        most = {r.id: request.prompt(r.id).max_tokens or request.max_tokens for r in good}
        longest = max(r.output_tokens or 0 for r in good)
        yield Check(
            name="token counts are plausible",
            ok=chunks <= 1.1 * tokens and all((r.output_tokens or 0) <= most[r.id] for r in good),
            measured=f"{tokens} tokens in {chunks} chunks, longest answer {longest}",
            limit=f"no fewer tokens than chunks, at most {max(most.values())} an answer",
        )
    yield from _agreement(good, request)
    if request.extra_body.get("ignore_eos") is True and counted == n:
        short = sum(r.output_tokens != (request.prompt(r.id).max_tokens or request.max_tokens) for r in good)
        yield Check(name="full length", ok=not short, measured=f"{short} of {n} answers have another", limit="none")
    expected = request.expected_model or request.model
    # transformers appends the revision that it serves; `main` is the default one and names the same weights.
    models = Counter((record.model or "no model named").removesuffix("@main") for record in good)
    yield Check(
        name="model",
        ok=set(models) == {expected.removesuffix("@main")},
        measured=", ".join(sorted(models)),
        limit=expected,
    )
    empty = sum(not record.output_tokens and not (record.text or record.reasoning) for record in good)
    yield Check(name="empty answers", ok=empty == 0, measured=f"{empty} of {n}", limit="0")
    reasons = Counter(record.finish_reason or "none" for record in good)
    yield Check(
        name="finish reason",
        ok=set(reasons) <= COMPLETE,
        measured=", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())),
        limit="stop or length",
    )


def _agreement(good: Sequence[RequestRecord], request: LoadRequest) -> Iterator[Check]:
    """The client's and the server's counts of the same tokens, where the client knows."""
    counted = [record for record in good if record.chunk_tokens is not None and record.output_tokens is not None]
    if counted:
        wrong = sum(sum(record.chunk_tokens or ()) > (record.output_tokens or 0) for record in counted)
        measured = f"{wrong} of {len(counted)} answers had more tokens in their chunks than in total"
        yield Check(name="tokens per chunk", ok=not wrong, measured=measured, limit="none")
    known = [(request.prompt(record.id).tokens, record.prompt_tokens) for record in good]
    pairs = [(ours, theirs) for ours, theirs in known if ours is not None and theirs is not None]
    if pairs:
        ours, off = sum(ours for ours, _ in pairs), sum(abs(ours - theirs) for ours, theirs in pairs)
        yield Check(
            name="prompt tokens",
            ok=off <= PROMPT_SHARE * ours,
            measured=f"{sum(theirs for _, theirs in pairs)} counted by the server, {ours} meant",
            limit=f"within {PROMPT_SHARE:.0%} of each other",
        )


def _prefixes(window: Window, request: LoadRequest) -> Iterator[Check]:
    """No more came out of the server's prefix cache than the prompts of this window share."""
    found = sharing(window, request)
    if found is not None:
        yield Check(
            name="prefix cache",
            ok=found.cached <= found.allowed,
            measured=f"{found.cached:.0f} of {found.prompt_tokens:.0f} prompt tokens were cached ({found.source})",
            limit=f"at most {found.allowed:.0f}, by what the prompts share",
        )


def _replays(good: Sequence[RequestRecord], request: LoadRequest) -> Iterator[Check]:
    """An answer made once and played back: the same text for every prompt, or a repeat in a fraction of the time."""
    first_index = {prompt: index for index, prompt in reversed(list(enumerate(request.prompts)))}
    groups: dict[int, list[RequestRecord]] = defaultdict(list)
    for record in good:
        groups[first_index[request.prompt(record.id)]].append(record)
    long_enough = all((record.output_tokens or 0) >= REPLAY_MIN_TOKENS for record in good)
    if len(groups) > 1 and long_enough:
        texts = {(record.text, record.reasoning) for record in good}
        measured = f"{len(texts)} different texts for {len(groups)} prompts"
        yield Check(name="answers differ", ok=len(texts) > 1, measured=measured, limit="more than 1")
    repeated = [group for group in groups.values() if len(group) > 1]
    if repeated and request.nonce:
        replayed = sum(_is_replay(group) for group in repeated)
        limit = f"none identical and {REPLAY_SPEEDUP:g} times as fast under a new nonce"
        yield Check(
            name="no replayed answers", ok=replayed == 0, measured=f"{replayed} of {len(repeated)} prompts", limit=limit
        )


def _is_replay(group: Sequence[RequestRecord]) -> bool:
    first, *later = sorted(group, key=lambda record: record.id)
    same = all((r.text, r.reasoning) == (first.text, first.reasoning) for r in later)
    slowest_s = max(r.end_s - r.sent_s for r in later)
    return same and slowest_s * REPLAY_SPEEDUP < first.end_s - first.sent_s
