from __future__ import annotations

import errno
import os
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import ledger_samples as s
import pytest

from infra_agent.errors import InfraAgentError, LedgerError, UsageError
from infra_agent.ledger import kinds as k
from infra_agent.ledger import store
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.event import encode, seal
from infra_agent.ledger.store import Ledger
from infra_agent.ledger.verify import verify

pytestmark = pytest.mark.requirement("L1")


def ledger_bytes(run_dir: Path) -> bytes:
    return (run_dir / LEDGER_FILE).read_bytes()


def reopened(run_dir: Path) -> Ledger:
    return Ledger.open(run_dir, s.ticking())


def test_what_is_stored_is_there_after_reopening(tmp_path):
    with Ledger.create(tmp_path / "run", s.ticking()) as ledger:
        for data in s.story():
            event = ledger.append(data)
            assert ledger.events[-1] == event
        state, events = ledger.state(), ledger.events
    before = ledger_bytes(tmp_path / "run")
    with reopened(tmp_path / "run") as again:
        assert again.events == events
        assert repr(again.state()) == repr(state)
    assert ledger_bytes(tmp_path / "run") == before


def test_an_appended_event_is_returned_as_it_will_be_read_back(tmp_path):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        event = ledger.append(s.started(budget_s=600.0))
    with reopened(tmp_path) as again:
        assert repr(again.events[0]) == repr(event)
    assert event.ts == "2026-11-30T12:00:01.000000Z"
    assert (event.seq, event.prev) == (1, "0" * 64)


def test_a_torn_tail_is_cut_off_and_kept_at_every_byte_of_the_last_record(tmp_path):
    whole = ledger_bytes(s.write(tmp_path / "whole", [s.started(), s.note("first"), s.note("é\u2028")]))
    start = whole[:-1].rindex(b"\n") + 1
    for cut in range(start, len(whole) + 1):
        run_dir = tmp_path / f"cut{cut}"
        run_dir.mkdir()
        (run_dir / LEDGER_FILE).write_bytes(whole[:cut])
        with reopened(run_dir) as ledger:
            torn = cut not in (start, len(whole))
            assert len(ledger.events) == 2 + (torn or cut == len(whole))
            if torn:
                recovered = ledger.state().events[-1].data
                assert recovered == k.Recovered(dropped_bytes=cut - start, kept_as="events.jsonl.torn-1")
                assert (run_dir / "events.jsonl.torn-1").read_bytes() == whole[start:cut]
            ledger.append(s.note("and on"))
        assert verify(run_dir).ok


def test_a_second_tear_is_kept_beside_the_first(tmp_path):
    s.write(tmp_path, [s.started()])
    for number, rubbish in enumerate((b'{"data":', b"\x00\x00\x00"), start=1):
        with (tmp_path / LEDGER_FILE).open("ab") as file:
            file.write(rubbish)
        with reopened(tmp_path):
            assert (tmp_path / f"events.jsonl.torn-{number}").read_bytes() == rubbish
    assert verify(tmp_path).ok


def test_a_tail_that_was_kept_by_a_killed_opening_is_recorded_by_the_next(tmp_path):
    s.write(tmp_path, [s.started()])
    (tmp_path / "events.jsonl.torn-1").write_bytes(b"half")
    with reopened(tmp_path) as ledger:
        assert ledger.state().events[-1].data == k.Recovered(dropped_bytes=4, kept_as="events.jsonl.torn-1")
    with reopened(tmp_path) as ledger:
        assert len(ledger.events) == 2


def test_a_chain_broken_in_the_middle_is_refused_by_number_and_left_alone(tmp_path):
    s.write(tmp_path, s.story())
    lines = ledger_bytes(tmp_path).split(b"\n")
    lines[6] = lines[6].replace(b'"elapsed_s":60', b'"elapsed_s":6')
    (tmp_path / LEDGER_FILE).write_bytes(b"\n".join(lines) + b"torn")
    before = ledger_bytes(tmp_path)
    with pytest.raises(LedgerError, match="event 7 does not match its hash") as caught:
        reopened(tmp_path)
    assert caught.value.where.endswith("events.jsonl:7")
    assert ledger_bytes(tmp_path) == before
    assert not list(tmp_path.glob("*.torn-*"))


def test_a_whole_but_wrong_last_line_is_not_taken_for_a_torn_one(tmp_path):
    s.write(tmp_path, [s.started(), s.note()])
    (tmp_path / LEDGER_FILE).write_bytes(ledger_bytes(tmp_path).replace(b"a line", b"a lime"))
    with pytest.raises(LedgerError, match="event 2"):
        reopened(tmp_path)


