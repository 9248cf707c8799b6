"""py-spy on running processes, and every way in which it cannot attach."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from probes.base import Verdict
from probes.trace.attach import AttachFailed, attached, record

BUSY = "def hot():\n    while True:\n        sum(range(1000))\nprint('up', flush=True)\nhot()\n"


def test_a_busy_process_shows_its_hot_function() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        try:
            seen = record(busy.pid, 2.0, rate_hz=50)
        except AttachFailed as error:
            if "may not be looked into" not in str(error):
                raise
            pytest.skip(str(error))
        finally:
            busy.kill()
    assert seen.verdict is Verdict.PASS
    assert "hot" in str(seen.signals["top_frame"])


def test_a_process_that_is_gone_is_told_plainly(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(AttachFailed, match="does not exist"), attached(ended.pid, tmp_path / "out.json"):
        pass


def test_a_process_without_python_is_told_plainly(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            with (
                pytest.raises(AttachFailed, match=rf"process {sleeper.pid} "),
                attached(sleeper.pid, tmp_path / "o.json"),
            ):
                time.sleep(1.0)
        finally:
            sleeper.kill()


def test_a_process_that_ends_meanwhile_leaves_what_was_recorded_or_says_so() -> None:
    program = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: sum(range(999))\n"
    with subprocess.Popen([sys.executable, "-c", program]) as brief:
        try:
            said = str(record(brief.pid, 60.0, rate_hz=50).verdict)
        except AttachFailed as error:
            said = f"process {brief.pid}" if f"process {brief.pid}" in str(error) else str(error)
        finally:
            brief.kill()
    assert said in ("pass", "inconclusive", f"process {brief.pid}")


def test_nothing_is_left_of_the_recorder(tmp_path: Path) -> None:
    with pytest.raises(AttachFailed):
        record(2**22 + os.getpid(), 0.1)
    assert not list(tmp_path.iterdir())
