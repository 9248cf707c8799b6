"""Time in a ledger never runs backwards, whatever is done to the machine's clock."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ledger_samples as s
import pytest

from infra_agent.agent.start import spent_s
from infra_agent.ledger import kinds as k
from infra_agent.ledger.clock import session_clock
from infra_agent.ledger.store import Ledger

pytestmark = pytest.mark.requirement("L6")
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def stamps(run_dir: Path) -> list[datetime]:
    with Ledger.open(run_dir, s.ticking("2026-12-31T00:00:00+00:00")) as ledger:
        return [datetime.fromisoformat(event.ts) for event in ledger.events]


def test_a_sessions_clock_reads_the_wall_once_and_counts_on_by_itself():
    walls, seconds = iter([NOON]), itertools.count(100.0, 0.5)
    clock = session_clock(lambda: next(walls), lambda: next(seconds))
    assert [clock() - NOON for _ in range(3)] == [timedelta(seconds=0.5 * n) for n in (1, 2, 3)]


def test_by_default_it_tells_the_time():
    assert abs(session_clock()() - datetime.now(UTC)) < timedelta(seconds=30)


def test_a_clock_that_is_set_back_is_followed_from_the_last_event_on(tmp_path):
    readings = iter([NOON, NOON + timedelta(seconds=10), NOON - timedelta(hours=1), NOON - timedelta(minutes=59)])
    with Ledger.create(tmp_path / "run", lambda: next(readings)) as ledger:
        for data in (s.started(), s.note(), s.note(), s.note()):
            ledger.append(data)
    assert [(at - NOON).total_seconds() for at in stamps(tmp_path / "run")] == [0, 10, 10, 70]


def test_a_session_that_begins_before_the_last_one_ended_goes_on_after_it(tmp_path):
    s.write(tmp_path / "run", [s.started(), s.note()])
    with Ledger.open(tmp_path / "run", s.ticking("2020-01-01T00:00:00+00:00")) as ledger:
        ledger.append(k.RunResumed(pid=1, spent_s=1.0))
        ledger.append(s.note())
        state = ledger.state()
    found = stamps(tmp_path / "run")
    assert found == sorted(found)
    # One second in the first session; one in the second, whose stamps continue where the first ended.
    assert spent_s(state) == 2.0


def test_an_unreadable_stamp_of_another_version_stops_nothing(tmp_path):
    events = s.chained(s.started())
    (tmp_path / "events.jsonl").write_bytes(s.restamped(events[0], "the day before yesterday"))
    with Ledger.open(tmp_path, s.ticking()) as ledger:
        assert ledger.append(s.note()).ts == "2026-11-30T12:00:01.000000Z"