def test_a_ledger_without_its_first_event_cannot_be_resumed(tmp_path):
    Ledger.create(tmp_path, s.ticking()).close()
    for content in (b"", b'{"data":{"run'):
        (tmp_path / LEDGER_FILE).write_bytes(content)
        with pytest.raises(LedgerError, match="before its first event") as caught:
            reopened(tmp_path)
        assert "new run" in caught.value.hint
        assert ledger_bytes(tmp_path) == content
    with pytest.raises(LedgerError, match="has no ledger"):
        reopened(tmp_path / "nothing")


def test_a_sound_chain_that_tells_the_impossible_is_refused(tmp_path):
    lines = map(encode, s.chained(s.started(), s.verdict("C9")))
    (tmp_path / LEDGER_FILE).write_bytes(b"".join(lines))
    with pytest.raises(LedgerError, match=r"event 2 \(verdict\)"):
        reopened(tmp_path)


def test_events_of_a_later_version_are_kept_and_continued(tmp_path):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        head = ledger.append(s.started())
    unknown = seal(seq=2, prev=head.hash, ts=head.ts, kind="telepathy", data={"strength": 0.5})
    with (tmp_path / LEDGER_FILE).open("ab") as file:
        file.write(encode(unknown))
    with reopened(tmp_path) as ledger:
        assert ledger.events[1] == unknown
        assert ledger.append(s.note()).seq == 3
    assert verify(tmp_path).ok


def test_a_second_writer_is_refused_with_the_run_and_the_process(tmp_path):
    run_dir = tmp_path / "01RUN"
    with Ledger.create(run_dir, s.ticking()) as ledger:
        ledger.append(s.started())

        def second() -> None:
            with pytest.raises(UsageError, match=f"run 01RUN is in use by process {os.getppid()}"):
                reopened(run_dir)

        assert s.ended(s.in_child(second)) == 0
        with pytest.raises(UsageError, match="run 01RUN is in use"):
            reopened(run_dir)
        ledger.append(s.note("still the writer"))
    reopened(run_dir).close()


def test_a_refused_second_writer_does_not_touch_a_torn_looking_tail(tmp_path):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.append(s.started())
        with (tmp_path / LEDGER_FILE).open("ab") as file:
            file.write(b"in the middle of an append")
        before = ledger_bytes(tmp_path)
        with pytest.raises(UsageError):
            reopened(tmp_path)
        assert ledger_bytes(tmp_path) == before


def test_a_run_can_be_created_once(tmp_path):
    s.write(tmp_path, [s.started()])
    before = ledger_bytes(tmp_path)
    with pytest.raises(UsageError, match="has a ledger already"):
        Ledger.create(tmp_path, s.ticking())
    assert ledger_bytes(tmp_path) == before
    reopened(tmp_path).close()


def test_an_event_that_cannot_happen_is_refused_before_it_is_written(tmp_path):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        with pytest.raises(LedgerError, match="begins with run_started"):
            ledger.append(s.note())
        with pytest.raises(LedgerError, match="never started"):
            ledger.state()
        ledger.append(s.started())
        before = ledger_bytes(tmp_path)
        with pytest.raises(LedgerError, match=r"event 2 \(verdict\)"):
            ledger.append(s.verdict("C9"))
        assert ledger_bytes(tmp_path) == before
        assert ledger.append(s.note()).seq == 2


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused_and_nothing_is_written(tmp_path, number):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.append(s.started())
        before = ledger_bytes(tmp_path)
        for data in (s.noise(number), s.observation("O1", deep={"list": [1.0, number]})):
            with pytest.raises(LedgerError, match="event 2"):
                ledger.append(data)
        with pytest.raises(LedgerError, match="surrogate|codepoints|canonical"):
            ledger.append(s.observation("O1", text="\ud800"))
        assert ledger_bytes(tmp_path) == before
        assert ledger.append(s.observation("O1", text="\u2028\n" + "x" * 2_000_000)).seq == 2
    assert verify(tmp_path).ok


def test_only_the_known_kinds_can_be_appended(tmp_path):
    class Rumour(k.Note):
        kind = "rumour"

    class Disguised(k.Note):
        pass

    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.append(s.started())
        for foreign in (Rumour, Disguised):
            with pytest.raises(LedgerError, match="not an event"):
                ledger.append(foreign(topic="info", text="x"))


def test_a_closed_ledger_cannot_be_written(tmp_path):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.append(s.started())
    ledger.close()
    with pytest.raises(InfraAgentError, match="closed"):
        ledger.append(s.note())
    assert ledger.state().head_seq == 1


def test_time_stamps_are_utc_whatever_the_clocks_zone(tmp_path):
    zone = timezone(timedelta(hours=5, minutes=30))
    with Ledger.create(tmp_path, lambda: datetime(2026, 12, 1, 3, 0, 0, 42, zone)) as ledger:
        assert ledger.append(s.started()).ts == "2026-11-30T21:30:00.000042Z"
    ledger = Ledger.open(tmp_path, lambda: datetime.now(UTC).replace(tzinfo=None))
    with ledger, pytest.raises(ValueError, match="time zone"):
        ledger.append(s.note())
    assert verify(tmp_path).events == 1


