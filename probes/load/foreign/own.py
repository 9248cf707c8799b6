"""Our own result files, read like any other tool's: an invalid window stays one."""

from __future__ import annotations

from collections.abc import Sequence

from probes.load.document import SCHEMA
from probes.load.foreign.model import Document, ForeignRun, at, number, whole


def is_own(document: Document) -> bool:
    """A file that `--output` wrote."""
    return str(document.get("schema", "")).startswith("infra-agent/load-result/")


def read_own(document: Document, source: str) -> list[ForeignRun]:
    """Its windows. ValueError for a form of another version."""
    if document.get("schema") != SCHEMA:
        raise ValueError(f"{source}: form {document.get('schema')} is not understood; this is {SCHEMA}")
    windows = document.get("windows")
    return [_run(window, f"{source}#{n}") for n, window in enumerate(windows if isinstance(windows, list) else [])]


def _run(window: Document, source: str) -> ForeignRun:
    records = [row for row in window.get("records") or () if isinstance(row, dict)]
    good = [row for row in records if "error" not in row]
    quantities = at(window, "observation", "quantities") or ()
    figures = {str(q.get("name")): value for q in quantities if (value := number(q.get("value"))) is not None}
    sha = at(window, "load", "workload_sha256")
    verdict = at(window, "observation", "verdict")
    return ForeignRun(
        tool="infra-agent",
        source=source,
        load=str(at(window, "load", "arrivals")),
        figures=figures,
        started_unix_s=number(window.get("started_unix_s")),
        model=at(window, "load", "model"),
        requests=len(records),
        completed=len(good),
        failed=len(records) - len(good),
        input_tokens=_total(good, "prompt_tokens"),
        output_tokens=_total(good, "output_tokens"),
        prompts=sha if isinstance(sha, str) else None,
        prompts_by="a digest of the work" if isinstance(sha, str) else "",
        refused=None if verdict == "pass" else str(at(window, "observation", "summary")),
    )


def _total(rows: Sequence[Document], name: str) -> int | None:
    counts = [whole(row.get(name)) for row in rows]
    return sum(count for count in counts if count is not None) if rows and None not in counts else None
