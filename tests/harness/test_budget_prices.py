"""A model has a price, or there is no call: given by the user, nothing on this machine, or from the installed table."""

from __future__ import annotations

import socket

import pytest

from infra_agent.errors import ExitCode, UsageError
from infra_agent.harness.budget.prices import FlatPrice, given_price, is_local, price_data, price_from, price_of

pytestmark = pytest.mark.requirement("B1")


def test_a_listed_model_has_the_tables_price_with_its_own_for_cached_input() -> None:
    price = price_of("gpt-4o")
    assert price.usd(1_000_000, 0) == pytest.approx(2.5)
    assert price.usd(0, 1_000_000) == pytest.approx(10.0)
    assert price.usd(1_000_000, 0, cached_in=1_000_000) == pytest.approx(1.25)
    assert price.source == "genai-prices: openai, gpt-4o"


def test_the_endpoint_decides_whose_price_it_is() -> None:
    claude = price_of("claude-sonnet-4-5", "https://api.anthropic.com/v1")
    assert claude.usd(100_000, 0) == pytest.approx(0.3)
    assert claude.usd(1_000_000, 0) == pytest.approx(6.0)  # a long prompt is in the dearer tier
    with pytest.raises(UsageError, match=r"proxy\.example"):
        price_of("gpt-4o", "https://proxy.example/v1")


def test_an_unknown_price_is_refused_and_the_options_are_named() -> None:
    with pytest.raises(UsageError) as caught:
        price_of("our-own-model", "https://llm.example:8443/v1")
    assert caught.value.exit_code is ExitCode.USAGE
    assert "'our-own-model' at llm.example" in caught.value.message
    assert "--price-input and --price-output" in caught.value.hint
    assert "--price 0" in caught.value.hint


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8000/v1", "http://127.0.0.1/v1", "http://127.8.9.1:1", "http://[::1]:8000", "localhost:8000"],
)
def test_an_endpoint_on_this_machine_costs_nothing(url: str) -> None:
    assert is_local(url)
    assert price_of("anything", url).usd(10**9, 10**9) == 0.0


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost.example.com/v1",
        "http://127.0.0.1.example.com",
        "http://10.0.0.1",
        "http://user:127.0.0.1@example.com",
        "",
        "http://[broken",
    ],
)
def test_what_only_looks_local_is_not(url: str) -> None:
    assert not is_local(url)


def test_a_given_price_wins_over_the_table_and_survives_a_resume() -> None:
    given = given_price(None, 1.0, 4.0)
    assert given == FlatPrice(input_usd=1.0, output_usd=4.0, source="given with --price-input, --price-output")
    assert price_of("gpt-4o", None, given).usd(1_000_000, 1_000_000) == 5.0
    again = price_from(price_data(given))
    assert again is not None
    assert again.usd(1_000_000, 1_000_000) == 5.0
    assert price_from(price_data(None)) is None


def test_one_price_stands_for_both_and_zero_means_no_charge() -> None:
    both, free = given_price(2.0, None, None), given_price(0.0, None, None)
    assert both is not None
    assert free is not None
    assert both.usd(500_000, 500_000) == 2.0
    assert price_of("unknown", "https://x.example", free).usd(10**6, 10**6) == 0.0
    assert given_price(None, None, None) is None


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ((1.0, 1.0, None), "--price"),
        ((None, 1.0, None), "--price-output"),
        ((None, None, 1.0), "--price-input"),
        ((-1.0, None, None), "--price"),
        ((None, float("nan"), 1.0), "--price-input"),
        ((None, 1.0, float("inf")), "--price-output"),
    ],
)
def test_prices_that_cannot_be_are_refused(given: tuple[float | None, ...], where: str) -> None:
    with pytest.raises(UsageError) as caught:
        given_price(*given)
    assert caught.value.where == where


def test_looking_up_a_price_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a price was looked up on the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert price_of("gpt-4o-mini").usd(1_000_000, 0) > 0
