"""What a session leaves behind: our own document, a page, and the forms of other tools.

A window that is invalid is exported to no other tool's form: those forms have no place to say so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from probes.base import Verdict
from probes.load.document import session_document
from probes.load.foreign.aiperf import write_aiperf
from probes.load.foreign.bench_serve import write_sglang, write_vllm
from probes.load.foreign.guidellm import write_guidellm
from probes.load.foreign.llmd import write_llmd
from probes.load.report.html import replace_text, write_page
from probes.load.session import Told

ONE_WINDOW: Mapping[str, Callable[[Told], dict[str, Any]]] = {
    "vllm": write_vllm,
    "sglang": write_sglang,
    "aiperf": write_aiperf,
    "benchmark-report": write_llmd,
}
FORMATS = (*ONE_WINDOW, "guidellm")


def write_outputs(
    told: Sequence[Told], output: Path | None = None, html: Path | None = None, exports: Sequence[str] = ()
) -> None:
    """Write everything that was asked for. ValueError for an export that cannot be made; OSError."""
    if output is not None:
        replace_text(output, json.dumps(session_document(told), ensure_ascii=False, allow_nan=False) + "\n")
    if html is not None:
        write_page(html, told)
    for export in exports:
        name, path = parse_export(export)
        _export(name, path, told)


def parse_export(text: str) -> tuple[str, Path]:
    """`FORMAT=PATH`."""
    name, equals, path = text.partition("=")
    if not equals or not path or name not in FORMATS:
        raise ValueError(f"an export is FORMAT=PATH with a format of {', '.join(FORMATS)}, not {text!r}")
    return name, Path(path)


def _export(name: str, path: Path, told: Sequence[Told]) -> None:
    invalid = sum(each.observation.verdict is not Verdict.PASS for each in told)
    if invalid or not told:
        raise ValueError(f"nothing is exported as {name}: {invalid} of {len(told)} windows are invalid")
    if name == "guidellm":
        text = json.dumps(write_guidellm(list(told)), allow_nan=False)
    elif name == "sglang":
        text = "\n".join(json.dumps(write_sglang(each), allow_nan=False) for each in told)
    elif len(told) > 1:
        raise ValueError(f"the {name} form holds one run, there are {len(told)} windows; sglang and guidellm hold more")
    else:
        text = json.dumps(ONE_WINDOW[name](told[0]), allow_nan=False)
    replace_text(path, text + "\n")
