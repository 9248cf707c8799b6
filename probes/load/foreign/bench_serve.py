"""`vllm bench serve` and SGLang's `benchmark.serving`: two tools of one family, with nearly the same keys.

Covered: plain and detailed results, JSON and JSON lines. Not covered: sweeps' summary tables.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from probes.load.arrivals import Closed, Gamma, mean_rate_per_s
from probes.load.foreign.model import Document, ForeignRun, collect, digest_of, latency_names, number, whole
from probes.load.metrics import LoadMetrics, tpot_s
from probes.load.session import Told
from probes.load.summary import nearest_rank
from probes.load.types import LoadResult

PERCENTILES = {"p50": "median", "p75": "p75", "p90": "p90", "p95": "p95", "p99": "p99"}
VLLM_TO_OURS = {
    **latency_names("ttft", "{}_ttft_ms", PERCENTILES),
    **latency_names("tpot", "{}_tpot_ms", PERCENTILES),
    **latency_names("chunk_gap", "{}_itl_ms", PERCENTILES),
    **latency_names("e2e", "{}_e2el_ms", PERCENTILES),
}
SGLANG_TO_OURS = {**VLLM_TO_OURS, **latency_names("e2e", "{}_e2e_latency_ms", PERCENTILES)}
RATES = {"output_tok_per_s": "output_throughput", "requests_per_s": "request_throughput"}
VLLM_NOTES = (
    "TTFT and E2E count from the send, after the client's own queue",
    "percentiles leave failed requests out",
    "the ITL of this tool is one sample per chunk: read as chunk gap",
)
SGLANG_NOTES = (
    "TTFT includes opening a connection for each request",
    "the duration ends after /server_info was read",
    "on the completions endpoint output tokens are the requested number",
    *VLLM_NOTES[1:],
)


def is_vllm(document: Document) -> bool:
    """A result of `vllm bench serve`."""
    return "total_token_throughput" in document and "request_throughput" in document


def is_sglang(document: Document) -> bool:
    """A result of SGLang's `benchmark.serving`."""
    return "total_throughput" in document and "request_throughput" in document


def read_vllm(document: Document, source: str) -> ForeignRun:
    """One result."""
    requests, completed = whole(document.get("num_prompts")), whole(document.get("completed"))
    failed = whole(document.get("failed"))
    if failed is None and requests is not None and completed is not None:
        failed = requests - completed
    began = _date(document.get("date"))
    duration = number(document.get("duration"))
    model = document.get("model_id")
    return ForeignRun(
        tool="vllm bench serve",
        source=source,
        load=_load(document),
        figures={
            **collect(document, VLLM_TO_OURS, 1e-3),
            **collect(document, {**RATES, "total_tok_per_s": "total_token_throughput"}),
        },
        # The date is taken when the result is written, after the run.
        started_unix_s=began - duration if began is not None and duration is not None else began,
        model=model if isinstance(model, str) else None,
        requests=requests,
        completed=completed,
        failed=failed,
        input_tokens=whole(document.get("total_input_tokens")),
        output_tokens=whole(document.get("total_output_tokens")),
        notes=VLLM_NOTES,
        **_prompts(document),
    )


def read_sglang(document: Document, source: str) -> ForeignRun:
    """One line. It tells neither when it was made nor, without details, how many requests failed."""
    errors = document.get("errors")
    failed = sum(bool(error) for error in errors) if isinstance(errors, list) else None
    completed = whole(document.get("completed"))
    model = document.get("server_info")
    name = model.get("model_path") if isinstance(model, dict) else None
    return ForeignRun(
        tool="sglang benchmark.serving",
        source=source,
        load=_load(document),
        figures={
            **collect(document, SGLANG_TO_OURS, 1e-3),
            **collect(document, {**RATES, "total_tok_per_s": "total_throughput"}),
        },
        model=name if isinstance(name, str) else None,
        requests=len(errors) if isinstance(errors, list) else None,
        completed=completed,
        failed=failed,
        input_tokens=whole(document.get("total_input_tokens")),
        output_tokens=whole(document.get("total_output_tokens")),
        notes=SGLANG_NOTES,
        **_prompts(document),
    )


