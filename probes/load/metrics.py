"""Every figure of a window, computed from its records. Definitions: docs/metrics.md.

Pure functions. A figure that the records do not support is withheld with its reason; none is guessed: token counts
are the server's own or unknown, and chunks are never counted as tokens.
Covered: rates, TTFT, TPOT, chunk gap, time between tokens, end to end, steady window, goodput.
Not covered: comparing windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from probes.load.steady import steady_bounds, tokens_within
from probes.load.summary import Estimate, Summary, summarise, wilson
from probes.load.types import LoadRequest, RequestRecord, Slo

MAX_TPOT_BIAS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMetrics:
    """Figures of one window. Rates are per second of `window_s`. `withheld`: name → why there is no such figure."""

    window_s: float | None
    successes: int
    failures: int
    rates: Mapping[str, float]
    summaries: Mapping[str, Summary]
    goodput_share: Estimate | None = None
    mean_output_tokens: float | None = None
    tokens_per_chunk: float | None = None
    withheld: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Draft:
    rates: dict[str, float] = field(default_factory=dict)
    summaries: dict[str, Summary] = field(default_factory=dict)
    withheld: dict[str, str] = field(default_factory=dict)


def compute(records: Sequence[RequestRecord], request: LoadRequest) -> LoadMetrics:
    """All figures of these records. Failed requests give no latency, no tokens and no throughput."""
    good = [record for record in records if record.ok]
    window_s = window_length_s(records)
    draft = _Draft()
    if window_s is None:
        failures = len(records) - len(good)
        return LoadMetrics(window_s=None, successes=len(good), failures=failures, rates={}, summaries={})
    draft.rates["requests_per_s"] = len(good) / window_s
    _add_token_rates(draft, good, window_s)
    _add_steady(draft, good, records, request, window_s)
    _add_latencies(draft, good, len(records) - len(good))
    share = _add_goodput(draft, good, records, request.slo, window_s)
    tokens = _sum_tokens(good, "output_tokens")
    chunks = sum(len(record.chunk_times_s) for record in good)
    return LoadMetrics(
        window_s=window_s,
        successes=len(good),
        failures=len(records) - len(good),
        rates=draft.rates,
        summaries=draft.summaries,
        goodput_share=share,
        mean_output_tokens=tokens / len(good) if tokens is not None else None,
        tokens_per_chunk=tokens / chunks if tokens is not None and chunks else None,
        withheld=draft.withheld,
    )


def window_length_s(records: Sequence[RequestRecord]) -> float | None:
    """First send to the last content of a complete answer; None without one."""
    ends = [record.last_token_s for record in records if record.ok and record.last_token_s is not None]
    if not ends:
        return None
    length_s = max(ends) - min(record.sent_s for record in records)
    return length_s if length_s > 0 else None


def tpot_s(record: RequestRecord) -> float | None:
    """(last - first token) / tokens after the first chunk; None where one answer does not give it."""
    first, last, tokens = record.first_token_s, record.last_token_s, record.output_tokens
    if first is None or last is None or tokens is None:
        return None
    later = tokens - (record.first_chunk_tokens or 1)
    return (last - first) / later if later > 0 and len(record.chunk_times_s) > 1 else None


def tpot_doubt(records: Sequence[RequestRecord]) -> str | None:
    """Why TPOT must be withheld for these records, or None.

    When the first chunk may hold several tokens and its count is unknown, dividing by n - 1 is too kind to the
    server. The bound takes all tokens without a chunk of their own to sit in the first chunk; one token at the end
    (end of sequence) has no text and is allowed for.
    """
    hidden = later = 0
    for record in records:
        tokens, chunks = record.output_tokens or 0, len(record.chunk_times_s)
        if record.first_chunk_tokens is None and tokens > 1:
            if chunks < 2 and tokens > chunks + 1:
                return f"an answer of {tokens} tokens came in {chunks} chunk: there is no time between tokens"
            hidden += max(0, tokens - chunks - (record.finish_reason == "stop"))
            later += tokens - 1
    if later and hidden / later > MAX_TPOT_BIAS:
        share = hidden / later
        return f"{share:.0%} of tokens have no chunk of their own, and the first chunk's count is unknown"
    return None


def chunk_gaps_s(records: Sequence[RequestRecord]) -> list[float]:
    """Time between content chunks of the same answer, pooled over requests."""
    return [
        later - earlier
        for record in records
        for earlier, later in zip(record.chunk_times_s, record.chunk_times_s[1:], strict=False)
    ]


def token_gaps_s(records: Sequence[RequestRecord]) -> list[float]:
    """Time between tokens where each chunk's tokens are known: its gap, spread evenly over the tokens it brought."""
    gaps: list[float] = []
    for record in records:
        times = record.chunk_times_s
        steps = zip(times, times[1:], (record.chunk_tokens or ())[1:], strict=False)
        gaps += [gap for start, end, tokens in steps for gap in [(end - start) / tokens] * tokens if tokens]
    return gaps


