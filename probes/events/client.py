"""What the load client knows: its own delay, how many requests it kept open, and who waited for whom.

Covered: the load probe's result in this process, and its `--output` files. Not covered: other tools' files, which keep
no time stamps of chunks.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probes.base import Check, Observation
from probes.events import overlap
from probes.events.signals import Signal
from probes.events.vocabulary import Quality
from probes.load.document import SCHEMA
from probes.load.types import LoadResult, RequestRecord

CLIENT_CHECKS = ("client delay", "mean in flight", "peak in flight")
LARGEST_FILE = 1 << 30
_CLOSED = re.compile(r"closed loop of (\d+)")


def from_result(observation: Observation, result: LoadResult) -> list[Signal]:
    """Facts of a window that was just measured."""
    offered = result.request.concurrency
    return [*_own(observation.checks, offered), *from_records(result.window.records)]


def from_records(records: Sequence[RequestRecord]) -> list[Signal]:
    """What time stamps alone say of the server: how many were served at once, and where each request's time went."""
    good = [record for record in records if record.ok]
    source = f"time stamps of {len(good)} answers"
    found = [_signal("client_answers", len(good), "requests", "exact", source)]
    failed = [record for record in records if not record.ok]
    if failed:
        found.append(_signal("client_failures", len(failed), "requests", "exact", f"first: {failed[0].error}"))
    seen = overlap.measure(records)
    if not isinstance(seen, str):
        waiting = max(0.0, seen.in_flight_mean - seen.decoding_mean)
        found += [
            _signal("running_mean", seen.decoding_mean_active, "requests", "approximate", source),
            _signal("running_max", seen.decoding_max, "requests", "approximate", source),
            _signal("waiting_mean", waiting, "requests", "approximate", source),
            _signal("waiting_share", float(seen.queue_wait_share), "1", "approximate", source),
            _signal("serialised", seen.serialised, "", "derived", source),
            _signal("in_flight_mean", seen.in_flight_mean, "requests", "exact", source),
            _signal("queue_wait_share", seen.queue_wait_share, "1", "derived", source),
        ]
    return found + _per_step(good, source)


def _per_step(good: Sequence[RequestRecord], source: str) -> list[Signal]:
    """Tokens per engine step, from the pace of the tokens; a server that serves in turn makes one step per token."""
    spans = [
        (r.last_token_s - r.first_token_s) / (r.output_tokens - 1)
        for r in good
        if r.first_token_s is not None and r.last_token_s is not None and r.output_tokens and r.output_tokens > 1
    ]
    prompts = [r.prompt_tokens for r in good if r.prompt_tokens]
    if len(spans) < overlap.MIN_REQUESTS or not prompts:
        return []
    step_s = statistics.median(spans)
    wall_s = max(r.end_s for r in good) - min(r.sent_s for r in good)
    firsts_s = sum(r.first_token_s - r.sent_s for r in good if r.first_token_s is not None)
    wholes_s = sum(r.last_token_s - r.sent_s for r in good if r.last_token_s is not None)
    tokens = sum(prompts) + sum(r.output_tokens or 0 for r in good)
    if step_s <= 0 or wall_s <= 0 or wholes_s <= 0:
        return []
    return [
        _signal(
            "iteration_tokens_mean", tokens * step_s / wall_s, "tokens", "approximate", f"{source}, pace of tokens"
        ),
        _signal("first_token_share", firsts_s / wholes_s, "1", "derived", source),
        _signal("itl_s_mean", step_s, "s", "derived", source),
    ]


def read_load_file(path: Path) -> list[Signal]:
    """Facts of the last window of a load result. ValueError when it is none."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"{path} is larger than {LARGEST_FILE >> 30} GiB")
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not a load result: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or not document.get("windows"):
        raise ValueError(f"{path} is not a load result of this program ({SCHEMA}): write one with --output")
    window = document["windows"][-1]
    try:
        checks = tuple(Check(**check) for check in window["observation"]["checks"])
        records = tuple(_record(row) for row in window["records"])
        users = _CLOSED.match(str(window["load"]["arrivals"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} lacks what a load result has: {error}") from error
    return [*_own(checks, int(users[1]) if users else None), *from_records(records)]


def _record(row: Mapping[str, Any]) -> RequestRecord:
    """A record as it was written: lists were tuples, and the text is only a digest."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    fields.pop("text_sha256", None)
    return RequestRecord(**fields)


def _own(checks: Sequence[Check], offered: int | None) -> list[Signal]:
    mine = [check for check in checks if check.name in CLIENT_CHECKS]
    late = [f"{check.name} {check.measured} (limit {check.limit})" for check in mine if not check.ok]
    source = "; ".join(late) or "the load client's own checks held"
    found = [_signal("client_late", bool(late), "", "exact", source)] if mine else []
    if offered:
        found.append(_signal("offered", offered, "requests", "exact", "the load that was asked for"))
    return found


def _signal(name: str, value: float | bool, unit: str, quality: Quality, source: str) -> Signal:
    return Signal(name=name, value=value, unit=unit, quality=quality, source=source)
