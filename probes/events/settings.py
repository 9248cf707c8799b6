"""The limits that a server runs with: read from its command line, its log, its page, or told by the user.

A diagnosis of caps needs the caps. Values are read and nothing else is kept: a command line may hold secrets.
Covered: vLLM, SGLang, llama.cpp's server, transformers serve: running requests, tokens per step, ranks, graphs,
prefix caching. Not covered: limits set through files or environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from probes.events.prometheus import Page
from probes.events.signals import Signal

NUMBERS = ("max_running", "token_budget", "world_size")
FLAGS: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "--max-num-seqs": "max_running", "--max-num-active-seqs": "max_running",
        "--max-num-batched-tokens": "token_budget", "--max-num-scheduled-tokens": "token_budget",
        "--tensor-parallel-size": "world_size", "-tp": "world_size",
        "--pipeline-parallel-size": "world_size", "-pp": "world_size",
        "--enforce-eager": "graphs_off", "--no-enable-prefix-caching": "prefix_caching_off",
    },
    "sglang": {
        "--max-running-requests": "max_running", "--chunked-prefill-size": "token_budget",
        "--tensor-parallel-size": "world_size", "--tp-size": "world_size", "--tp": "world_size",
        "--disable-cuda-graph": "graphs_off", "--disable-radix-cache": "prefix_caching_off",
    },
    "llama.cpp": {
        "--parallel": "max_running", "-np": "max_running", "--batch-size": "token_budget", "-b": "token_budget",
    },
    "transformers": {"--cb-max-batch-tokens": "token_budget", "--max-requests-per-batch": "max_running"},
}  # fmt: skip
LOGGED: Mapping[str, str] = {
    "max_num_seqs": "max_running", "max_num_active_seqs": "max_running", "max_running_requests": "max_running",
    "n_parallel": "max_running", "n_slots": "max_running", "max_num_batched_tokens": "token_budget",
    "chunked_prefill_size": "token_budget", "n_batch": "token_budget", "max_batch_tokens": "token_budget",
    "tensor_parallel_size": "world_size", "tp_size": "world_size",
}  # fmt: skip
_LOGGED = re.compile(rf"\b({'|'.join(LOGGED)})['\"]?\s*[=:]\s*(\d+)\b")
_ENGINES = (
    ("vllm", re.compile(r"vllm")),
    ("sglang", re.compile(r"sglang")),
    ("llama.cpp", re.compile(r"llama[-_.]?(?:cpp|server)")),
    ("transformers", re.compile(r"transformers")),
)


def engine_of_command(args: Sequence[str]) -> str | None:
    """The engine that a command line starts; None for one that we do not know."""
    head = " ".join(args[:6]).lower()
    return next((name for name, pattern in _ENGINES if pattern.search(head)), None)


def from_command(engine: str, args: Sequence[str]) -> list[Signal]:
    """Limits on a command line. `transformers serve` without batching serves one request at a time."""
    known = FLAGS.get(engine, {})
    found: list[Signal] = []
    for index, word in enumerate(args):
        flag, _, inline = word.partition("=")
        name = known.get(flag.replace("_", "-") if flag.startswith("--") else flag)
        if name is None:
            continue
        value = inline or (args[index + 1] if index + 1 < len(args) else "")
        if name not in NUMBERS:
            found.append(_signal(name, True, flag, "the server's command line"))
        elif value.isdigit():
            found.append(_signal(name, float(value), flag, "the server's command line"))
    found = _ranks(found)
    if engine == "transformers" and "serve" in args and "--continuous-batching" not in args:
        found.append(_signal("max_running", 1.0, "no --continuous-batching", "the server's command line"))
    return found


def _ranks(found: list[Signal]) -> list[Signal]:
    """Ranks of several kinds multiply."""
    sizes = [float(signal.value) for signal in found if signal.name == "world_size" and signal.value is not None]
    rest = [signal for signal in found if signal.name != "world_size"]
    product = 1.0
    for size in sizes:
        product *= size
    return [*rest, _signal("world_size", product, "ranks", "the server's command line")] if sizes else rest


def from_log(lines: Iterable[tuple[int, str]]) -> list[Signal]:
    """Limits that an engine printed of itself; the last word counts."""
    found: dict[str, Signal] = {}
    for number, line in lines:
        for match in _LOGGED.finditer(line):
            name = LOGGED[match[1]]
            found[name] = _signal(name, float(match[2]), match[1], f"log line {number}")
    return list(found.values())


def from_page(page: Page | None) -> list[Signal]:
    """What vLLM's page says of its cache in labels."""
    if page is None:
        return []
    found = []
    for series in page.values:
        if series.name == "vllm:cache_config_info" and series.label("enable_prefix_caching") == "False":
            found.append(_signal("prefix_caching_off", True, "enable_prefix_caching", series.name))
    return found


def from_user(words: Iterable[str]) -> list[Signal]:
    """`max_running=1` and the like. ValueError for anything else."""
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        if name not in NUMBERS or not equals or not value.isdigit() or int(value) < 1:
            raise ValueError(f"a limit is NAME=NUMBER with a name of {', '.join(NUMBERS)}, not {word!r}")
        found.append(_signal(name, float(value), name, "told by the user"))
    return found


def _signal(name: str, value: float | bool, word: str, source: str) -> Signal:
    return Signal(name=name, value=value, unit="", quality="exact", source=f"{word}, {source}")