def write_vllm(told: Told) -> dict[str, Any]:
    """One window as `vllm bench serve --save-result --save-detailed` writes it."""
    result, metrics = told.result, told.result.metrics
    ended = datetime.fromtimestamp(told.started_unix_s + told.result.window.wall_s, UTC)
    good = [record for record in result.records if record.ok]
    return {
        "date": ended.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": "openai-chat" if result.request.endpoint == "chat" else "openai",
        "backend": "openai-chat" if result.request.endpoint == "chat" else "openai",
        "label": "infra-agent",
        "model_id": result.request.model,
        "tokenizer_id": None,
        "num_prompts": len(result.records),
        **_asked(result),
        "duration": metrics.window_s,
        "completed": metrics.successes,
        "failed": metrics.failures,
        **_totals(result),
        "total_token_throughput": metrics.rates.get("total_tok_per_s"),
        "input_lens": [record.prompt_tokens or 0 for record in result.records],
        "output_lens": [record.output_tokens or 0 for record in result.records],
        "ttfts": [_span(record.sent_s, record.first_token_s) for record in result.records],
        "itls": [_gaps(record.chunk_times_s) for record in result.records],
        "start_times": [result.window.zero_s + record.sent_s for record in result.records],
        "errors": [record.error or "" for record in result.records],
        **_statistics("ttft", [_span(r.sent_s, r.first_token_s) for r in good if r.first_token_s is not None]),
        **_statistics("tpot", [v for r in good if (v := tpot_s(r)) is not None], metrics, "tpot_s"),
        **_statistics("itl", [gap for record in good for gap in _gaps(record.chunk_times_s)]),
        **_statistics("e2el", [_span(r.sent_s, r.last_token_s) for r in good if r.last_token_s is not None]),
    }


def write_sglang(told: Told) -> dict[str, Any]:
    """One window as a line of SGLang's `--output-details` file."""
    document = write_vllm(told)
    dropped = ("date", "endpoint_type", "label", "model_id", "tokenizer_id", "num_prompts", "failed", "start_times")
    renamed = {key.replace("_e2el_", "_e2e_latency_"): value for key, value in document.items() if key not in dropped}
    request = told.result.request
    renamed["total_throughput"] = renamed.pop("total_token_throughput")
    renamed["server_info"] = {"model_path": request.model}
    renamed["backend"] = "sglang-oai-chat" if request.endpoint == "chat" else "sglang-oai"
    return renamed


def _load(document: Document) -> str:
    rate, users = document.get("request_rate"), whole(document.get("max_concurrency"))
    shape = number(document.get("burstiness"))
    parts = [f"at most {users} at once"] if users is not None else []
    if number(rate) is not None:
        parts.insert(0, f"{number(rate):g}/s")
        parts += [f"burstiness {shape:g}"] if shape not in (None, 1.0) else []
    else:
        parts.insert(0, "as fast as possible" if rate in ("inf", None, float("inf")) else str(rate))
    return ", ".join(parts)


def _prompts(document: Document) -> dict[str, Any]:
    lengths = document.get("input_lens")
    if isinstance(lengths, list) and lengths:
        return {"prompts": digest_of(lengths), "prompts_by": "the list of prompt lengths"}
    return {}


def _date(text: Any) -> float | None:
    try:
        return datetime.strptime(str(text), "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _asked(result: LoadResult) -> dict[str, Any]:
    arrivals = result.request.arrivals
    rate = mean_rate_per_s(arrivals)
    return {
        "request_rate": "inf" if rate is None else rate,
        "burstiness": arrivals.shape if isinstance(arrivals, Gamma) else 1.0,
        "max_concurrency": arrivals.concurrency if isinstance(arrivals, Closed) else None,
    }


def _totals(result: LoadResult) -> dict[str, Any]:
    good = [record for record in result.records if record.ok]
    metrics = result.metrics
    return {
        "total_input_tokens": sum(record.prompt_tokens or 0 for record in good),
        "total_output_tokens": sum(record.output_tokens or 0 for record in good),
        "request_throughput": metrics.rates.get("requests_per_s"),
        "output_throughput": metrics.rates.get("output_tok_per_s"),
    }


def _statistics(
    name: str, values_s: Sequence[float], metrics: LoadMetrics | None = None, ours: str = ""
) -> dict[str, float]:
    """The tool's names of one latency; nothing where we withhold it."""
    if not values_s or (metrics is not None and ours in metrics.withheld):
        return {}
    ordered = sorted(value * 1e3 for value in values_s)
    found = {f"mean_{name}_ms": statistics.fmean(ordered), f"median_{name}_ms": statistics.median(ordered)}
    found[f"std_{name}_ms"] = statistics.pstdev(ordered)
    return found | {f"p{percent}_{name}_ms": nearest_rank(ordered, percent) for percent in (90, 95, 99)}


def _span(start_s: float, end_s: float | None) -> float:
    return 0.0 if end_s is None else end_s - start_s


def _gaps(times_s: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in zip(times_s, times_s[1:], strict=False)]
