"""Lines of engine logs that mean something for speed. What a line advises is a hypothesis to test, never a fact.

A log says what its engine believes. On one machine vLLM's advice to preload tcmalloc and libiomp cost a third of the
throughput, so each rule names the experiment that decides, and no rule concludes.
Covered: vLLM, SGLang, llama.cpp, transformers, PyTorch. Not covered: lines in other languages; they are kept as not
understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from probes.events.limits import Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of line. `limit`: the binding limit that it would speak for, if it is true."""

    name: str
    regex: re.Pattern[str]
    means: str
    experiment: str
    limit: Limit | None = None


def _rule(name: str, regex: str, means: str, experiment: str, limit: Limit | None = None) -> Rule:
    return Rule(name=name, regex=re.compile(regex, re.IGNORECASE), means=means, experiment=experiment, limit=limit)


RULES: tuple[Rule, ...] = (
    _rule(
        "preempted", r"\bis preempted by|preempt(?:ed|ion).{0,60}(?:KV|cache|blocks)|not enough KV cache space",
        "requests are thrown out of the batch for want of KV cache", "give the KV cache more memory; preemptions stop",
        "KV capacity",
    ),
    _rule(
        "retracted", r"Retract requests|Decode out of memory happened|KV cache pool is full",
        "requests are taken back for want of KV cache",
        "give the KV cache more memory; retractions stop", "KV capacity",
    ),
    _rule(
        "kv blocks exhausted",
        r"No available blocks|failed to find (?:free|a) (?:space|slot)|failed to prepare attention ubatches",
        "no KV block was free", "give the KV cache more blocks; the line no longer appears", "KV capacity",
    ),
    _rule(
        "sequences exceed cache", r"Maximum concurrency for [\d,]+ tokens per request",
        "how many full-length requests the KV cache holds", "compare with the requests in flight", "KV capacity",
    ),
    _rule(
        "recompilation",
        r"torch\._dynamo.{0,80}(?:Recompil|hit config\.(?:recompile|cache_size)_limit)|Recompiling function",
        "a graph was compiled again while serving", "fix the varying shape or mark it dynamic; compilations stop",
        "launch overhead",
    ),
    _rule(
        "compiling", r"Compiling a graph for|torch\.compile takes|Start compiling function|Compiling model",
        "a graph was compiled", "exclude the first window, then look for this line again", "launch overhead",
    ),
    _rule(
        "graphs off",
        r"Cudagraph is disabled|enforce_eager['\"]?\s*[=:]\s*True|--enforce-eager"
        r"|turning off accelerator graphs|cuda graph: False|Disable cuda graph",
        "steps are launched kernel by kernel", "allow recorded graphs; the gaps between kernels vanish in a trace",
        "launch overhead",
    ),
    _rule(
        "graph capture", r"Capturing (?:CUDA|cuda) graph|Graph capturing finished",
        "graphs were recorded", "exclude the time of recording from the window", None,
    ),
    _rule(
        "token budget", r"max_num_batched_tokens \(?\d+\)? is smaller|chunked prefill.{0,40}max_num_batched_tokens",
        "prompts are cut to the token budget of a step", "double the budget; time to first token falls", "token budget",
    ),
    _rule(
        "allocator advice", r"tcmalloc|libiomp|jemalloc|LD_PRELOAD",
        "the engine advises another allocator or OpenMP library", "one launch with it, one without, same load", None,
    ),
    _rule(
        "thread binding", r"OMP_THREADS_BIND|reserve[sd]? .{0,30}(?:core|cpu)|auto thread-binding|OMP tid",
        "threads are bound to some of the cores", "bind to all cores, same load", None,
    ),
    _rule(
        "default kernel config", r"Using default (?:MoE|W8A8|FP8)?.{0,20}config|Performance might be sub-optimal",
        "no tuned kernel configuration exists for this device",
        "tune it or set another; compare the kernel alone", None,
    ),
    _rule(
        "attention replaced", r"Falling back to|fallback (?:to|for)|is not supported.{0,60}(?:using|use|switch)",
        "something else runs than was asked for", "read the effective setting; do not time what is not in effect", None,
    ),
    _rule(
        "memory", r"out of memory|OutOfMemoryError|Cannot allocate memory|can't allocate memory",
        "memory ran out", "lower the share for the KV cache or the batch", None,
    ),
    _rule(
        "queue full", r"queue (?:is )?full|Too many requests|max(?:imum)? queue(?:d)? (?:size|length)",
        "requests are turned away at the door", "raise the queue limit or lower the rate; rejections stop",
        "admission cap",
    ),
    _rule(
        "slots busy", r"no slot available|all slots are (?:busy|in use)|deferring task|no available slot",
        "all slots are taken", "start with twice as many slots", "admission cap",
    ),
    _rule(
        "context forced", r"the slot context size|context shift|failed to fit params|erased.{0,20}cache",
        "the context of a slot is too small", "raise the context per slot", "KV capacity",
    ),
    _rule(
        "prefix caching off",
        r"prefix caching (?:is )?(?:disabled|off)|enable_prefix_caching=False|disable_radix_cache=True",
        "repeated prompts are computed again", "turn prefix caching on; the hit counter rises", "cache miss",
    ),
    _rule(
        "custom all-reduce off",
        r"Custom allreduce is disabled|NCCL.{0,40}(?:timeout|WARN)|P2P is (?:disabled|not supported)",
        "ranks exchange data on a slower way", "trace one step: share of communication that nothing hides",
        "communication",
    ),
    _rule(
        "event loop late", r"event loop.{0,40}(?:slow|blocked|lag)|Executing <Task.{0,200}took [\d.]+ seconds",
        "the front end's event loop was blocked", "give the front end a process of its own", "front-end CPU",
    ),
)  # fmt: skip

LEVEL = re.compile(
    r"\b(WARN(?:ING)?|ERROR|CRITICAL|FATAL|ADVERTENCIA|AVERTISSEMENT|WARNUNG|FEHLER)\b|警告|错误|錯誤|エラー|경고|오류"
)
"""Marks of a line that its engine meant to stand out, in the languages that logs come in."""

VLLM_STATS = re.compile(
    r"Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s.*?generation throughput: (?P<output>[\d.]+) tokens/s"
    r".*?Running: (?P<running>\d+) reqs?.*?Waiting: (?P<waiting>\d+) reqs?.*?KV cache usage: (?P<kv>[\d.]+)%"
)
SGLANG_STATS = re.compile(
    r"Decode batch.*?#running-req: (?P<running>\d+).*?token usage: (?P<kv>[\d.]+).*?#queue-req: (?P<waiting>\d+)"
)
