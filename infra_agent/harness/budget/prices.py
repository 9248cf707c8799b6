"""What a call of a model costs: a price that the user gave, nothing on this machine, or a maintained table.

Covered: USD per token in and out, cached input where the table has a price for it. A model without a known price is
refused before the first call: an unpriced answer must not count as free.
Not covered: fetching prices (only the table that is installed is read), discounts, prices of machines.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from infra_agent.errors import UsageError

DEFAULT_URL = "https://api.openai.com/v1"
PER_MILLION = 1_000_000
_FLAGS = "--price-input and --price-output (USD per million tokens), or --price 0 when it costs nothing"


class Price(Protocol):
    """What calls of one model cost. `source` says where that is known from."""

    @property
    def source(self) -> str:
        """In a few words, for ledger and report."""
        ...

    def usd(self, tokens_in: int, tokens_out: int, cached_in: int = 0) -> float:
        """The price of one call; `cached_in` of `tokens_in` came from the provider's cache."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPrice:
    """A price per million tokens, the same for cached input."""

    input_usd: float
    output_usd: float
    source: str

    def usd(self, tokens_in: int, tokens_out: int, cached_in: int = 0) -> float:
        """Tokens times price."""
        return (tokens_in * self.input_usd + tokens_out * self.output_usd) / PER_MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPrice:
    """The price in the installed table of `genai-prices`, with its tiers."""

    model: str
    provider: str
    source: str

    def usd(self, tokens_in: int, tokens_out: int, cached_in: int = 0) -> float:
        """As the table says for a call of this size."""
        from genai_prices import Usage, calc_price

        usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached_in or None)
        return float(calc_price(usage, self.model, provider_id=self.provider).total_price)


def price_of(model: str, base_url: str | None = None, given: FlatPrice | None = None) -> Price:
    """The price of a model at an endpoint; UsageError when nobody knows it."""
    if given is not None:
        return given
    if base_url is not None and is_local(base_url):
        return FlatPrice(input_usd=0.0, output_usd=0.0, source="no charge: the endpoint is on this machine")
    listed = _listed(model, base_url or DEFAULT_URL)
    if listed is None:
        raise UsageError(
            f"the price of {model!r} at {_host(base_url or DEFAULT_URL)} is not known, so a budget could not hold",
            where="--model",
            hint=f"give {_FLAGS}",
        )
    return listed


def given_price(price: float | None, price_input: float | None, price_output: float | None) -> FlatPrice | None:
    """The price that the command line gives, in USD per million tokens; None when it gives none."""
    for name, value in (("--price", price), ("--price-input", price_input), ("--price-output", price_output)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f"{value} is not a price", where=name, hint="USD per million tokens, 0 or more")
    if price is not None:
        if price_input is not None or price_output is not None:
            raise UsageError("--price stands for both prices", where="--price", hint=f"give {_FLAGS}")
        return FlatPrice(input_usd=price, output_usd=price, source="given with --price")
    if price_input is None and price_output is None:
        return None
    if price_input is None or price_output is None:
        missing = "--price-input" if price_input is None else "--price-output"
        raise UsageError("one of two prices is missing", where=missing, hint=f"give {_FLAGS}")
    return FlatPrice(input_usd=price_input, output_usd=price_output, source="given with --price-input, --price-output")


def price_data(price: FlatPrice | None) -> dict[str, float]:
    """A given price as the ledger stores it."""
    return {} if price is None else {"input_usd": price.input_usd, "output_usd": price.output_usd}


def price_from(data: Mapping[str, float]) -> FlatPrice | None:
    """A given price as a run was started with it."""
    if not data:
        return None
    return FlatPrice(input_usd=data["input_usd"], output_usd=data["output_usd"], source="given when the run began")


def is_local(base_url: str) -> bool:
    """Whether the endpoint is on this machine's loopback."""
    host = _host(base_url)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(base_url: str) -> str:
    try:
        return (urlsplit(base_url if "://" in base_url else f"//{base_url}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _listed(model: str, base_url: str) -> ListedPrice | None:
    from genai_prices import Usage, calc_price

    try:
        found = calc_price(Usage(input_tokens=1, output_tokens=1), model, provider_api_url=base_url)
    except LookupError:
        return None
    both = found.model_price.input_mtok is not None and found.model_price.output_mtok is not None
    if not both:
        return None
    source = f"genai-prices: {found.provider.id}, {found.model.id}"
    return ListedPrice(model=model, provider=found.provider.id, source=source)
