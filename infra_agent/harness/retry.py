"""The one retry layer: bounded attempts and time, the server's wishes honoured, every attempt listed and charged.

Covered: rate limits, overload, time-outs, refused and reset connections, cut streams; `Retry-After` in seconds or as a
date, garbage ignored, huge values capped; full jitter; a guard against retries inside retries.
Not covered: sending the request. The client under it must not retry by itself (`max_retries=0`).

Pure logic: clock, sleep, randomness and the date come in.
"""

from __future__ import annotations

import email.utils
import math
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Literal, TypeVar

from infra_agent.errors import InfraAgentError

T = TypeVar("T")
FaultKind = Literal["rate_limited", "overloaded", "timeout", "connection", "cut_stream", "final"]
MOST_ATTEMPTS = 6
_RETRIED_STATUS: dict[int, FaultKind] = {408: "timeout", 409: "overloaded", 425: "overloaded", 429: "rate_limited"}
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
_inside: ContextVar[bool] = ContextVar("inside_retry", default=False)


class NestedRetry(InfraAgentError):
    """A retry was started inside another: attempts would multiply. A fault of this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why an attempt failed. `final` is not tried again. `retry_after`: the header's text, if there was one."""

    kind: FaultKind
    text: str
    retry_after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt: how it ended (None: answered), what it took, and the wait after it."""

    number: int
    fault: Fault | None
    took_s: float
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[T]):
    """The answer, or why there is none (`gave_up`), with every attempt."""

    value: T | None
    attempts: tuple[Attempt, ...]
    gave_up: str = ""

    @property
    def answered(self) -> bool:
        """Whether the last attempt succeeded."""
        return not self.gave_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of one call with its retries. `retry_after_cap_s` also bounds what a server may ask for."""

    attempts: int = MOST_ATTEMPTS
    deadline_s: float = 300.0
    base_s: float = 0.5
    cap_s: float = 30.0
    retry_after_cap_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise ValueError(f"attempts must be 1 to {MOST_ATTEMPTS}, not {self.attempts}")
        if min(self.deadline_s, self.base_s, self.cap_s, self.retry_after_cap_s) <= 0:
            raise ValueError("all times must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """What a retry takes from outside: monotonic seconds, sleep, a random number in [0, 1), and the date."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    now: Callable[[], datetime]


def retry(
    call: Callable[[float], T],
    *,
    fault_of: Callable[[Exception], Fault | None],
    policy: Policy,
    seams: Seams,
    charge: Callable[[int], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> Outcome[T]:
    """Call until it answers, a fault is final, or attempts or time are used up. Never sleeps past the deadline.

    `call` is given the seconds left. `charge` is entered around each attempt with its number: it reserves budget, and
    its BudgetSpent ends everything. An exception that `fault_of` does not know (None) is raised as it is.
    """
    with _not_nested():
        return _attempts(call, fault_of, policy, seams, charge)


def fault_of_status(status: int, text: str, retry_after: str | None = None) -> Fault:
    """The fault of an HTTP answer that is no success."""
    kind = _RETRIED_STATUS.get(status, "overloaded" if status >= 500 else "final")
    # 501 and 505 say that it will never work.
    final = status in (501, 505)
    return Fault(kind="final" if final else kind, text=text, retry_after=retry_after)


def retry_after_s(text: str | None, now: datetime) -> float | None:
    """Seconds that a `Retry-After` header asks to wait, 0 for a date gone by; None when it says nothing usable."""
    words = (text or "").strip()
    seconds = float(words) if _SECONDS.fullmatch(words) else _seconds_until(words, now)
    return seconds if math.isfinite(seconds) else None


def _attempts(
    call: Callable[[float], T],
    fault_of: Callable[[Exception], Fault | None],
    policy: Policy,
    seams: Seams,
    charge: Callable[[int], AbstractContextManager[object]],
) -> Outcome[T]:
    ends_s = seams.clock() + policy.deadline_s
    done: list[Attempt] = []
    while True:
        number, started_s = len(done) + 1, seams.clock()
        try:
            with charge(number):
                value = call(ends_s - started_s)
        except Exception as error:
            fault = fault_of(error)
            if fault is None:
                raise
        else:
            answered = Attempt(number=number, fault=None, took_s=seams.clock() - started_s)
            return Outcome(value=value, attempts=(*done, answered))
        took_s = seams.clock() - started_s
        wait_s, gave_up = _next(fault, number, policy, seams, ends_s)
        done.append(Attempt(number=number, fault=fault, took_s=took_s, waited_s=wait_s))
        if gave_up:
            return Outcome(value=None, attempts=tuple(done), gave_up=gave_up)
        seams.sleep(wait_s)


def _next(fault: Fault, number: int, policy: Policy, seams: Seams, ends_s: float) -> tuple[float, str]:
    """Seconds to wait before the next attempt, or why there is none."""
    if fault.kind == "final":
        return 0.0, fault.text
    if number >= policy.attempts:
        return 0.0, f"{number} attempts failed; the last: {fault.text}"
    wait_s = _wait_s(fault, number, policy, seams)
    left_s = ends_s - seams.clock()
    if wait_s >= left_s:
        waits = f"the next attempt would begin in {wait_s:.1f} s, {max(0.0, left_s):.1f} s are left"
        return 0.0, f"out of time after {number} attempts ({waits}); the last: {fault.text}"
    return wait_s, ""


def _wait_s(fault: Fault, number: int, policy: Policy, seams: Seams) -> float:
    """What the server asks for plus a little jitter, else full jitter below a doubling bound."""
    asked_s = retry_after_s(fault.retry_after, seams.now())
    if asked_s is not None:
        return min(asked_s, policy.retry_after_cap_s) + policy.base_s * seams.random()
    return float(min(policy.cap_s, policy.base_s * 2 ** (number - 1)) * seams.random())


def _seconds_until(words: str, now: datetime) -> float:
    """Seconds until an HTTP date; not a number when it is none."""
    try:
        when = email.utils.parsedate_to_datetime(words)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return max(0.0, (when - now).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return math.nan


@contextmanager
def _not_nested() -> Iterator[None]:
    if _inside.get():
        raise NestedRetry("a retry was started inside another one: attempts would multiply")
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
