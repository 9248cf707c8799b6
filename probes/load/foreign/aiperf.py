"""AIPerf's `profile_export_aiperf.json` (schema 1.x).

Its `inter_token_latency` is (latency - TTFT) / (tokens - 1) of each request, our TPOT where chunks hold one token; its
`inter_chunk_latency` is our chunk gap. Covered: the summary file. Not covered: the per-record JSON lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from probes.load.arrivals import Closed, mean_rate_per_s
from probes.load.foreign.model import Document, ForeignRun, at, digest_of, number, whole
from probes.load.metrics import chunk_gaps_s, tpot_s
from probes.load.session import Told
from probes.load.summary import nearest_rank

PERCENTS = {"p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
STEMS = {
    "ttft": "time_to_first_token",
    "first_answer": "time_to_first_output_token",
    "tpot": "inter_token_latency",
    "chunk_gap": "inter_chunk_latency",
    "e2e": "request_latency",
}
RATES = {
    "output_tok_per_s": "output_token_throughput",
    "total_tok_per_s": "total_token_throughput",
    "requests_per_s": "request_throughput",
}
NOTES = (
    "tokens are counted by the tool's tokenizer unless --use-server-token-count was given",
    "plain percentiles leave failed requests out",
)


def is_aiperf(document: Document) -> bool:
    """An AIPerf summary."""
    return "aiperf_version" in document and "request_throughput" in document


def read_aiperf(document: Document, source: str) -> ForeignRun:
    """One summary."""
    completed = whole(at(document, "request_count", "avg"))
    errors = document.get("error_summary")
    failed = sum(whole(error.get("count")) or 0 for error in errors) if isinstance(errors, list) else None
    cancelled = document.get("was_cancelled") is True or document.get("is_complete") is False
    datasets = at(document, "input_config", "datasets")
    return ForeignRun(
        tool="aiperf",
        source=source,
        load=_load(at(document, "input_config") or {}),
        figures=_figures(document),
        started_unix_s=_date(document.get("start_time")),
        model=at(document, "input_config", "models", "items", 0, "name"),
        requests=completed + failed if completed is not None and failed is not None else None,
        completed=completed,
        failed=failed,
        input_tokens=whole(at(document, "total_isl", "avg")),
        output_tokens=whole(at(document, "total_osl", "avg")),
        prompts=digest_of(datasets) if datasets else None,
        prompts_by="the data set it names" if datasets else "",
        refused="the run was cancelled or did not complete" if cancelled else None,
        notes=NOTES,
    )


def write_aiperf(told: Told) -> dict[str, Any]:
    """One window as such a summary."""
    result = told.result
    good = [record for record in result.records if record.ok]
    ended = told.started_unix_s + result.window.wall_s
    errors: dict[str, int] = {}
    for record in result.records:
        if record.error is not None:
            errors[record.error] = errors.get(record.error, 0) + 1
    latencies = {
        "time_to_first_token": [r.first_token_s - r.sent_s for r in good if r.first_token_s is not None],
        "time_to_first_output_token": [r.first_answer_s - r.sent_s for r in good if r.first_answer_s is not None],
        "inter_token_latency": [v for r in good if (v := tpot_s(r)) is not None],
        "inter_chunk_latency": chunk_gaps_s(good),
        "request_latency": [r.last_token_s - r.sent_s for r in good if r.last_token_s is not None],
    }
    if "tpot_s" in result.metrics.withheld:
        latencies["inter_token_latency"] = []
    rates = {theirs: result.metrics.rates.get(ours) for ours, theirs in RATES.items()}
    units = {"request_throughput": "requests/sec"}
    output = [record.output_tokens or 0 for record in good]
    prompts = [record.prompt_tokens or 0 for record in good]
    return {
        "schema_version": "1.4",
        "aiperf_version": "infra-agent",
        **{name: {"unit": units.get(name, "tokens/sec"), "avg": value} for name, value in rates.items()},
        "request_count": {"unit": "requests", "avg": float(len(good))},
        **{name: _block("ms", [value * 1e3 for value in values]) for name, values in latencies.items() if values},
        "output_sequence_length": _block("tokens", [float(count) for count in output]),
        "input_sequence_length": _block("tokens", [float(count) for count in prompts]),
        "total_isl": {"unit": "tokens", "avg": float(sum(prompts))},
        "total_osl": {"unit": "tokens", "avg": float(sum(output))},
        "benchmark_duration": {"unit": "sec", "avg": result.metrics.window_s},
        "input_config": _input_config(told),
        "was_cancelled": result.window.cut is not None,
        "is_complete": result.window.cut is None,
        "error_summary": [{"error_details": {"message": text}, "count": count} for text, count in errors.items()],
        "start_time": _iso(told.started_unix_s),
        "end_time": _iso(ended),
    }


def _figures(document: Document) -> dict[str, float]:
    found: dict[str, float | None] = {name: number(at(document, key, "avg")) for name, key in RATES.items()}
    for stem, key in STEMS.items():
        values = {"": number(at(document, key, "avg"))}
        values |= {f"_{percent}": number(at(document, key, percent)) for percent in PERCENTS}
        found |= {f"{stem}{name}_s": value * 1e-3 for name, value in values.items() if value is not None}
    return {name: value for name, value in found.items() if value is not None}


def _load(config: Document) -> str:
    phases = config.get("phases")
    named = [phase for phase in phases if at(phase, "name") == "profiling"] if isinstance(phases, list) else []
    profile = named[0] if named else {}
    rate = number(at(profile, "rate")) or number(at(config, "loadgen", "request_rate"))
    users = whole(at(profile, "concurrency")) or whole(at(config, "loadgen", "concurrency"))
    parts = [f"{rate:g}/s" if rate is not None else "as fast as possible"]
    return ", ".join(parts + ([f"at most {users} at once"] if users is not None else []))


def _input_config(told: Told) -> dict[str, Any]:
    request = told.result.request
    arrivals = request.arrivals
    phase: dict[str, Any] = {"name": "profiling", "requests": request.requests}
    if isinstance(arrivals, Closed):
        phase |= {"type": "concurrency", "concurrency": arrivals.concurrency}
    elif (rate := mean_rate_per_s(arrivals)) is not None:
        phase |= {"type": type(arrivals).__name__.lower(), "rate": rate}
    sha = told.observation.detail["workload_sha256"]
    return {
        "models": {"items": [{"name": request.model}]},
        "endpoint": {"urls": [request.base_url], "type": request.endpoint, "streaming": request.stream},
        "datasets": [{"name": "main", "type": "file", "sha256": sha}],
        "phases": [phase],
    }


def _block(unit: str, values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"unit": unit, "avg": None}
    ordered = sorted(values)
    mean = sum(ordered) / len(ordered)
    spread = (sum((value - mean) ** 2 for value in ordered) / len(ordered)) ** 0.5
    percents = {f"p{p}": nearest_rank(ordered, p) for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    edges = {"min": ordered[0], "max": ordered[-1], "std": spread, "count": len(ordered), "sum": sum(ordered)}
    return {"unit": unit, "avg": mean, **percents, **edges}


def _date(text: Any) -> float | None:
    """Its stamps carry no zone: they are this machine's local time, so only their order and distance mean anything."""
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _iso(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).replace(tzinfo=None).isoformat()
