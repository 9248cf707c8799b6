from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import ledger_samples as s
import pytest
from ulid import ULID

from infra_agent.errors import RunNotFound, UsageError
from infra_agent.ledger import kinds as k
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.lock import has_writer
from infra_agent.ledger.runs import find_run, list_runs, new_run_dir
from infra_agent.ledger.store import Ledger

pytestmark = pytest.mark.requirement("L4")

FIRST, SECOND, THIRD = "01AAAAAAAAAAAAAAAAAAAAAAA1", "01AAAAAAAAAAAAAAAAAAAAAAA2", "01BBBBBBBBBBBBBBBBBBBBBBB3"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for id in (THIRD, FIRST, SECOND):
        s.write(tmp_path / id, [s.started()])
    (tmp_path / "notes").mkdir()
    (tmp_path / ".gitkeep").touch()
    (tmp_path / "01CCCCCCCCCCCCCCCCCCCCCCC4").touch()
    return tmp_path


def only(root: Path):
    (summary,) = list_runs(root)
    return summary


def test_a_new_run_gets_a_directory_of_its_own_named_by_a_ulid(tmp_path):
    paths = [new_run_dir(tmp_path / "runs") for _ in range(20)]
    assert len(set(paths)) == 20
    assert all(path.is_dir() and str(ULID.from_str(path.name)) == path.name for path in paths)


def test_a_taken_name_is_never_reused(tmp_path):
    (tmp_path / FIRST).mkdir()
    names = iter([FIRST, FIRST, SECOND])
    assert new_run_dir(tmp_path, lambda: next(names)) == tmp_path / SECOND


def test_a_place_that_cannot_hold_runs_is_a_usage_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="no run can be stored here"):
        new_run_dir(tmp_path / "file" / "runs")


@pytest.mark.parametrize(
    ("ref", "id"),
    [("last", THIRD), (FIRST, FIRST), (SECOND.lower(), SECOND), ("01B", THIRD), ("01b", THIRD), (f" {FIRST} ", FIRST)],
)
def test_a_run_is_found_by_last_by_id_and_by_a_unique_beginning(root, ref, id):
    assert find_run(root, ref) == root / id


def test_last_passes_over_a_directory_without_a_ledger(root):
    (root / "01ZZZZZZZZZZZZZZZZZZZZZZZZ").mkdir()
    assert find_run(root, "last").name == THIRD


def test_an_ambiguous_beginning_lists_what_it_matches(root):
    with pytest.raises(RunNotFound, match="the beginning of 2 runs") as caught:
        find_run(root, "01A")
    assert caught.value.lines == (FIRST, SECOND)
    assert "more characters" in caught.value.hint


def test_a_mistyped_id_is_answered_with_the_nearest(root):
    with pytest.raises(RunNotFound, match="no run") as caught:
        find_run(root, THIRD[:-1] + "9")
    assert caught.value.hint == f"did you mean {THIRD}?"


@pytest.mark.parametrize("ref", ["", "  ", "../notes", "notes", "/", "*", "ünï"])
def test_what_names_no_run_is_not_found(root, ref):
    with pytest.raises(RunNotFound):
        find_run(root, ref)


def test_an_empty_name_is_not_the_beginning_of_the_only_run(tmp_path):
    s.write(tmp_path / FIRST, [s.started()])
    with pytest.raises(RunNotFound):
        find_run(tmp_path, "")


@pytest.mark.parametrize("place", ["empty", "missing"])
def test_without_runs_the_way_to_start_one_is_shown(tmp_path, place):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunNotFound, match="no runs yet") as caught:
        find_run(tmp_path / place, "last")
    assert "infra-agent run --goal" in caught.value.hint
    assert list_runs(tmp_path / place) == []


def test_runs_are_listed_newest_first_and_other_files_are_not(root):
    assert [summary.id for summary in list_runs(root)] == [THIRD, SECOND, FIRST]


def test_a_finished_run_shows_its_goal_its_end_and_its_best(tmp_path):
    s.write(tmp_path / FIRST, s.story())
    summary = only(tmp_path)
    assert (summary.status, summary.outcome, summary.best) == ("finished", "The run ended: met.", "C1")
    assert summary.goal_text == s.GOAL.text
    assert summary.started_ts == "2026-11-30T12:00:01.000000Z"
    assert summary.path == tmp_path / FIRST


