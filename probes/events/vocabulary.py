"""What each engine calls the things that a diagnosis needs, and how far each of them can be trusted.

`exact`: the engine counts it. `derived`: follows from what it counts. `approximate`: a stand-in that can mislead (a
gauge overwritten per batch, a mean since start-up). `absent`: this engine does not tell.
Covered: vLLM (0.6 to 0.33), SGLang (0.4 to 0.5), llama.cpp's server, transformers serve. Not covered: others; their
pages are read and named as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from probes.events.prometheus import Page

Quality = Literal["exact", "derived", "approximate", "absent"]
Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Where an engine tells a fact. `names`: tried in order, older spellings last."""

    names: tuple[str, ...]
    kind: Kind
    quality: Quality = "exact"
    across: Literal["sum", "max"] = "sum"
    """How several engines or ranks behind one page are joined."""


def _gauge(*names: str, quality: Quality = "exact", across: Literal["sum", "max"] = "sum") -> Metric:
    return Metric(names=names, kind="gauge", quality=quality, across=across)


def _counter(*names: str, quality: Quality = "exact") -> Metric:
    return Metric(names=names, kind="counter", quality=quality)


def _histogram(*names: str) -> Metric:
    return Metric(names=names, kind="histogram")


FACTS: Mapping[str, str] = {
    "running": "requests being served",
    "waiting": "requests waiting in the scheduler",
    "kv_used": "share of the KV cache in use",
    "preemptions": "requests thrown out of the batch",
    "rejections": "requests turned away",
    "prompt_tokens": "prompt tokens",
    "generation_tokens": "output tokens",
    "prefix_queries": "prompt tokens looked up in the prefix cache",
    "prefix_hits": "prompt tokens that the prefix cache had",
    "finished": "requests that ended",
    "steps": "engine steps",
    "iteration_tokens": "tokens per engine step",
    "queue_s": "time in the scheduler's queue",
    "prefill_s": "time in prefill",
    "decode_s": "time in decode",
    "ttft_s": "time to first token",
    "itl_s": "time between tokens",
    "prefill_busy_s": "engine time spent on prompts",
    "decode_busy_s": "engine time spent on output tokens",
    "idle_s": "time in which the scheduler had nothing to do",
    "frontend_cpu_s": "CPU time of the process that answers HTTP",
    "graph_used": "whether the last batch ran as a recorded graph",
    "compilations": "compilations while serving",
}
"""Every fact that a diagnosis may use, in words."""

ENGINES: Mapping[str, Mapping[str, Metric]] = {
    "vllm": {
        "running": _gauge("vllm:num_requests_running"),
        "waiting": _gauge("vllm:num_requests_waiting"),
        "kv_used": _gauge("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", across="max"),
        "preemptions": _counter("vllm:num_preemptions_total"),
        "rejections": _counter("vllm:admission_rejections_total"),
        "prompt_tokens": _counter("vllm:prompt_tokens_total"),
        "generation_tokens": _counter("vllm:generation_tokens_total"),
        "prefix_queries": _counter("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
        "prefix_hits": _counter("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        "finished": _counter("vllm:request_success_total"),
        "iteration_tokens": _histogram("vllm:iteration_tokens_total"),
        "queue_s": _histogram("vllm:request_queue_time_seconds"),
        "prefill_s": _histogram("vllm:request_prefill_time_seconds"),
        "decode_s": _histogram("vllm:request_decode_time_seconds"),
        "ttft_s": _histogram("vllm:time_to_first_token_seconds"),
        "itl_s": _histogram("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        "frontend_cpu_s": _counter("process_cpu_seconds_total"),
    },
    "sglang": {
        "running": _gauge("sglang:num_running_reqs"),
        "waiting": _gauge("sglang:num_queue_reqs"),
        "kv_used": _gauge("sglang:token_usage", across="max"),
        "preemptions": _counter("sglang:num_retracted_requests_total", "sglang:num_retracted_input_tokens_total"),
        "rejections": _counter("sglang:num_aborted_requests_total", quality="approximate"),
        "prompt_tokens": _counter("sglang:prompt_tokens_total"),
        "generation_tokens": _counter("sglang:generation_tokens_total"),
        "prefix_queries": _counter("sglang:prompt_tokens_total"),
        "prefix_hits": _counter("sglang:cached_tokens_total"),
        "finished": _counter("sglang:num_requests_total"),
        "queue_s": _histogram("sglang:queue_time_seconds"),
        "ttft_s": _histogram("sglang:time_to_first_token_seconds"),
        "itl_s": _histogram("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        "idle_s": _counter("sglang:scheduler_idle_seconds_total"),
        "graph_used": _gauge("sglang:is_cuda_graph", quality="approximate", across="max"),
    },
    "llama.cpp": {
        "running": _gauge("llamacpp:requests_processing"),
        "waiting": _gauge("llamacpp:requests_deferred"),
        "kv_used": _gauge("llamacpp:kv_cache_usage_ratio", across="max"),
        "prompt_tokens": _counter("llamacpp:prompt_tokens_total"),
        "generation_tokens": _counter("llamacpp:tokens_predicted_total"),
        "steps": _counter("llamacpp:n_decode_total"),
        "prefill_busy_s": _counter("llamacpp:prompt_seconds_total"),
        "decode_busy_s": _counter("llamacpp:tokens_predicted_seconds_total", quality="approximate"),
    },
    "transformers": {},
}
"""What each engine tells on its page. `transformers serve` 5.19 has none."""

PREFIX_OF: Mapping[str, str] = {"vllm": "vllm:", "sglang": "sglang:", "llama.cpp": "llamacpp:"}


def engine_of(page: Page) -> str | None:
    """The engine whose names the page uses most; None for a page of nobody we know."""
    counts = {engine: sum(name.startswith(prefix) for name in page.names()) for engine, prefix in PREFIX_OF.items()}
    best = max(counts, key=lambda engine: counts[engine])
    return best if counts[best] else None
