"""Writes the page: self-contained, no script, no request, foreign text inert; a reader never sees half a file."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from probes.load.report.view import curve, sweep_rows, window_view
from probes.load.session import Told

SWEEP_HEAD = (
    "Load", "Verdict", "Output tok/s", "Requests/s", "TTFT mean ms", "TTFT p95 ms", "TPOT mean ms", "E2E mean ms",
    "Within SLO %",
)  # fmt: skip


def page(told: Sequence[Told]) -> str:
    """The page of a session."""
    environment = Environment(
        loader=PackageLoader("probes.load.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    style, *_ = environment.loader.get_source(environment, "style.css") if environment.loader else ("",)
    return environment.get_template("load.html.j2").render(
        windows=[window_view(each) for each in told],
        curve=curve(told),
        sweep=sweep_rows(told) if len(told) > 1 else [],
        sweep_head=SWEEP_HEAD,
        style=Markup(style),
    )


def write_page(path: Path, told: Sequence[Told]) -> None:
    """Write the page. Raises OSError."""
    replace_text(path, page(told))


def replace_text(path: Path, text: str) -> None:
    """Put a whole file where the old one was. Raises OSError."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
