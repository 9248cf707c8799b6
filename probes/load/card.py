"""A load result for people, and as one JSON document for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from probes.base import Observation, Quantity, Verdict
from probes.clean import escaped
from probes.load.types import LoadResult

SHOWN = (
    ("output_tok_per_s", "output tokens/s"),
    ("steady_output_tok_per_s", "… steady window"),
    ("total_tok_per_s", "total tokens/s"),
    ("requests_per_s", "requests/s"),
    ("goodput_per_s", "good requests/s"),
    ("goodput_share", "within the SLO"),
)
LATENCIES = (
    ("ttft", "TTFT, from send"),
    ("ttft_scheduled", "… from schedule"),
    ("first_answer", "first answer token"),
    ("tpot", "TPOT"),
    ("chunk_gap", "chunk gap"),
    ("token_gap", "token gap"),
    ("e2e", "end to end"),
)
STATISTICS = ("mean", "p50", "p75", "p90", "p95", "p99", "max")


def card(observation: Observation, result: LoadResult) -> str:
    """A page of text: figures when the window is valid, else the checks that failed."""
    lines = [observation.summary, ""]
    if observation.verdict is not Verdict.INVALID:
        lines += [*_rates(observation), "", *_latencies(observation), ""]
        lines += _withheld(observation)
    lines += [f"  {'ok  ' if check.ok else 'FAIL'} {check.name}: {check.measured}" for check in observation.checks]
    lines += [f"  --   {name}: not checked: {why}" for name, why in observation.detail["not_checked"].items()]
    request = result.request
    lines.append(
        f"\n{len(result.records)} of {request.requests} requests after {len(result.window.warmup)} for warm-up, "
        f"{observation.cost.wall_s:.1f} s in all, seed {request.seed}"
    )
    return "\n".join(lines)


def document(observation: Observation) -> str:
    """The observation as one line of JSON."""
    found = dataclasses.asdict(observation)
    return escaped(json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def _rates(observation: Observation) -> Iterator[str]:
    for name, label in SHOWN:
        if quantity := observation.quantity(name):
            yield f"  {label:<20}{quantity.value:10.4g}{_interval(quantity)}"


def _latencies(observation: Observation) -> Iterator[str]:
    present = [s for s in STATISTICS if any(observation.quantity(latency_name(stem, s)) for stem, _ in LATENCIES)]
    yield f"  {'seconds':<20}" + "".join(f"{statistic:>10}" for statistic in present)
    for stem, label in LATENCIES:
        cells = [observation.quantity(latency_name(stem, statistic)) for statistic in present]
        if any(cells):
            yield f"  {label:<20}" + "".join(f"{cell.value:10.4f}" if cell else f"{'-':>10}" for cell in cells)


def latency_name(stem: str, statistic: str) -> str:
    """Name of a latency's quantity."""
    return f"{stem}_s" if statistic == "mean" else f"{stem}_{statistic}_s"


def _interval(quantity: Quantity) -> str:
    if quantity.low is None or quantity.high is None:
        return ""
    return f"  [{quantity.low:.4g}, {quantity.high:.4g}]"


def _withheld(observation: Observation) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for name, reason in observation.detail["withheld"].items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        shown = names[0] if len(names) == 1 else f"{len(names)} figures"
        yield f"  withheld {shown}: {reason}"
    if reasons:
        yield ""
