"""Recorded traffic: rows of Mooncake and BurstGPT traces as arrivals and prompts of the recorded lengths.

Covered: Mooncake JSONL (milliseconds, lengths, hashed blocks: equal hashes become equal text, so the recorded sharing
of prefixes is kept), BurstGPT CSV (seconds, lengths; rows without a response were failures and are left out), a
speed-up. A row's input length is what that request sent: histories are not added up. Not covered: recorded texts.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.load.arrivals import Trace
from probes.load.synthetic import Vocabulary, block_text, prompt_of
from probes.load.types import Prompt

MOONCAKE_BLOCK_TOKENS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recorded request. `blocks`: names of its prompt's blocks, empty where the trace has none."""

    time_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


def read_trace(path: Path, requests: int | None = None) -> tuple[Row, ...]:
    """The first `requests` usable rows. ValueError, with the line to blame, for anything that is no trace."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read the trace {path}: {error}") from error
    rows = _mooncake(text, str(path)) if text.lstrip().startswith("{") else _burst(text, str(path))
    if not rows:
        raise ValueError(f"{path} holds no requests")
    return tuple(sorted(rows, key=lambda row: row.time_s))[:requests]


def arrivals_of(rows: Sequence[Row], name: str, speed: float = 1.0) -> Trace:
    """When the rows arrive, counted from the first, `speed` times as fast."""
    if not speed > 0:
        raise ValueError(f"the speed of a trace is above 0, not {speed}")
    first_s = rows[0].time_s
    return Trace(tuple((row.time_s - first_s) / speed for row in rows), name)


def prompts_of(
    rows: Sequence[Row], vocabulary: Vocabulary, seed: int, block_tokens: int = MOONCAKE_BLOCK_TOKENS
) -> tuple[Prompt, ...]:
    """A prompt for each row: as long as recorded, made of its named blocks, or else of words of its own."""
    prompts = []
    for number, row in enumerate(rows):
        tokens = max(row.input_tokens, vocabulary.overhead + 2)
        text = block_text(vocabulary, tokens, row.blocks, block_tokens, seed, number)
        prompts.append(prompt_of(text, tokens, row.output_tokens))
    return tuple(prompts)


def _mooncake(text: str, source: str) -> list[Row]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(_mooncake_row(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"{source}:{number}: a Mooncake row has timestamp, input_length and output_length ({error})"
                ) from error
    return rows


def _mooncake_row(row: dict[str, Any]) -> Row:
    return Row(
        time_s=float(row["timestamp"]) / 1000,
        input_tokens=_positive(row["input_length"]),
        output_tokens=_positive(row["output_length"]),
        blocks=tuple(_block(block) for block in row.get("hash_ids") or ()),
    )


def _block(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"a hash id is a number of at least 0, not {value!r}")
    return value


def _burst(text: str, source: str) -> list[Row]:
    reader = csv.DictReader(io.StringIO(text))
    needed = ("Timestamp", "Request tokens", "Response tokens")
    if not set(needed) <= set(reader.fieldnames or ()):
        raise ValueError(f"{source}: neither Mooncake JSONL nor a BurstGPT table with {', '.join(needed)}")
    rows = []
    for number, row in enumerate(reader, 2):
        try:
            output = int(float(row["Response tokens"]))
            if output > 0:  # 0 marks a request that failed
                rows.append(
                    Row(
                        time_s=float(row["Timestamp"]),
                        input_tokens=_positive(float(row["Request tokens"])),
                        output_tokens=output,
                    )
                )
        except (ValueError, TypeError) as error:
            raise ValueError(f"{source}:{number}: {error}") from error
    return rows


def _positive(value: Any) -> int:
    if isinstance(value, bool) or int(value) < 1:
        raise ValueError(f"a length is at least 1, not {value!r}")
    return int(value)
