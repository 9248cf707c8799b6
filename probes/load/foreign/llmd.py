"""llm-d's `benchmark_report`, the 0.2 line of its schema, as JSON.

Every figure carries its unit there, and is read by it. Covered: the aggregate of one report, written and read; the
validator of `llmd-benchmark-report` accepts what is written. Not covered: its time series, the 0.1 line, YAML.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from probes.load.arrivals import Closed, describe, mean_rate_per_s
from probes.load.document import load_document
from probes.load.foreign.model import Document, ForeignRun, at, number, whole
from probes.load.metrics import chunk_gaps_s, tpot_s
from probes.load.session import Told
from probes.load.summary import nearest_rank

VERSION = "0.2.1"
SECONDS = {"s": 1.0, "ms": 1e-3, "s/token": 1.0, "ms/token": 1e-3}
PERCENTS = {"p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "chunk_gap": "inter_token_latency",
    "e2e": "request_latency",
}
RATES = {
    "output_tok_per_s": "output_token_rate",
    "total_tok_per_s": "total_token_rate",
    "requests_per_s": "request_rate",
}
NOTES = ("what a figure means depends on the tool that the report names", "inter-token latency is read as chunk gap")


def is_llmd(document: Document) -> bool:
    """A benchmark report of the 0.2 line."""
    return str(document.get("version", "")).startswith("0.2") and {"run", "results"} <= document.keys()


def read_llmd(document: Document, source: str) -> ForeignRun:
    """One report."""
    aggregate = at(document, "results", "request_performance", "aggregate") or {}
    load = at(document, "scenario", "load", "standardized") or {}
    total, failed = whole(at(aggregate, "requests", "total")), whole(at(aggregate, "requests", "failures"))
    completed = total - failed if total is not None and failed is not None else None
    tool = load.get("tool")
    sha = at(document, "scenario", "load", "metadata", "cfg_id")
    return ForeignRun(
        tool=str(tool) if tool else "benchmark_report",
        source=source,
        load=_load(load),
        figures=_figures(aggregate),
        started_unix_s=_unix(at(document, "run", "time", "start")),
        model=at(document, "scenario", "load", "native", "config", "model"),
        requests=total,
        completed=completed,
        failed=failed,
        input_tokens=_tokens(aggregate, "input_length", completed),
        output_tokens=_tokens(aggregate, "output_length", completed),
        prompts=sha if isinstance(sha, str) else None,
        prompts_by="the workload's configuration id" if isinstance(sha, str) else "",
        notes=NOTES,
    )


def write_llmd(told: Told) -> dict[str, Any]:
    """One window as a report."""
    result = told.result
    good = [record for record in result.records if record.ok]
    prompts = [float(record.prompt_tokens or 0) for record in good]
    output = [float(record.output_tokens or 0) for record in good]
    latency = {
        "time_to_first_token": ("s", [r.first_token_s - r.sent_s for r in good if r.first_token_s is not None]),
        "time_per_output_token": ("s/token", [v for r in good if (v := tpot_s(r)) is not None]),
        "inter_token_latency": ("s/token", chunk_gaps_s(good)),
        "request_latency": ("s", [r.last_token_s - r.sent_s for r in good if r.last_token_s is not None]),
    }
    if "tpot_s" in result.metrics.withheld:
        latency["time_per_output_token"] = ("s/token", [])
    return {
        "version": VERSION,
        "run": {
            "uid": str(uuid.uuid4()),
            "time": {"start": _iso(told.started_unix_s), "end": _iso(told.started_unix_s + result.window.wall_s)},
        },
        "scenario": {"load": _scenario(told, prompts)},
        "results": {
            "request_performance": {
                "aggregate": {
                    "requests": {
                        "total": len(result.records),
                        "failures": result.metrics.failures,
                        **_present({
                            "input_length": _statistics("count", prompts),
                            "output_length": _statistics("count", output),
                        }),
                    },
                    "latency": _present({name: _statistics(unit, values) for name, (unit, values) in latency.items()}),
                    "throughput": _throughput(told),
                }
            }
        },
    }  # fmt: skip


def _scenario(told: Told, prompts: Sequence[float]) -> dict[str, Any]:
    request = told.result.request
    arrivals = request.arrivals
    rate = mean_rate_per_s(arrivals)
    lengths = {"min": int(min(prompts)), "max": int(max(prompts))} if prompts and max(prompts) >= 1 else {}
    return {
        "metadata": {
            "cfg_id": told.observation.detail["workload_sha256"],
            "description": f"{describe(arrivals)}, seed {request.seed}",
        },
        "standardized": {
            "tool": "infra-agent",
            "tool_version": "probes.load",
            "parallelism": request.processes,
            "source": "random" if request.prompt(0).tokens is not None else "sampled",
            "input_seq_len": {
                "distribution": "other",
                "value": sum(prompts) / len(prompts) if prompts else 0,
                **lengths,
            },
            **({"rate_qps": rate} if rate is not None else {}),
            **({"concurrency": arrivals.concurrency} if isinstance(arrivals, Closed) else {}),
        },
        "native": {"config": load_document(request)},
    }


def _throughput(told: Told) -> dict[str, Any]:
    rates = told.result.metrics.rates
    units = {"output_tok_per_s": "tokens/s", "total_tok_per_s": "tokens/s", "requests_per_s": "queries/s"}
    return {theirs: {"units": units[ours], "mean": rates[ours]} for ours, theirs in RATES.items() if ours in rates}


def _figures(aggregate: Document) -> dict[str, float]:
    found: dict[str, float | None] = {
        ours: number(at(aggregate, "throughput", theirs, "mean")) for ours, theirs in RATES.items()
    }
    for stem, key in LATENCIES.items():
        block = at(aggregate, "latency", key)
        scale = SECONDS.get(str(at(block, "units")))
        if scale is not None:
            values = {"": number(at(block, "mean"))} | {f"_{p}": number(at(block, p)) for p in PERCENTS}
            found |= {f"{stem}{name}_s": value * scale for name, value in values.items() if value is not None}
    return {name: value for name, value in found.items() if value is not None}


def _load(load: Document) -> str:
    rate, users = number(load.get("rate_qps")), whole(load.get("concurrency"))
    parts = [f"{rate:g}/s"] if rate is not None else []
    return ", ".join(parts + ([f"at most {users} at once"] if users is not None else [])) or "unknown"


def _tokens(aggregate: Document, name: str, completed: int | None) -> int | None:
    mean = number(at(aggregate, "requests", name, "mean"))
    return round(mean * completed) if mean is not None and completed is not None else None


def _statistics(unit: str, values: Sequence[float]) -> dict[str, Any] | None:
    if not values:
        return None
    ordered = sorted(values)
    mean = sum(ordered) / len(ordered)
    spread = (sum((value - mean) ** 2 for value in ordered) / len(ordered)) ** 0.5
    percents = {name: nearest_rank(ordered, percent) for name, percent in PERCENTS.items()}
    return {"units": unit, "mean": mean, "stddev": spread, "min": ordered[0], **percents, "max": ordered[-1]}


def _present(blocks: dict[str, dict[str, Any] | None]) -> dict[str, Any]:
    return {name: block for name, block in blocks.items() if block is not None}


def _iso(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat()


def _unix(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
