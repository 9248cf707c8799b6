"""One run of some load tool, in our names where its definition is ours.

Tools give one name to different things. A figure is read under our name only where the tool computes what
docs/metrics.md defines; anything else keeps the tool's own name, and `notes` say what is known to be off.
Covered: figures, counts, load, prompts as far as a result tells them, when it began. Not covered: raw request logs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRun:
    """None: the result does not tell. `prompts`: a digest of what was sent, or of its lengths, with `by` naming which.

    `input_tokens` and `output_tokens` are totals over complete answers. `figures` are in seconds, tokens and requests.
    `refused`: the tool itself held the run invalid, and why.
    """

    tool: str
    source: str
    load: str
    figures: Mapping[str, float]
    started_unix_s: float | None = None
    model: str | None = None
    requests: int | None = None
    completed: int | None = None
    failed: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompts: str | None = None
    prompts_by: str = ""
    refused: str | None = None
    notes: Sequence[str] = field(default_factory=tuple)


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def whole(value: Any) -> int | None:
    """A count, or None."""
    found = number(value)
    return int(found) if found is not None and found == int(found) and found >= 0 else None


def at(document: Any, *path: str | int) -> Any:
    """A value deep inside, or None."""
    for key in path:
        if isinstance(key, int):
            document = document[key] if isinstance(document, list) and len(document) > key else None
        else:
            document = document.get(key) if isinstance(document, Mapping) else None
    return document


def collect(document: Document, names: Mapping[str, str], scale: float = 1.0) -> dict[str, float]:
    """Figures under our names, from the tool's keys."""
    found = {ours: number(document.get(theirs)) for ours, theirs in names.items()}
    return {ours: value * scale for ours, value in found.items() if value is not None}


def digest_of(value: Any) -> str:
    """A digest of any JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def latency_names(stem: str, key: str, percentiles: Mapping[str, str]) -> dict[str, str]:
    """Our names of one latency and the tool's keys: `key` has a place for the statistic's name."""
    names = {f"{stem}_s": key.format("mean")}
    return names | {f"{stem}_{ours}_s": key.format(theirs) for ours, theirs in percentiles.items()}