def _add_token_rates(draft: _Draft, good: Sequence[RequestRecord], window_s: float) -> None:
    output, prompt = _sum_tokens(good, "output_tokens"), _sum_tokens(good, "prompt_tokens")
    if output is None:
        draft.withheld["output_tok_per_s"] = "the server sent no token counts for some answers"
    else:
        draft.rates["output_tok_per_s"] = output / window_s
    if output is None or prompt is None:
        draft.withheld["total_tok_per_s"] = "the server sent no token counts for some answers"
    else:
        draft.rates["total_tok_per_s"] = (output + prompt) / window_s


def _add_steady(
    draft: _Draft,
    good: Sequence[RequestRecord],
    records: Sequence[RequestRecord],
    request: LoadRequest,
    window_s: float,
) -> None:
    name = "steady_output_tok_per_s"
    if _sum_tokens(good, "output_tokens") is None:
        draft.withheld[name] = "the server sent no token counts for some answers"
        return
    if not all(record.chunk_times_s for record in good if record.output_tokens):
        draft.withheld[name] = "answers were not streamed: token times are unknown"
        return
    bounds = steady_bounds(records, request, window_s)
    if isinstance(bounds, str):
        draft.withheld[name] = bounds
    else:
        length_s = sum(end_s - start_s for start_s, end_s in bounds)
        draft.rates[name] = sum(tokens_within(record, bounds) for record in good) / length_s


def _add_latencies(draft: _Draft, good: Sequence[RequestRecord], failed: int) -> None:
    streamed = [record for record in good if record.first_token_s is not None]
    values = {
        "ttft_s": _spans(streamed, "sent_s", "first_token_s"),
        "ttft_scheduled_s": _spans(streamed, "scheduled_s", "first_token_s"),
        "first_answer_s": _spans(streamed, "sent_s", "first_answer_s"),
        "e2e_s": _spans(good, "sent_s", "last_token_s"),
        "e2e_scheduled_s": _spans(good, "scheduled_s", "last_token_s"),
    }
    doubt = tpot_doubt(good)
    if doubt is None:
        values["tpot_s"] = [value for record in good if (value := tpot_s(record)) is not None]
    for name, samples in values.items():
        _add_summary(draft, name, summarise(samples, failed=failed))
    # Gaps of one answer depend on each other, so resampling them would promise too narrow an interval.
    gaps = summarise(chunk_gaps_s(good), intervals=False)
    _add_summary(draft, "chunk_gap_s", gaps)
    if gaps and doubt is None and all(_one_token_per_chunk(record) for record in good):
        _add_summary(draft, "itl_s", gaps)
    if gaps and all(record.chunk_tokens is not None for record in good):
        _add_summary(draft, "token_gap_s", summarise(token_gaps_s(good), intervals=False))
    if doubt is not None:
        draft.withheld["tpot_s"] = doubt
    elif "tpot_s" in draft.withheld:
        draft.withheld["tpot_s"] = "no answer has two timed tokens and a token count"


def _add_summary(draft: _Draft, name: str, summary: Summary | None) -> None:
    if summary is None:
        draft.withheld[name] = "no streamed answer gives it"
    else:
        draft.summaries[name] = summary


def _one_token_per_chunk(record: RequestRecord) -> bool:
    """Every chunk is one token; an end-of-sequence token without text is allowed for."""
    hidden = (record.output_tokens or 0) - len(record.chunk_times_s)
    return record.output_tokens is not None and hidden in (0, int(record.finish_reason == "stop"))


def _add_goodput(
    draft: _Draft,
    good: Sequence[RequestRecord],
    records: Sequence[RequestRecord],
    slo: Slo | None,
    window_s: float,
) -> Estimate | None:
    if slo is None:
        return None
    missing = [name for name in ("ttft_s", "tpot_s") if getattr(slo, name) is not None and name in draft.withheld]
    if missing:
        draft.withheld["goodput_per_s"] = (
            f"{missing[0]} is part of the SLO and is withheld: {draft.withheld[missing[0]]}"
        )
        return None
    met = sum(meets(record, slo) for record in good)
    draft.rates["goodput_per_s"] = met / window_s
    return wilson(met, len(records))


def meets(record: RequestRecord, slo: Slo) -> bool:
    """A complete answer within every limit. An answer of one token has no time per output token to exceed."""
    if not record.ok:
        return False
    spans = (
        (slo.ttft_s, _span(record, "sent_s", "first_token_s")),
        (slo.e2e_s, _span(record, "sent_s", "last_token_s")),
    )
    in_time = all(limit is None or (span is not None and span <= limit) for limit, span in spans)
    per_token_s = tpot_s(record)
    return in_time and (slo.tpot_s is None or per_token_s is None or per_token_s <= slo.tpot_s)


def _span(record: RequestRecord, start: str, end: str) -> float | None:
    begin, finish = getattr(record, start), getattr(record, end)
    return None if begin is None or finish is None else float(finish - begin)


def _spans(records: Sequence[RequestRecord], start: str, end: str) -> list[float]:
    return [span for record in records if (span := _span(record, start, end)) is not None]


def _sum_tokens(records: Sequence[RequestRecord], name: str) -> int | None:
    """Sum over answers; None unless every one has a count."""
    counts = [getattr(record, name) for record in records]
    return sum(counts) if counts and all(count is not None for count in counts) else None
