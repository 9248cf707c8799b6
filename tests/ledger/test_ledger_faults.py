from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import ledger_samples as s
import pytest

from infra_agent.errors import UsageError
from infra_agent.ledger import kinds as k
from infra_agent.ledger.chain import LEDGER_FILE, read_chain
from infra_agent.ledger.store import Ledger
from infra_agent.ledger.verify import verify

pytestmark = pytest.mark.requirement("L6")


def write_until_killed(run_dir: Path, size: int) -> None:
    with Ledger.open(run_dir, s.ticking()) as ledger:
        while True:
            ledger.append(s.note("x" * size))
            ledger.append(s.launch(f"L{len(ledger.events)}"))


def test_a_ledger_survives_fifteen_kills_in_the_middle_of_writing(tmp_path):
    s.write(tmp_path, [s.started()])
    path = tmp_path / LEDGER_FILE
    random_source = random.Random(7)
    known: tuple = ()
    for _ in range(15):
        size = random_source.choice([200, 100_000, 1_000_000])
        enough = path.stat().st_size + random_source.randrange(1, 3 * size)
        pid = s.in_child(lambda size=size: write_until_killed(tmp_path, size))
        deadline = time.monotonic() + 30
        while path.stat().st_size < enough and time.monotonic() < deadline:
            time.sleep(0.0005)
        os.kill(pid, signal.SIGKILL)
        assert s.ended(pid) == -signal.SIGKILL
        with Ledger.open(tmp_path, s.ticking()) as ledger:
            assert ledger.events[: len(known)] == known
            assert len(ledger.events) > len(known)
            known = ledger.events
        assert verify(tmp_path).ok
    dropped = [at.data for at in ledger.state().events if isinstance(at.data, k.Recovered)]
    assert all((tmp_path / event.kept_as).stat().st_size == event.dropped_bytes for event in dropped)


def tell(run_dir: Path, crash_at: str) -> None:
    """Store the story from wherever the ledger stands."""
    if crash_at:
        os.environ["INFRA_AGENT_CRASH_AT"] = crash_at
    exists = (run_dir / LEDGER_FILE).exists() and read_chain(run_dir).events
    with (Ledger.open if exists else Ledger.create)(run_dir, s.ticking()) as ledger:
        done = sum(event.kind != "recovered" for event in ledger.events)
        for data in s.story()[done:]:
            ledger.append(data)


def meaning(run_dir: Path) -> object:
    with Ledger.open(run_dir, s.ticking()) as ledger:
        state = ledger.state()
    told = [at.data for at in state.events if not isinstance(at.data, k.Recovered)]
    return told, state.best, state.phase, state.elapsed_s, state.finished, state.observations, state.noise


@pytest.mark.parametrize("moment", ["before", "after", "torn"])
def test_a_run_killed_at_any_event_and_resumed_tells_the_same_story(tmp_path, moment):
    tell(tmp_path / "whole", "")
    expected = meaning(tmp_path / "whole")
    for seq in range(2, len(s.story()) + 1):
        run_dir = tmp_path / str(seq)
        assert s.ended(s.in_child(lambda at=run_dir, seq=seq: tell(at, f"{seq}:{moment}"))) == -signal.SIGKILL
        chain = read_chain(run_dir)
        assert len(chain.events) == (seq if moment == "after" else seq - 1)
        assert bool(chain.tail) == (moment == "torn")
        tell(run_dir, "")
        assert meaning(run_dir) == expected
        assert verify(run_dir).ok


def test_a_crash_point_without_a_moment_comes_after_the_event(tmp_path):
    assert s.ended(s.in_child(lambda: tell(tmp_path, "3"))) == -signal.SIGKILL
    assert len(read_chain(tmp_path).events) == 3


def append_until_refused(ledger: Ledger) -> UsageError:
    for _ in range(1000):
        try:
            ledger.append(s.note("x" * 5000))
        except UsageError as error:
            return error
    raise AssertionError("the disk never filled up")


def fill(run_dir: Path, report: Path) -> None:
    """Write until the disk refuses; report how many events were acknowledged and how many artifact files are left."""
    with Ledger.create(run_dir, s.ticking()) as ledger:
        ledger.append(s.started())
        messages = [append_until_refused(ledger).message]
        with pytest.raises(UsageError) as caught:
            ledger.put_artifact(b"y" * 500_000)
        messages.append(caught.value.message)
        left = len(list((run_dir / "artifacts").iterdir()))
        report.write_text(json.dumps([messages, len(ledger.events), left]))


def test_a_file_size_limit_is_said_in_plain_words_and_leaves_a_whole_ledger(tmp_path):
    report = tmp_path / "report.txt"

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64_000, 64_000))
        fill(tmp_path / "run", report)

    assert s.ended(s.in_child(limited)) == 0
    messages, acknowledged, left = json.loads(report.read_text())
    assert all("file size limit reached" in message for message in messages)
    assert acknowledged > 5
    assert left == 0
    check_goes_on(tmp_path / "run", acknowledged)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", mount], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a small file system needs root")
    yield mount
    subprocess.run(["umount", mount], check=True)


def test_a_full_disk_is_said_in_plain_words_and_the_run_goes_on_once_there_is_space(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"z" * 65_536)
    with Ledger.create(small_disk / "run", s.ticking()) as ledger:
        ledger.append(s.started())
        refused = append_until_refused(ledger)
        assert "disk full" in refused.message
        assert "resume run" in refused.hint
        with pytest.raises(UsageError, match="disk full"):
            ledger.put_artifact(b"y" * 200_000)
        stored = len(ledger.events)
        check_chain(small_disk / "run", stored)
        ballast.unlink()
        assert ledger.append(s.note("space again")).seq == stored + 1
    check_goes_on(small_disk / "run", stored + 1)


def test_a_torn_tail_on_a_full_disk_is_not_lost(small_disk):
    run_dir = s.write(small_disk / "run", [s.started()])
    with (run_dir / LEDGER_FILE).open("ab") as file:
        file.write(b"t" * 20_000)
    (small_disk / "ballast").write_bytes(b"z" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
    with pytest.raises(UsageError, match="disk full"):
        Ledger.open(run_dir, s.ticking())
    assert read_chain(run_dir).tail == b"t" * 20_000
    (small_disk / "ballast").unlink()
    with Ledger.open(run_dir, s.ticking()) as ledger:
        kept = [at.data.kept_as for at in ledger.state().events if isinstance(at.data, k.Recovered)]
    assert b"t" * 20_000 in [(run_dir / name).read_bytes() for name in kept]
    assert verify(run_dir).ok


def check_chain(run_dir: Path, events: int) -> None:
    chain = read_chain(run_dir)
    assert (len(chain.events), chain.problems, chain.tail) == (events, (), b"")


def check_goes_on(run_dir: Path, events: int) -> None:
    check_chain(run_dir, events)
    with Ledger.open(run_dir, s.ticking()) as ledger:
        assert ledger.append(s.note("on")).seq == events + 1
    assert verify(run_dir).ok
