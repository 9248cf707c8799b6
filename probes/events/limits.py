"""The limits that can bind a serving engine, and for each the one cheap experiment that would prove it wrong.

The order is the order of asking: a client that is too slow, or too little load, makes every figure of the engine
meaningless, so these two are excluded first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from probes.events.signals import Signal

Limit = Literal[
    "client-bound", "under-loaded", "KV capacity", "admission cap", "token budget", "front-end CPU", "communication",
    "launch overhead", "cache miss", "prefill compute", "decode bandwidth",
]  # fmt: skip
State = Literal["supported", "excluded", "cannot tell"]

EXPERIMENTS: Mapping[Limit, str] = {
    "client-bound": "send the same load from two client processes: if throughput stays, the client was not the limit",
    "under-loaded": "double the load: if throughput stays, the engine was not idle for want of work",
    "KV capacity": "give the KV cache half as much again: if preemptions and waiting stay, it was not the limit",
    "admission cap": "double the cap on running requests: if throughput stays, it was not the cap",
    "token budget": "double the tokens per step: if time to first token and throughput stay, it was not the budget",
    "front-end CPU": "start a second front-end process: if throughput stays, the front end was not the limit",
    "communication": "run on one rank, or trace one step: if no communication stands alone, it was not the limit",
    "launch overhead": "trace twenty decode steps: if the device never idles between kernels, it was not launches",
    "cache miss": "repeat one prompt twice: if the second prefill is as long, no cache could have helped",
    "prefill compute": "halve the prompts: if throughput in requests per second stays, it was not prefill",
    "decode bandwidth": "halve the bytes read per step (smaller dtype): if time between tokens stays, it was not that",
}
"""Each experiment takes one launch or less, and has an outcome that refutes the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the evidence says of one limit. `used`: the facts behind it; `strength` is the weakest trust among them."""

    limit: Limit
    state: State
    reason: str
    used: tuple[Signal, ...] = ()

    @property
    def experiment(self) -> str:
        """What would prove it wrong."""
        return EXPERIMENTS[self.limit]

    @property
    def confidence(self) -> Literal["high", "medium", "low"]:
        """High when the engine or system itself counted all of it, low when a stand-in was needed."""
        qualities = {signal.quality for signal in self.used}
        if not qualities or "approximate" in qualities:
            return "low"
        return "medium" if "derived" in qualities else "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The binding limit, or None for *cannot tell*; `findings` has one entry for every limit, in order of asking."""

    limit: Limit | None
    reason: str
    findings: tuple[Finding, ...]

    def of(self, limit: Limit) -> Finding:
        """The finding about one limit."""
        return next(finding for finding in self.findings if finding.limit == limit)