def test_only_synced_kinds_wait_for_the_disk(tmp_path, monkeypatch):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        flushed: list[int] = []
        monkeypatch.setattr(store, "flush", flushed.append)
        counts = []
        for data in (s.started(), s.note(), s.launch("L1"), s.launch_ended("L1")):
            ledger.append(data)
            counts.append(len(flushed))
    assert counts == [1, 1, 2, 2]


def test_an_interrupt_in_the_middle_of_a_write_leaves_no_trace(tmp_path, monkeypatch):
    def interrupted(fd: int, data: bytes) -> None:
        os.write(fd, data[:20])
        raise KeyboardInterrupt

    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.append(s.started())
        before = ledger_bytes(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(store, "write_all", interrupted)
            with pytest.raises(KeyboardInterrupt):
                ledger.append(s.note("lost"))
        assert ledger_bytes(tmp_path) == before
        ledger.append(k.Interrupted(reason="ctrl-c"))
    assert verify(tmp_path).ok


def test_a_failed_flush_takes_the_event_back_and_ends_the_writing(tmp_path, monkeypatch):
    def fails(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.append(s.started())
        before = ledger_bytes(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(store, "flush", fails)
            with pytest.raises(UsageError, match="Input/output error") as caught:
                ledger.append(s.launch("L1"))
        assert "resume" in caught.value.hint
        assert ledger_bytes(tmp_path) == before
        with pytest.raises(InfraAgentError, match="flush"):
            ledger.append(s.note())
    with reopened(tmp_path) as again:
        again.append(s.launch("L1"))
    assert verify(tmp_path).ok


def test_a_ledger_deleted_or_cut_under_the_writer_is_noticed(tmp_path):
    with Ledger.create(tmp_path / "a", s.ticking()) as ledger:
        ledger.append(s.started())
        (tmp_path / "a" / LEDGER_FILE).unlink()
        with pytest.raises(LedgerError, match="deleted or cut"):
            ledger.append(s.note())
    with Ledger.create(tmp_path / "b", s.ticking()) as ledger:
        ledger.append(s.started())
        (tmp_path / "b" / LEDGER_FILE).write_bytes(b"")
        with pytest.raises(LedgerError, match="deleted or cut"):
            ledger.append(s.note())
    assert ledger_bytes(tmp_path / "b") == b""


def test_threads_of_one_writer_do_not_mix_their_events(tmp_path):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.append(s.started())
        work = [
            threading.Thread(target=lambda: [ledger.append(s.note("x" * 5000)) for _ in range(25)]) for _ in range(4)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert len(ledger.events) == 101
    assert verify(tmp_path).ok


def test_a_wrong_crash_point_is_a_usage_error_and_takes_no_lock(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("INFRA_AGENT_CRASH_AT", "soon")
        with pytest.raises(UsageError, match="INFRA_AGENT_CRASH_AT=soon"):
            Ledger.create(tmp_path, s.ticking())
    Ledger.create(tmp_path, s.ticking()).close()


def test_artifacts_are_named_by_their_content_and_found_again(tmp_path):
    log = tmp_path / "engine.log"
    log.write_bytes(b"line\n" * 500_000)
    with Ledger.create(tmp_path / "run", s.ticking()) as ledger:
        name = ledger.put_artifact(log)
        assert ledger.put_artifact(log.read_bytes()) == name
        assert ledger.artifact_path(name).read_bytes() == log.read_bytes()
        assert ledger.artifact_path(ledger.put_artifact(b"")).read_bytes() == b""
        assert len(list((tmp_path / "run" / "artifacts").iterdir())) == 2
        with pytest.raises(LedgerError, match="does not exist"):
            ledger.put_artifact(tmp_path / "missing.log")


@pytest.mark.parametrize("name", ["", "../events.jsonl", "0" * 64, "/etc/passwd", "a\x00b"])
def test_a_name_that_is_no_artifact_is_refused(tmp_path, name):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.put_artifact(b"x")
        with pytest.raises(LedgerError, match="no artifact"):
            ledger.artifact_path(name)


def test_half_written_artifacts_of_a_killed_writer_are_removed_on_opening(tmp_path):
    with Ledger.create(tmp_path, s.ticking()) as ledger:
        ledger.append(s.started())
        name = ledger.put_artifact(b"whole")
    (tmp_path / "artifacts" / ".part-0123").write_bytes(b"ha")
    with reopened(tmp_path):
        assert [path.name for path in (tmp_path / "artifacts").iterdir()] == [name]
