"""A session as one JSON document: what was asked, what was found, and every request, so that it can be judged later.

Covered: figures with their checks, records without texts (their digest stands for them), the order of windows in time.
Not covered: credentials and prompts, which are never written (a digest of the work is).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

from probes.load.arrivals import describe
from probes.load.body import effective_body, endpoint_url
from probes.load.prompts import digest
from probes.load.session import Told
from probes.load.types import LoadRequest, RequestRecord

SCHEMA = "infra-agent/load-result/1"
DIGITS = 7


def session_document(told: Sequence[Told]) -> dict[str, Any]:
    """The whole session."""
    return {"schema": SCHEMA, "windows": [window_document(each) for each in told]}


def window_document(told: Told) -> dict[str, Any]:
    """One window."""
    result = told.result
    return {
        "started_unix_s": round(told.started_unix_s, 3),
        "load": load_document(result.request),
        "observation": dataclasses.asdict(told.observation),
        "records": [_record(record) for record in result.records],
    }


def load_document(request: LoadRequest) -> dict[str, Any]:
    """What was asked for."""
    return {
        "url": endpoint_url(request),
        "model": request.model,
        "arrivals": describe(request.arrivals),
        "requests": request.requests,
        "warmup_requests": request.warmup_requests,
        "warmup_s": request.warmup_s,
        "duration_s": request.duration_s,
        "seed": request.seed,
        "processes": request.processes,
        "body": effective_body(request),
        "workload_sha256": digest(request.prompts, request.max_tokens, request.requests, request.endpoint),
        "slo": dataclasses.asdict(request.slo) if request.slo else None,
    }


def _record(record: RequestRecord) -> dict[str, Any]:
    row = {
        field.name: getattr(record, field.name)
        for field in dataclasses.fields(record)
        if field.name not in ("text", "reasoning")
    }
    row["text_sha256"] = hashlib.sha256(f"{record.reasoning}\0{record.text}".encode()).hexdigest()[:16]
    return {name: _rounded(value) for name, value in row.items() if value is not None}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    return [_rounded(each) for each in value] if isinstance(value, tuple) else value
