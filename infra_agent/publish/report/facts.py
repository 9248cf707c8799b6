"""Small helpers all sections share: event numbers, JSON-safe values, metric names, estimates.

Covered: looking up the sequence number of an event; names like `ttft_p50_s` taken apart.
Not covered: any judgement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from infra_agent.goal.declared import DeclaredMetric
from infra_agent.goal.model import Goal, Statistic
from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.publish.report.rows import EstimateRow

_STATISTICS = frozenset({"mean", "p50", "p75", "p90", "p95", "p99", "max"})
_LABELS = {
    "output_tok_per_s": "Output tokens per second",
    "steady_output_tok_per_s": "Output tokens per second, steady part",
    "total_tok_per_s": "Total tokens per second",
    "requests_per_s": "Requests per second",
    "goodput_per_s": "Goodput",
    "ttft": "Time to first token",
    "ttft_scheduled": "Time to first token from schedule",
    "first_answer": "Time to first answer token",
    "tpot": "Time per output token",
    "itl": "Inter-token latency",
    "chunk_gap": "Gap between chunks",
    "e2e": "End-to-end latency",
    "e2e_scheduled": "End-to-end latency from schedule",
    "memory_bytes": "Memory",
    "startup": "Start-up time",
    "mean_output_tokens": "Output tokens per request",
    "stalls": "Stalls of a window",
    "stall": "Time lost in stalls of a window",
}
_HEADLINES = frozenset({"output_tok_per_s", "goodput_per_s", "ttft", "tpot", "e2e", "memory_bytes", "startup"})
_NEITHER = frozenset({"mean_output_tokens"})
_LATENCIES = frozenset({"ttft", "ttft_scheduled", "first_answer", "tpot", "itl", "chunk_gap", "e2e", "e2e_scheduled"})
ORDER = tuple(_LABELS)
_HIGHER = frozenset(
    {"output_tok_per_s", "steady_output_tok_per_s", "total_tok_per_s", "requests_per_s", "goodput_per_s"}
)


class Facts:
    """A run's state with its event numbers at hand."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self._by_kind: dict[str, list[tuple[int, k.EventData]]] = {}
        for event in state.events:
            self._by_kind.setdefault(event.data.kind, []).append((event.seq, event.data))

    def seq(self, data: k.EventData | None) -> int:
        """The sequence number of an event; the ledger's head if it is not among the events."""
        if data is not None:
            known = self._by_kind.get(data.kind, [])
            for seq, other in known:
                if other is data:
                    return seq
            for seq, other in known:
                if other == data:
                    return seq
        return self.state.head_seq

    def of(self, kind: type[k.EventData]) -> list[tuple[int, k.EventData]]:
        """All events of one kind, in order."""
        return list(self._by_kind.get(kind.kind, []))

    def higher_is_better(self, name: str) -> bool | None:
        """Which way a quantity is better: as the stack declares it, else as `higher_is_better` knows it."""
        spec = self.state.started.stack.metrics.get(name)
        return higher_is_better(name) if spec is None else spec.direction == "maximise"

    def settings(self, candidate: str) -> dict[str, Any]:
        """Complete settings of stock or a candidate."""
        if candidate in self.state.candidates:
            return dict(self.state.candidates[candidate].proposed.settings)
        return dict(self.state.started.stack.launch.parameters)

    def title(self, candidate: str) -> str:
        """What people call a candidate."""
        if candidate in self.state.candidates:
            return self.state.candidates[candidate].proposed.title
        return candidate


def source(seq: int) -> str:
    """An event as a source id."""
    return f"event:{seq}"


def json_safe(value: Any) -> Any:
    """The value with NaN and infinities turned into None, tuples into lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    return value


def finite(value: float | None) -> float | None:
    """The value, or None where it is no number."""
    return None if value is None or not math.isfinite(value) else float(value)


def estimate(data: k.EstimateData | None) -> EstimateRow | None:
    """An estimate for the report; None when there is none or its ratio is no number."""
    if data is None or not math.isfinite(data.ratio):
        return None
    return EstimateRow(
        ratio=data.ratio,
        low=finite(data.low),
        high=finite(data.high),
        p=finite(data.p),
        n=data.n,
        confidence=data.confidence,
        method=data.method,
    )


def split_name(name: str) -> tuple[str, str]:
    """A quantity's name as (metric, statistic): `ttft_p50_s` is ("ttft", "p50"); the statistic may be empty."""
    if name in _LABELS:
        return name, ""
    parts = name.split("_")
    found = next((part for part in parts if part in _STATISTICS), "")
    rest = [part for part in parts if part not in _STATISTICS]
    stem = "_".join(rest)
    bare = "_".join(rest[:-1]) if rest and rest[-1] == "s" else stem
    return (bare, found) if bare in _LABELS else (stem, found)


def label(name: str) -> str:
    """A quantity's name in words."""
    metric, statistic = split_name(name)
    words = _LABELS.get(metric, metric.replace("_", " "))
    statistic = statistic or ("mean" if metric in _LATENCIES else "")
    return f"{words}, {statistic}" if statistic else words


def is_headline(name: str) -> bool:
    """Whether people ask for this figure first: rates, memory, start-up, and latencies as mean or median."""
    metric, statistic = split_name(name)
    return metric in _HEADLINES and statistic in ("", "mean", "p50")


def higher_is_better(name: str) -> bool | None:
    """Which way a quantity is better; None for one this program does not tune for."""
    metric, _ = split_name(name)
    return metric in _HIGHER if metric in _LABELS.keys() - _NEITHER else None


def is_goal_metric(name: str, goal: Goal) -> bool:
    """Whether a quantity is the goal's metric at the goal's statistic."""
    if isinstance(goal.metric, DeclaredMetric):
        return name == goal.metric.name
    wanted, _ = split_name(goal.metric.value)
    metric, statistic = split_name(name)
    expected = "" if goal.statistic in (Statistic.VALUE, Statistic.MEAN) else goal.statistic.value
    return metric == wanted and statistic.replace("mean", "") == expected


def name_order(name: str) -> tuple[int, str]:
    """Sort key: the metrics people ask for first."""
    metric, statistic = split_name(name)
    return (ORDER.index(metric) if metric in ORDER else len(ORDER), statistic + name)


def lane(candidates: Iterable[CandidateState], name: str) -> list[CandidateState]:
    """The candidates of one lane."""
    return [candidate for candidate in candidates if candidate.proposed.lane == name]


def ids(*parts: Sequence[str] | str) -> list[str]:
    """Non-empty ids in order, each once."""
    flat = [item for part in parts for item in ([part] if isinstance(part, str) else part)]
    return list(dict.fromkeys(item for item in flat if item))
