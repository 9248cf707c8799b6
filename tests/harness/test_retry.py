"""The one retry layer: bounded in attempts and time, charged per attempt, never nested."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.errors import BudgetSpent
from infra_agent.harness.retry import (
    MOST_ATTEMPTS,
    Fault,
    NestedRetry,
    Outcome,
    Policy,
    Seams,
    fault_of_status,
    retry,
    retry_after_s,
)

pytestmark = pytest.mark.requirement("B2")
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class WireError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


def fault_of(error: Exception) -> Fault | None:
    return error.fault if isinstance(error, WireError) else None


class World:
    """A clock that only sleeping and calling move, and what was slept."""

    def __init__(self, draw: float = 0.5, call_s: float = 0.0) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []
        self.calls: list[float] = []
        self.draw = draw
        self.call_s = call_s

    def seams(self) -> Seams:
        return Seams(clock=lambda: self.now_s, sleep=self.sleep, random=lambda: self.draw, now=lambda: NOW)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def run(self, answers: list[Any], policy: Policy | None = None, **more: Any) -> Outcome[Any]:
        left = iter(answers)

        def call(timeout_s: float) -> Any:
            self.calls.append(timeout_s)
            self.now_s += self.call_s
            answer = next(left)
            if isinstance(answer, Fault):
                raise WireError(answer)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return retry(call, fault_of=fault_of, policy=policy or Policy(), seams=self.seams(), **more)


RATE = Fault(kind="rate_limited", text="HTTP 429")
CUT = Fault(kind="cut_stream", text="the stream broke")


def test_an_answer_at_once_is_one_attempt_without_a_wait() -> None:
    world = World()
    outcome = world.run(["yes"])
    assert (outcome.value, outcome.answered, len(outcome.attempts), world.slept) == ("yes", True, 1, [])


@pytest.mark.parametrize("kind", ["rate_limited", "overloaded", "timeout", "connection", "cut_stream"])
def test_faults_that_may_pass_are_tried_again_and_every_attempt_is_listed(kind: Any) -> None:
    outcome = World().run([Fault(kind=kind, text="no"), Fault(kind=kind, text="no"), "yes"])
    assert outcome.value == "yes"
    assert [attempt.number for attempt in outcome.attempts] == [1, 2, 3]
    assert [attempt.fault.kind if attempt.fault else None for attempt in outcome.attempts] == [kind, kind, None]


def test_a_final_fault_is_not_tried_again() -> None:
    world = World()
    outcome = world.run([Fault(kind="final", text="HTTP 401: no"), "never reached"])
    assert (outcome.answered, outcome.gave_up, world.slept) == (False, "HTTP 401: no", [])


def test_there_are_at_most_six_attempts_with_full_jitter_below_a_doubling_bound() -> None:
    world = World(draw=1.0)
    outcome = world.run([CUT] * 50, Policy(base_s=0.5, cap_s=4.0))
    assert len(outcome.attempts) == MOST_ATTEMPTS == 6
    assert world.slept == [0.5, 1.0, 2.0, 4.0, 4.0]
    assert outcome.gave_up == "6 attempts failed; the last: the stream broke"
    assert World(draw=0.0).run([CUT, "yes"]).attempts[0].waited_s == 0.0


def test_more_than_six_attempts_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="1 to 6"):
        Policy(attempts=7)


def test_the_deadline_is_for_all_attempts_and_waits_together() -> None:
    world = World(draw=1.0, call_s=4.0)
    outcome = world.run([CUT] * 6, Policy(deadline_s=10.0, base_s=1.0))
    assert world.calls == [10.0, 5.0]
    assert len(outcome.attempts) == 2
    assert outcome.gave_up.startswith("out of time after 2 attempts")
    assert world.now_s - 1000.0 <= 10.0


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["", "0", "5", "-3", "1e9", "soon", "Mon, 30 Nov 2026 12:00:07 GMT", "9" * 400]), max_size=8
    ),
    st.floats(0.01, 500),
    st.floats(0, 50),
    st.integers(0, 2**32),
)
def test_no_server_can_make_it_wait_past_the_deadline(
    headers: list[str], deadline_s: float, call_s: float, seed: int
) -> None:
    world = World(call_s=call_s)
    world.draw = random.Random(seed).random()
    faults = [Fault(kind="rate_limited", text="no", retry_after=header) for header in headers]
    outcome = world.run([*faults, *[RATE] * 6], Policy(deadline_s=deadline_s))
    assert len(outcome.attempts) <= MOST_ATTEMPTS
    assert sum(world.slept) <= deadline_s
    assert world.now_s - 1000.0 <= deadline_s + call_s
    assert outcome.gave_up


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (" 12 ", 12.0),
        ("Mon, 30 Nov 2026 12:00:30 GMT", 30.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("Monday, 30-Nov-26 12:00:30 GMT", 30.0),
        ("Mon, 30 Nov 2026 14:00:30 +0200", 30.0),
        ("999999999999", 999999999999.0),
        ("-5", None),
        ("", None),
        (None, None),
        ("soon", None),
        ("NaN", None),
        ("inf", None),
        ("1_000", None),
        ("0x10", None),
        ("\uff11\uff12", None),
        ("9" * 500, None),
        ("Mon, 99 Foo 2026 12:00:00 GMT", None),
        ("12:00", None),
    ],
)
def test_retry_after_is_read_in_seconds_or_as_a_date_and_garbage_says_nothing(
    header: str | None, seconds: float | None
) -> None:
    assert retry_after_s(header, NOW) == seconds


def test_retry_after_is_honoured_and_capped() -> None:
    world = World(draw=0.0)
    faults = [Fault(kind="rate_limited", text="no", retry_after=header) for header in ("7", "86400", "garbage")]
    world.run([*faults, "yes"], Policy(retry_after_cap_s=20.0))
    assert world.slept == [7.0, 20.0, 0.0]


def test_a_date_far_away_ends_it_when_even_the_cap_does_not_fit() -> None:
    later = (NOW + timedelta(days=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    world = World()
    outcome = world.run([Fault(kind="overloaded", text="HTTP 503", retry_after=later)], Policy(deadline_s=30.0))
    assert outcome.gave_up.startswith("out of time after 1 attempts")
    assert world.slept == []


def test_every_attempt_is_charged_and_the_budgets_no_ends_everything() -> None:
    charged: list[int] = []

    @contextmanager
    def charge(number: int) -> Iterator[None]:
        if number == 3:
            raise BudgetSpent("the third attempt does not fit")
        charged.append(number)
        yield

    with pytest.raises(BudgetSpent, match="third attempt"):
        World().run([RATE] * 6, charge=charge)
    assert charged == [1, 2]


def test_an_exception_that_is_no_fault_of_the_wire_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        World().run([RATE, ZeroDivisionError("a bug")])


def test_a_retry_inside_a_retry_is_an_error() -> None:
    def outer(_: float) -> str:
        World().run(["inner"])
        return "outer"

    nested: Callable[[float], str] = outer
    with pytest.raises(NestedRetry):
        retry(nested, fault_of=fault_of, policy=Policy(), seams=World().seams())
    assert World().run(["again"]).value == "again"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (408, "timeout"), (409, "overloaded"), (425, "overloaded"), (429, "rate_limited"), (500, "overloaded"),
        (502, "overloaded"), (503, "overloaded"), (504, "overloaded"), (529, "overloaded"), (400, "final"),
        (401, "final"), (403, "final"), (404, "final"), (413, "final"), (422, "final"), (501, "final"), (505, "final"),
    ],
)  # fmt: skip
def test_which_statuses_may_pass(status: int, kind: str) -> None:
    assert fault_of_status(status, "no").kind == kind
