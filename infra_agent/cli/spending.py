"""Options of what a run may spend: ceilings, and the price of a model. They win over the goal's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.goal.model import Goal
    from infra_agent.harness.budget.prices import FlatPrice

_PANEL = "Ceilings"
MaxUsd = Annotated[
    float | None, typer.Option("--max-usd", help="Money for a language model, in USD.", rich_help_panel=_PANEL)
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Input and output tokens together.", rich_help_panel=_PANEL)
]
MaxLaunches = Annotated[int | None, typer.Option("--max-launches", help="Engine starts.", rich_help_panel=_PANEL)]
MaxDisk = Annotated[
    str | None, typer.Option("--max-disk", help="What launches leave on disk, e.g. 500MB, 2GB.", rich_help_panel=_PANEL)
]
PriceBoth = Annotated[
    float | None,
    typer.Option("--price", help="USD per million tokens, in and out; 0: no charge.", rich_help_panel=_PANEL),
]
PriceInput = Annotated[
    float | None, typer.Option("--price-input", help="USD per million input tokens.", rich_help_panel=_PANEL)
]
PriceOutput = Annotated[
    float | None, typer.Option("--price-output", help="USD per million output tokens.", rich_help_panel=_PANEL)
]
_SIZE = re.compile(r"(?P<value>\d+(\.\d+)?)\s*(?P<unit>B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?", re.IGNORECASE)
_UNIT_BYTES = {
    None: 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30,
    "tib": 2**40,
}  # fmt: skip


def with_ceilings(goal: Goal, usd: float | None, tokens: int | None, launches: int | None, disk: str | None) -> Goal:
    """The goal with the ceilings of the command line over its own; UsageError names the option that cannot be."""
    from infra_agent.goal.model import SpendingCaps

    given: dict[str, tuple[str, float | int | None]] = {
        "usd": ("--max-usd", usd),
        "tokens": ("--max-tokens", tokens),
        "launches": ("--max-launches", launches),
        "disk_bytes": ("--max-disk", None if disk is None else size_bytes(disk)),
    }
    for option, value in given.values():
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{value} is not a ceiling", where=option, hint="a number above 0")
    caps = {name: value for name, (_, value) in given.items() if value is not None}
    merged = SpendingCaps.model_validate({**goal.budget.model_dump(), **caps})
    return goal.model_copy(update={"budget": merged})


def size_bytes(text: str) -> float:
    """Bytes of a size such as 500MB or 1.5 GiB."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size", where="--max-disk", hint="for example 500MB, 2GB or 1.5GiB")
    unit = match["unit"]
    return float(match["value"]) * _UNIT_BYTES[unit.lower() if unit else None]


def price_for(
    brain: str, price: float | None, price_input: float | None, price_output: float | None
) -> FlatPrice | None:
    """The price that was given; UsageError when this brain asks no model."""
    if price is None and price_input is None and price_output is None:
        return None
    from infra_agent.agent.choose import ASKS_NO_MODEL
    from infra_agent.harness.budget.prices import given_price

    if brain in ASKS_NO_MODEL:
        raise UsageError(
            f"the {brain} brain asks no model: a price has no effect", where="--price", hint="leave it out"
        )
    return given_price(price, price_input, price_output)
