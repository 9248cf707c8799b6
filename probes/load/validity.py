"""Is this window worth a number? Each check says what was measured and what the limit is; one that fails is enough.

Covered: failures, load actually offered, the client's own delay, token counts, identity, replayed answers, complete
answers. Not covered: prefix-cache counters and clocks of the machine (the harness reads those).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from probes.base import Check
from probes.load.timeline import segments, weighted_mean
from probes.load.types import LoadRequest, RequestRecord, Window

LAG_P99_FACTOR = 5
LAG_MAX_FACTOR = 30
REPLAY_SPEEDUP = 5.0
REPLAY_MIN_TOKENS = 8
COMPLETE = frozenset({"stop", "length"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the checks.

    The client's wake-ups may be late by `lag_share` of the mean TTFT or by `lag_floor_s`, whichever is more, on
    average, since that is how far means are moved; one in a hundred by 5 times that, a single one by 30 times. (Two
    cores saturated by the engine and a 4 ms scheduler tick alone give a mean of 2 ms and a p99 of 10 ms.)
    """

    allowed_failures: int = 0
    lag_share: float = 0.01
    lag_floor_s: float = 0.003
    in_flight_share: float = 0.95
    rate_share: float = 0.01


def check(window: Window, request: LoadRequest, limits: Limits) -> tuple[Check, ...]:
    """All checks of a window, in the order in which a person would ask them."""
    checks = [_warm(window)]
    if not checks[0].ok:
        return tuple(checks)
    records = window.records
    good = [record for record in records if record.ok]
    checks.append(_failures(records, request, limits))
    if len(records) < request.requests or not good:
        return tuple(checks)
    checks += _offered(records, request, limits)
    checks.append(_lag(window, good, limits))
    checks += _answers(good, request)
    checks += _replays(good, request)
    return tuple(checks)


def _warm(window: Window) -> Check:
    failed = [record for record in window.warmup if not record.ok]
    measured = f"{len(failed)} of {len(window.warmup)} failed: {failed[0].error}" if failed else "all answered"
    return Check(name="warm-up", ok=not failed, measured=measured, limit="all answered")


def _failures(records: Sequence[RequestRecord], request: LoadRequest, limits: Limits) -> Check:
    failed = [record for record in records if not record.ok]
    unsent = request.requests - len(records)
    text = f"{len(failed)} of {request.requests} requests failed"
    text += f", {unsent} were not sent" if unsent else ""
    text += f": {failed[0].error}" if failed else ""
    ok = len(failed) <= limits.allowed_failures and not unsent and len(failed) < len(records)
    return Check(name="failures", ok=ok, measured=text, limit=f"at most {limits.allowed_failures}")


def _offered(records: Sequence[RequestRecord], request: LoadRequest, limits: Limits) -> Iterator[Check]:
    asked = request.concurrency
    if asked is None:
        yield from _rate(records, limits)
        return
    parts = segments(records)
    peak = max((part.in_flight for part in parts), default=0)
    yield Check(name="peak in flight", ok=peak == asked, measured=f"{peak}", limit=f"{asked}")
    first_s, last_s = min(r.sent_s for r in records), max(r.sent_s for r in records)
    if request.requests > asked:
        loaded = [part for part in parts if first_s <= part.start_s and part.end_s <= last_s]
        mean = weighted_mean(loaded, lambda part: part.in_flight) or 0.0
        floor = limits.in_flight_share * asked
        yield Check(name="mean in flight", ok=mean >= floor, measured=f"{mean:.2f}", limit=f"at least {floor:.2f}")


def _rate(records: Sequence[RequestRecord], limits: Limits) -> Iterator[Check]:
    """Poisson: the client kept the drawn schedule. (The draw itself scatters around the asked rate by chance.)"""
    sent, due = [r.sent_s for r in records], [r.scheduled_s for r in records]
    planned_s, taken_s = max(due), max(sent)
    error = abs(planned_s / taken_s - 1) if taken_s > 0 else 1.0
    yield Check(
        name="arrival rate",
        ok=error <= limits.rate_share,
        measured=f"{len(records) / taken_s:.4g}/s sent, {len(records) / planned_s:.4g}/s drawn",
        limit=f"within {limits.rate_share:.0%} of the drawn schedule",
    )


def _lag(window: Window, good: Sequence[RequestRecord], limits: Limits) -> Check:
    firsts = [r.first_token_s - r.sent_s for r in good if r.first_token_s is not None]
    spans = firsts or [r.end_s - r.sent_s for r in good]
    limit_s = max(limits.lag_floor_s, limits.lag_share * sum(spans) / len(spans))
    lag = window.lag
    late_s = max((r.sent_s - r.scheduled_s for r in window.records), default=0.0)
    seen_s = (lag.mean_s, lag.p99_s, max(lag.max_s, late_s))
    allowed_s = (limit_s, LAG_P99_FACTOR * limit_s, LAG_MAX_FACTOR * limit_s)
    return Check(
        name="client delay",
        ok=lag.beats > 0 and all(seen <= allowed for seen, allowed in zip(seen_s, allowed_s, strict=True)),
        measured="mean {:.1f}, p99 {:.1f}, max {:.1f} ms".format(*(1e3 * seen for seen in seen_s)),
        limit="{:.1f}, {:.1f}, {:.1f} ms".format(*(1e3 * allowed for allowed in allowed_s)),
    )


def _answers(good: Sequence[RequestRecord], request: LoadRequest) -> Iterator[Check]:
    n = len(good)
    counted = sum(record.output_tokens is not None for record in good)
    yield Check(name="token counts", ok=counted == n, measured=f"{counted} of {n} answers", limit="every answer")
    tokens = sum(record.output_tokens or 0 for record in good)
    chunks = sum(len(record.chunk_times_s) for record in good)
    if counted == n:
        ok = chunks <= 1.1 * tokens and all((r.output_tokens or 0) <= request.max_tokens for r in good)
        longest = max(r.output_tokens or 0 for r in good)
        yield Check(
            name="token counts are plausible",
            ok=ok,
            measured=f"{tokens} tokens in {chunks} chunks, longest answer {longest}",
            limit=f"no fewer tokens than chunks, at most {request.max_tokens} an answer",
        )
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


def _replays(good: Sequence[RequestRecord], request: LoadRequest) -> Iterator[Check]:
    """An answer made once and played back: the same text for every prompt, or a repeat in a fraction of the time."""
    groups: dict[int, list[RequestRecord]] = defaultdict(list)
    for record in good:
        groups[request.prompts.index(request.prompts[record.id % len(request.prompts)])].append(record)
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
