"""A noise floor for tests."""

from __future__ import annotations

from typing import Any

from infra_agent.harness.noisefloor import FloorKey, MetricNoise, NoiseFloor

KEY = FloorKey(
    rules="2",
    machine={"cpu": "x", "cores": 2.0},
    stack_digest="a" * 64,
    workload_sha256="b" * 64,
    load={"concurrency": 4},
)


def floor(key: FloorKey = KEY, **changes: Any) -> NoiseFloor:
    fields: dict[str, Any] = {
        "key": key, "measured_at": "2026-11-30T14:02:00+00:00", "blocks": 6, "block_s": 20.0, "stalled": 0,
        "metrics": {"output_tok_per_s": MetricNoise(block_sd=0.02, drift_sd=0.0, degrees=6)},
    }  # fmt: skip
    return NoiseFloor(**(fields | changes))