def test_a_run_that_waits_for_a_person_says_so(tmp_path):
    s.write(tmp_path / FIRST, [s.started(), s.candidate("C1"), s.waiting("C1"), s.finished("waiting")])
    assert only(tmp_path).status == "waiting"


def test_a_run_without_an_end_and_without_a_writer_is_interrupted(tmp_path):
    s.write(tmp_path / FIRST, s.story()[:10])
    summary = only(tmp_path)
    assert summary.status == "interrupted"
    assert summary.outcome == "stopped in phase tuning after 60 s; can be resumed"


def test_a_finished_run_that_was_resumed_and_stopped_is_interrupted(tmp_path):
    s.write(tmp_path / FIRST, [*s.story(), k.RunResumed(pid=1, spent_s=300)])
    assert only(tmp_path).status == "interrupted"


def test_a_torn_tail_does_not_make_a_run_damaged(tmp_path):
    s.write(tmp_path / FIRST, s.story()[:3])
    with (tmp_path / FIRST / LEDGER_FILE).open("ab") as file:
        file.write(b'{"data":{')
    assert only(tmp_path).status == "interrupted"


def test_a_run_is_running_while_its_writer_lives_and_interrupted_once_it_is_killed(tmp_path):
    ready, tell = os.pipe()

    def hold() -> None:
        with Ledger.create(tmp_path / FIRST, s.ticking()) as ledger:
            os.write(tell, b"1")
            ledger.append(s.started())
            ledger.append(s.phase("baseline"))
            os.write(tell, b"2")
            signal.pause()

    pid = s.in_child(hold)
    os.close(tell)
    try:
        while (said := os.read(ready, 1)) == b"1":
            assert only(tmp_path).status == "running"
        assert said == b"2"
        assert (only(tmp_path).status, only(tmp_path).outcome) == ("running", "in phase baseline")
    finally:
        os.kill(pid, signal.SIGKILL)
        s.ended(pid)
        os.close(ready)
    assert only(tmp_path).status == "interrupted"


def test_asking_for_a_writer_never_keeps_one_out(tmp_path):
    s.write(tmp_path / FIRST, [s.started()])

    def ask_forever() -> None:
        while True:
            has_writer(tmp_path / FIRST)

    pid = s.in_child(ask_forever)
    try:
        for _ in range(30):
            Ledger.open(tmp_path / FIRST, s.ticking()).close()
    finally:
        os.kill(pid, signal.SIGKILL)
        s.ended(pid)


def test_two_listings_at_once_do_not_take_each_other_for_a_writer(tmp_path):
    s.write(tmp_path / FIRST, [s.started()])
    with (tmp_path / FIRST / "writer.lock").open() as other_listing:
        fcntl.flock(other_listing, fcntl.LOCK_SH)
        assert only(tmp_path).status == "interrupted"


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 100, b"\n\n\n", b"not json\n", b'{"data":{', b"[]\n", b'{"a":' * 5000 + b"\n", None],
    ids=["empty", "zeros", "newlines", "text", "torn first", "list", "deep", "no file"],
)
def test_a_damaged_run_is_listed_as_such_beside_the_others(tmp_path, content):
    s.write(tmp_path / FIRST, s.story())
    (tmp_path / SECOND).mkdir()
    if content is not None:
        (tmp_path / SECOND / LEDGER_FILE).write_bytes(content)
    damaged, sound = list_runs(tmp_path)
    assert (damaged.status, damaged.best, damaged.goal_text) == ("damaged", "", "")
    assert damaged.outcome
    assert sound.status == "finished"


def test_a_run_damaged_half_way_still_shows_its_goal_and_where_it_breaks(tmp_path):
    s.write(tmp_path / FIRST, s.story())
    lines = (tmp_path / FIRST / LEDGER_FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / FIRST / LEDGER_FILE).write_bytes(b"".join(lines[:15] + lines[16:]))
    summary = only(tmp_path)
    assert (summary.status, summary.best, summary.goal_text) == ("damaged", "C1", s.GOAL.text)
    assert "event 16 was due" in summary.outcome


def test_a_directory_in_place_of_the_ledger_is_a_damaged_run(tmp_path):
    (tmp_path / FIRST / LEDGER_FILE).mkdir(parents=True)
    assert only(tmp_path).status == "damaged"
