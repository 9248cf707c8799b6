"""Profiles of Python frames: real py-spy and cProfile recordings, and hand-made ones with known answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from probes.base import Verdict
from probes.trace.profile.read import read
from probes.trace.profile.run import profile
from probes.trace.profile.samples import FrameProfile
from probes.trace.profile.source import UnreadableTrace

BUSY = """
def hot(n):
    return sum(i * i for i in range(n))

def outer():
    for _ in range({rounds}):
        hot(20000)

outer()
"""


def frames(path: Path) -> FrameProfile:
    found = read(path)
    assert isinstance(found, FrameProfile)
    return found


def speedscope(profiles: list[dict[str, Any]]) -> str:
    shared = {"frames": [{"name": "outer", "file": "a.py", "line": 1}, {"name": "hot", "file": "a.py", "line": 9}]}
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps({"$schema": schema, "shared": shared, "profiles": profiles})


def test_a_speedscope_file_tells_own_time_total_time_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    sampled = {"type": "sampled", "name": "MainThread", "unit": "seconds", "samples": [[0, 1], [0]], "weights": [3, 1]}
    evented = {
        "type": "evented", "name": "worker", "unit": "seconds",
        "events": [{"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 1},
                   {"type": "C", "frame": 1, "at": 5}, {"type": "C", "frame": 0, "at": 6}],
    }  # fmt: skip
    path.write_text(speedscope([sampled, evented]))
    found = frames(path)
    hot, outer = found.rows
    assert (hot.frame.name, hot.own, hot.total) == ("hot", 7, 7)
    assert (outer.frame.name, outer.own, outer.total) == ("outer", 3, 10)
    assert found.threads == {"MainThread": 0.4, "worker": 0.6}
    assert found.unit == "s"


def test_collapsed_stacks_are_read_and_bad_lines_counted(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    path.write_text("outer (a.py:1);hot (a.py:9) 30\nouter (a.py:1) 10\nnonsense\n")
    found = frames(path)
    assert (found.rows[0].frame.name, found.rows[0].frame.line, found.rows[0].own) == ("hot", 9, 30)
    assert "1 lines" in found.notes[0]


def test_a_real_cprofile_file_names_the_hot_function(tmp_path: Path) -> None:
    program, out = tmp_path / "busy.py", tmp_path / "out.prof"
    program.write_text(BUSY.format(rounds=20))
    subprocess.run([sys.executable, "-m", "cProfile", "-o", str(out), str(program)], check=True)
    seen = profile(out)
    assert seen.verdict is Verdict.PASS
    assert seen.where.file is not None
    assert any(row.frame.name == "hot" and row.calls == 20 for row in frames(out).rows)


def test_a_real_py_spy_recording_names_the_hot_line(tmp_path: Path) -> None:
    program, out = tmp_path / "busy.py", tmp_path / "rec.json"
    program.write_text(BUSY.format(rounds=400))
    spy = Path(sys.executable).parent / "py-spy"
    command = [str(spy), "record", "-f", "speedscope", "-o", str(out), "-r", "50", "--", sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if not out.exists():
        pytest.skip(f"py-spy may not attach here: {done.stderr[-200:]}")
    found = frames(out)
    assert any("hot" in row.frame.name or "genexpr" in row.frame.name for row in found.rows[:2])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("cut.json", speedscope([])[:-30].encode(), "no complete speedscope file"),
        ("frames.json", speedscope([{"type": "sampled", "samples": [[99]]}]).encode(), "frames that it does not hold"),
        ("broken.prof", b"{(broken", "cannot be read as a cProfile file"),
        ("broken2.prof", b"{\xa9\x03", "cannot be read as a cProfile file"),
    ],
)
def test_damaged_recordings_say_what_helps(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UnreadableTrace, match=says):
        read(path)


def test_a_recording_too_large_to_hold_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.trace.profile.read.LARGEST_WHOLE", 1000)
    path = tmp_path / "stacks.txt"
    path.write_text("outer;hot 1\n" * 500)
    with pytest.raises(UnreadableTrace, match="record for a shorter time"):
        read(path)


def test_a_recording_of_an_idle_program_is_inconclusive(tmp_path: Path) -> None:
    path = tmp_path / "idle.json"
    path.write_text(speedscope([]))
    seen = profile(path)
    assert seen.verdict is Verdict.INCONCLUSIVE
    assert "idle" in seen.summary
