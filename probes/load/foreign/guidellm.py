"""GuideLLM's report, version 2 of its form (0.8): one run for each of its benchmarks.

Its `time_per_output_token` divides the whole latency, the first token's included, so it keeps its own name; its
`inter_token_latency` is (last - first) / (n - 1) of each request, which is our TPOT.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from probes.load.arrivals import Closed, Constant, mean_rate_per_s
from probes.load.foreign.model import Document, ForeignRun, at, digest_of, number, whole
from probes.load.metrics import tpot_s
from probes.load.session import Told
from probes.load.summary import nearest_rank

VERSION = 2
PERCENTS = {"p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
STEMS = {
    "ttft": ("time_to_first_token_ms", 1e-3),
    "first_answer": ("time_to_first_output_token_ms", 1e-3),
    "tpot": ("inter_token_latency_ms", 1e-3),
    "guidellm_time_per_output_token": ("time_per_output_token_ms", 1e-3),
    "e2e": ("request_latency", 1.0),
}
NOTES = (
    "times are wall-clock stamps",
    "E2E ends with the response, not with its last content",
    "its time per output token includes the first token and is kept under its own name",
)
_ZERO = {"mean": 0.0, "median": 0.0, "mode": 0.0, "variance": 0.0, "std_dev": 0.0, "min": 0.0, "max": 0.0}
_PERCENT_KEYS = {"p001": 0.1, "p01": 1, "p05": 5, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95,
                 "p99": 99, "p999": 99.9}  # fmt: skip


def is_guidellm(document: Document) -> bool:
    """A GuideLLM report."""
    return isinstance(document.get("benchmarks"), list) and "guidellm_version" in (document.get("metadata") or {})


def read_guidellm(document: Document, source: str) -> list[ForeignRun]:
    """Its benchmarks, in order."""
    version = at(document, "metadata", "version")
    if version != VERSION:
        raise ValueError(f"{source}: a GuideLLM report of form {version}; form {VERSION} (0.8) is understood")
    return [_run(benchmark, f"{source}#{number_}") for number_, benchmark in enumerate(document["benchmarks"])]


def _run(benchmark: Document, source: str) -> ForeignRun:
    metrics = benchmark.get("metrics") or {}
    good = at(benchmark, "requests", "successful")
    good = good if isinstance(good, list) else []
    model = at(benchmark, "config", "backend", "model")
    totals = at(metrics, "request_totals") or {}
    failed = (whole(totals.get("errored")) or 0) + (whole(totals.get("incomplete")) or 0)
    return ForeignRun(
        tool="guidellm",
        source=source,
        load=_load(at(benchmark, "config", "strategy") or {}),
        figures=_figures(metrics),
        started_unix_s=number(benchmark.get("start_time")) or number(at(benchmark, "scheduler_metrics", "start_time")),
        model=model if isinstance(model, str) else None,
        requests=whole(totals.get("total")),
        completed=whole(totals.get("successful")),
        failed=failed if totals else None,
        input_tokens=_total(metrics, "prompt_token_count"),
        output_tokens=_total(metrics, "output_token_count"),
        prompts=digest_of(sorted(_sent(row) for row in good)) if good else None,
        prompts_by="the bodies that were sent" if good else "",
        notes=NOTES,
    )


def _figures(metrics: Document) -> dict[str, float]:
    found: dict[str, float | None] = {
        "output_tok_per_s": number(at(metrics, "output_tokens_per_second", "successful", "mean")),
        "total_tok_per_s": number(at(metrics, "tokens_per_second", "successful", "mean")),
        "requests_per_s": number(at(metrics, "requests_per_second", "successful", "mean")),
    }
    for stem, (name, scale) in STEMS.items():
        summary = at(metrics, name, "successful")
        if whole(at(summary, "count")):
            values = {"": number(at(summary, "mean"))}
            values |= {f"_{key}": number(at(summary, "percentiles", key)) for key in PERCENTS}
            found |= {f"{stem}{key}_s": value * scale for key, value in values.items() if value is not None}
    return {name: value for name, value in found.items() if value is not None}


def _load(strategy: Document) -> str:
    kind = str(strategy.get("type_"))
    rate, streams = number(strategy.get("rate")), whole(strategy.get("streams"))
    return kind + (f" {rate:g}/s" if rate is not None else f" {streams}" if streams is not None else "")


def _total(metrics: Document, name: str) -> int | None:
    total = number(at(metrics, name, "successful", "total_sum"))
    return None if total is None else round(total)


def _sent(row: Document) -> str:
    """What one request said, without what the tool adds to each."""
    try:
        body = json.loads(str(row.get("request_args")))["body"]
        return json.dumps(body.get("messages") or body.get("prompt"), sort_keys=True)
    except (ValueError, KeyError, TypeError):
        return str(at(row, "input_metrics", "text_tokens"))


def write_guidellm(told: list[Told]) -> dict[str, Any]:
    """Windows as one report, which GuideLLM's own `export` reads."""
    return {
        "metadata": {"version": VERSION, "guidellm_version": "0.8.1", "python_version": "", "platform": "infra-agent"},
        "config": {
            "spec": {
                "backend": {"kind": "openai_http", "target": told[0].result.request.base_url if told else ""},
                "profile": {"kind": "synchronous"},
                "data": [{"kind": "in_memory_item_list", "data": []}],
            }
        },
        "benchmarks": [_benchmark(each) for each in told],
    }


