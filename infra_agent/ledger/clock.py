"""Times of events: UTC as of the session's start, then counted on by the monotonic clock.

Covered: a wall clock that is set back or forward while a run goes on; durations between two events stay true.
Not covered: time that passes while the machine sleeps; a wall clock that is wrong from the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def session_clock(
    wall: Callable[[], datetime] = lambda: datetime.now(UTC), monotonic: Callable[[], float] = time.monotonic
) -> Callable[[], datetime]:
    """A clock for one session of a run. The wall clock is read once, now."""
    began, began_s = wall(), monotonic()
    return lambda: began + timedelta(seconds=monotonic() - began_s)
