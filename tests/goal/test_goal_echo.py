"""The echo: one line, complete, and honest about what was assumed."""

from __future__ import annotations

import pytest

from infra_agent.goal.echo import describe, understood
from infra_agent.goal.parse import parse_goal


@pytest.mark.parametrize(
    ("text", "echo"),
    [
        (
            "at 4 concurrent requests, double the output tokens per second without changing the answers, within 10 min",
            "output tokens/s at 4 concurrent · at least x2.00 · answers unchanged (greedy, float32 oracle) · 10 min",
        ),
        (
            "cut p99 TTFT by 30 % at 5 requests per second",
            "TTFT p99 at 5 requests/s (Poisson) · at most x0.70 · the stack's default budget",
        ),
        (
            "TTFT below 400 ms with 8 users, 90 s budget",
            "TTFT p50 at 8 concurrent · at most 400 ms · 90 s",
        ),
        (
            "raise throughput by 0.2 % using at most 4 GB, code changes allowed, in 2 hours",
            "output tokens/s at the stack's default load · at least x1.002 · memory at most 4 GB · "
            "parameters and code may change · 2 h",
        ),
        (
            "goodput of at least 5 req/s with TTFT under 500 ms, in half an hour",
            "goodput at the stack's default load · at least 5 requests/s · SLO TTFT at most 500 ms · 30 min",
        ),
        ("memory under 900 MB", "memory at the stack's default load · at most 900 MB · the stack's default budget"),
        (
            "3x faster start-up",
            "start-up time at the stack's default load · at most x0.3333 · the stack's default budget",
        ),
    ],
)
def test_the_echo_says_all_of_the_goal(text: str, echo: str) -> None:
    assert describe(parse_goal(text)) == echo


def test_a_tiny_improvement_is_never_echoed_as_none() -> None:
    assert "x1.00001" in describe(parse_goal("raise throughput by 0.001 %"))


def test_assumptions_are_listed() -> None:
    text = "with TTFT under 400 ms get the thoughput above 1,500 tok/s"
    notes = " | ".join(understood(text, parse_goal(text)))
    for part in (
        "'thoughput' read as 'throughput'",
        "read as 1500",
        "output tokens/s",
        "read as p50",
        "no load",
        "no budget",
    ):
        assert part in notes


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("30 % faster TTFT", "time divided by 1.3"),
        ("raise throughput by about 30 %", "read as exactly"),
        ("raise throughput from 50 to 100 tok/s", "baseline is measured"),
        ("response time under 2 s", "read as end-to-end latency"),
        ("cut per-token latency by 10 %", "read as TPOT"),
        ("1,5x throughput", "read as 1.5"),
    ],
)
def test_a_chosen_reading_is_said(text: str, note: str) -> None:
    assert note in " | ".join(understood(text, parse_goal(text)))


def test_a_goal_that_leaves_nothing_open_has_no_notes() -> None:
    text = "cut p99 TTFT by 30 % at 8 concurrent requests within 20 minutes"
    assert understood(text, parse_goal(text)) == []


def test_fields_that_differ_from_the_text_are_said() -> None:
    goal = parse_goal("double throughput")
    assert "differ" in understood("halve TTFT", goal)[0]
    assert "not one that the grammar reads" in understood("speed things up", goal)[0]
    assert understood("", goal) == []