def _benchmark(told: Told) -> dict[str, Any]:
    start_s = told.started_unix_s
    end_s = start_s + told.result.window.wall_s
    request = told.result.request
    strategy: dict[str, Any] = {"type_": "synchronous"}
    if isinstance(request.arrivals, Closed):
        strategy = {"type_": "concurrent", "streams": request.arrivals.concurrency}
    elif (rate := mean_rate_per_s(request.arrivals)) is not None:
        strategy = {"type_": "constant" if isinstance(request.arrivals, Constant) else "poisson", "rate": rate}
    times = ("start_time", "request_start_time", "measure_start_time")
    delays = (
        "queued_time_avg", "resolve_start_delay_avg", "resolve_targeted_start_delay_avg", "request_start_delay_avg",
        "request_targeted_start_delay_avg", "request_time_avg", "resolve_end_delay_avg", "resolve_time_avg",
        "finalized_delay_avg", "processed_delay_avg",
    )  # fmt: skip
    counts = _counts(told)
    return {
        "type_": "generative_benchmark",
        "config": {
            "run_id": str(uuid.uuid4()), "run_index": 0, "strategy": strategy, "constraints": {}, "profile": {},
            "requests": {}, "backend": {"target": request.base_url, "model": request.model}, "environment": {},
        },
        "scheduler_state": {},
        "scheduler_metrics": {
            **dict.fromkeys(times, start_s),
            **dict.fromkeys(("measure_end_time", "request_end_time", "end_time"), end_s),
            **dict.fromkeys(delays, 0.0),
            "requests_made": counts,
        },
        "metrics": _metrics(told, counts),
        "requests": {"successful": [], "incomplete": [], "errored": []},
        "start_time": start_s,
        "end_time": end_s,
        "duration": end_s - start_s,
    }  # fmt: skip


def _counts(told: Told) -> dict[str, int]:
    metrics = told.result.metrics
    return {
        "successful": metrics.successes, "errored": metrics.failures, "incomplete": 0,
        "total": metrics.successes + metrics.failures,
    }  # fmt: skip


def _metrics(told: Told, counts: dict[str, int]) -> dict[str, Any]:
    good = [record for record in told.result.records if record.ok]
    rates = told.result.metrics.rates
    values: dict[str, list[float | None]] = {
        "request_latency": [_span(r.sent_s, r.last_token_s) for r in good],
        "time_to_first_token_ms": [_span(r.sent_s, r.first_token_s, 1e3) for r in good],
        "time_to_first_output_token_ms": [_span(r.sent_s, r.first_answer_s, 1e3) for r in good],
        "time_per_output_token_ms": [
            1e3 * (r.last_token_s - r.sent_s) / r.output_tokens for r in good if r.last_token_s and r.output_tokens
        ],
        "inter_token_latency_ms": [1e3 * value for r in good if (value := tpot_s(r)) is not None],
        "prompt_token_count": [float(r.prompt_tokens or 0) for r in good],
        "output_token_count": [float(r.output_tokens or 0) for r in good],
        "total_token_count": [float((r.prompt_tokens or 0) + (r.output_tokens or 0)) for r in good],
        "request_streaming_iterations_count": [float(len(r.chunk_times_s)) for r in good],
    }
    speeds = {
        "requests_per_second": rates.get("requests_per_s"),
        "output_tokens_per_second": rates.get("output_tok_per_s"),
        "tokens_per_second": rates.get("total_tok_per_s"),
    }
    empty = (
        "request_concurrency", "time_to_last_round_trip_ms", "avg_round_trip_time_ms", "prompt_tokens_per_second",
        "output_tokens_per_iteration", "iter_tokens_per_iteration",
    )  # fmt: skip
    return {
        "request_totals": counts,
        **{name: _status([v for v in found if v is not None]) for name, found in values.items()},
        **{name: _status([] if value is None else [value]) for name, value in speeds.items()},
        **{name: _status([]) for name in empty},
        **{kind: _domain(kind) for kind in ("text", "image", "video", "audio", "tool_call")},
    }


def _span(start_s: float, end_s: float | None, scale: float = 1.0) -> float | None:
    return None if end_s is None else (end_s - start_s) * scale


def _status(values: list[float]) -> dict[str, Any]:
    """One figure by status: of the answers, of nothing, of nothing, and of all."""
    found, none = _summary(values), _summary([])
    return {"successful": found, "incomplete": none, "errored": none, "total": found}


def _summary(values: list[float]) -> dict[str, Any]:
    if not values:
        return {**_ZERO, "count": 0, "total_sum": 0.0, "percentiles": dict.fromkeys(_PERCENT_KEYS, 0.0)}
    ordered = sorted(values)
    mean = sum(ordered) / len(ordered)
    variance = sum((value - mean) ** 2 for value in ordered) / len(ordered)
    middle = nearest_rank(ordered, 50)
    return {
        "mean": mean, "median": middle, "mode": middle, "variance": variance, "std_dev": variance**0.5,
        "min": ordered[0], "max": ordered[-1], "count": len(ordered), "total_sum": sum(ordered),
        "percentiles": {key: nearest_rank(ordered, percent) for key, percent in _PERCENT_KEYS.items()},
    }  # fmt: skip


_DOMAINS = {
    "text": ("tokens", "words", "characters"),
    "image": ("tokens", "images", "pixels", "bytes"),
    "video": ("tokens", "frames", "seconds", "bytes"),
    "audio": ("tokens", "samples", "seconds", "bytes"),
    "tool_call": ("tokens", "count", "mixed_tokens"),
}


def _domain(kind: str) -> dict[str, Any]:
    sides = [f"{side}{what}" for side in ("input", "output", "total") for what in ("", "_per_second", "_concurrency")]
    return {unit: dict.fromkeys(sides) for unit in _DOMAINS[kind]}
