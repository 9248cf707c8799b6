"""One command behind the walls: everything about it is bounded, and everything about it is told."""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from infra_agent.errors import InfraAgentError
from infra_agent.harness import command as module
from infra_agent.harness.command import KEEP_BYTES, CommandResult, run_command
from infra_agent.harness.sandbox import NO_WALLS, Walls, hold_walls

pytestmark = pytest.mark.requirement("E2")
LONG_S = 120.0
ANSWER = "import json, os, struct; body = json.dumps({}).encode(); os.write(3, struct.pack('>I', len(body)) + body)"


@pytest.fixture(scope="module")
def walled() -> Walls:
    return hold_walls(no_sandbox=False)


@pytest.fixture(params=["bubblewrap", "none"])
def walls(request: pytest.FixtureRequest, walled: Walls) -> Walls:
    return walled if request.param == "bubblewrap" else NO_WALLS


def run(folder: Path, walls: Walls, argv: list[str], timeout_s: float = LONG_S, **options: Any) -> CommandResult:
    env = {"PATH": os.defpath, "HOME": str(folder)}
    return run_command(argv, walls=walls, cwd=folder, env=env, timeout_s=timeout_s, writable=[folder], **options)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_a_command_that_ends_well_is_told_in_full(tmp_path: Path, walls: Walls) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); end = 0\nfor i in range(2_000_000): end += i"
    found = run(tmp_path, walls, python(code))
    assert found.ok
    assert (found.exit_code, found.signal, found.timed_out, found.killed_reason) == (0, None, False, "")
    assert (found.stdout.text(), found.stderr.text()) == ("out\n", "err\n")
    assert (found.answer, found.answer_error) == (None, "")
    assert found.argv == tuple(python(code))
    assert 0.02 < found.cpu_s <= 4 * found.wall_s
    assert 2**20 < found.peak_memory_bytes < 2**28


def test_the_exit_code_is_the_commands_own(tmp_path: Path, walls: Walls) -> None:
    found = run(tmp_path, walls, python("import sys; sys.exit(7)"))
    assert not found.ok
    assert (found.exit_code, found.signal) == (7, None)


def test_a_command_that_a_signal_ends_names_the_signal(tmp_path: Path, walls: Walls) -> None:
    found = run(tmp_path, walls, python("import os; os.kill(os.getpid(), 11)"))
    assert (found.exit_code, found.signal) == (128 + signal.SIGSEGV, signal.SIGSEGV)


def test_a_command_that_does_not_exist_is_a_result_with_its_reason(tmp_path: Path, walls: Walls) -> None:
    found = run(tmp_path, walls, ["/nonexistent/program"])
    assert not found.ok
    assert "/nonexistent/program" in found.stderr.text()


def test_the_environment_is_exactly_the_given_one(
    tmp_path: Path, walls: Walls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    found = run(tmp_path, walls, ["/usr/bin/env"])
    names = {line.partition("=")[0] for line in found.stdout.text().splitlines()}
    assert names - {"PWD"} == {"PATH", "HOME"}


def test_without_input_the_command_reads_an_end_at_once(tmp_path: Path, walls: Walls) -> None:
    assert run(tmp_path, walls, python("import sys; print(len(sys.stdin.buffer.read()))")).stdout.text() == "0\n"


def test_input_of_any_size_arrives_whole(tmp_path: Path, walls: Walls) -> None:
    sent = os.urandom(3_000_000)
    code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    import hashlib

    assert run(tmp_path, walls, python(code), stdin=sent).stdout.text().strip() == hashlib.sha256(sent).hexdigest()


def test_input_that_nobody_reads_holds_nothing_up(tmp_path: Path, walls: Walls) -> None:
    assert run(tmp_path, walls, python("print('done')"), stdin=b"x" * 3_000_000).ok


def test_more_input_than_the_limit_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_STDIN_BYTES", 10)
    with pytest.raises(ValueError, match="11 bytes of input"):
        run(tmp_path, NO_WALLS, python("open('ran', 'w')"), stdin=b"x" * 11)
    assert not (tmp_path / "ran").exists()


def test_each_stream_keeps_its_head_and_its_tail_and_counts_what_lies_between(tmp_path: Path, walls: Walls) -> None:
    code = (
        "import sys\n"
        "for stream, letter in ((sys.stdout, 'o'), (sys.stderr, 'e')):\n"
        "    stream.write('first'); stream.write(letter * 1_000_000); stream.write('last'); stream.flush()"
    )
    found = run(tmp_path, walls, python(code))
    for stream in (found.stdout, found.stderr):
        assert (len(stream.head), len(stream.tail)) == (KEEP_BYTES, KEEP_BYTES)
        assert stream.head.startswith(b"first")
        assert stream.tail.endswith(b"last")
        assert stream.total_bytes == 1_000_009
        assert f"... {stream.dropped_bytes} bytes dropped ..." in stream.text()


def test_output_just_as_long_as_is_kept_loses_nothing(tmp_path: Path, walls: Walls) -> None:
    found = run(tmp_path, walls, python("print('abcdefgh', end='')"), keep_bytes=4)
    assert (found.stdout.head, found.stdout.tail, found.stdout.dropped_bytes) == (b"abcd", b"efgh", 0)
    assert found.stdout.text() == "abcdefgh"


def test_two_gigabytes_of_output_pass_through_a_small_memory(tmp_path: Path, walls: Walls) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = run(tmp_path, walls, ["/usr/bin/head", "-c", str(2 * 10**9), "/dev/zero"], timeout_s=240)
    assert found.ok, found.stderr.text()
    assert found.stdout.total_bytes == 2 * 10**9
    assert found.stdout.dropped_bytes == 2 * 10**9 - 2 * KEEP_BYTES
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


def test_endless_output_ends_with_the_deadline(tmp_path: Path, walls: Walls) -> None:
    found = run(tmp_path, walls, ["/usr/bin/yes"], timeout_s=3)
    assert found.timed_out
    assert found.stdout.total_bytes > 2 * KEEP_BYTES
    assert found.stdout.head.startswith(b"y\ny\n")


def test_bytes_that_are_no_text_are_kept_as_they_are_and_shown_safely(tmp_path: Path, walls: Walls) -> None:
    code = r"import sys; sys.stdout.buffer.write(b'\xff\xfe\x00nul \x1b[31mred\x1b[0m\n\x00\x00\n')"
    found = run(tmp_path, walls, python(code))
    assert found.stdout.head == b"\xff\xfe\x00nul \x1b[31mred\x1b[0m\n\x00\x00\n"
    assert found.stdout.lines(5) == ("\ufffd\ufffdnul red",)


def test_the_deadline_covers_start_run_drain_and_kill(tmp_path: Path, walls: Walls) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(300)"
    )
    started_s = time.monotonic()
    found = run(tmp_path, walls, python(code), timeout_s=4)
    assert found.timed_out
    assert found.exit_code == 128 + signal.SIGKILL
    assert found.stdout.text() == "on\n"
    assert found.wall_s <= time.monotonic() - started_s < 12


def test_a_daemon_that_holds_the_pipe_does_not_hold_up_the_result(tmp_path: Path, walls: Walls) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(300)\n    os._exit(0)\n"
        "os.wait(); print('done')"
    )
    found = run(tmp_path, walls, python(code), timeout_s=LONG_S)
    assert found.ok
    assert found.stdout.text() == "done\n"
    assert found.wall_s < LONG_S / 2


def test_a_command_that_closes_its_output_is_still_waited_for(tmp_path: Path, walls: Walls) -> None:
    code = "import os, time, sys\nfor fd in (0, 1, 2): os.close(fd)\ntime.sleep(0.5); os._exit(5)"
    found = run(tmp_path, walls, python(code))
    assert found.exit_code == 5
    assert found.wall_s >= 0.5


def test_memory_of_children_counts(tmp_path: Path, walls: Walls) -> None:
    code = (
        "import os, time\n"
        "child = os.fork()\nblock = b'x' * (48 << 20)\ntime.sleep(1.5)\n"
        "os.wait() if child else os._exit(0)"
    )
    found = run(tmp_path, walls, python(code))
    assert found.ok
    assert 90 << 20 < found.peak_memory_bytes < 200 << 20


def test_a_short_peak_of_one_process_is_not_missed(tmp_path: Path, walls: Walls) -> None:
    found = run(tmp_path, walls, python("block = b'x' * (64 << 20)"))
    assert found.peak_memory_bytes > 64 << 20


def test_cpu_time_of_children_that_are_gone_counts(tmp_path: Path, walls: Walls) -> None:
    code = "import os, time\nif os.fork() == 0:\n    while time.process_time() < 0.4: pass\n    os._exit(0)\nos.wait()"
    assert run(tmp_path, walls, python(code)).cpu_s >= 0.4


def test_an_answer_comes_back_as_a_typed_document(tmp_path: Path, walls: Walls) -> None:
    code = ANSWER.format("{'ok': True, 'text': 'x' * 200_000}") + "; print('noise')"
    found = run(tmp_path, walls, python(code), answer_bytes=1 << 20)
    assert found.answer == {"ok": True, "text": "x" * 200_000}
    assert (found.answer_error, found.stdout.text()) == ("", "noise\n")


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("pass", "no reply"),
        ("import os; os.write(3, b'\\0\\0')", "breaks off after 2 bytes"),
        ("import os; os.write(3, b'\\0\\0\\0\\x09{}')", "breaks off after 2 of 9 bytes"),
        ("import os; os.write(3, b'\\0\\0\\0\\x02{}{}')", "2 bytes follow the reply"),
        ("import os; os.write(3, b'\\0\\0\\0\\x02\\xff\\xff')", "not JSON"),
        ("import os; os.write(3, b'\\0\\0\\0\\x03nul')", "not JSON"),
        ("import os; os.close(3)", "no reply"),
    ],
)
def test_an_answer_that_is_none_is_named(tmp_path: Path, walled: Walls, code: str, named: str) -> None:
    found = run(tmp_path, walled, python(code), answer_bytes=100)
    assert found.answer is None
    assert named in found.answer_error
    assert found.ok


@pytest.mark.parametrize("size", [101, 2**32 - 1])
def test_an_answer_that_claims_too_much_ends_the_command(tmp_path: Path, walls: Walls, size: int) -> None:
    code = f"import os, time; os.write(3, {struct.pack('>I', size)!r}); time.sleep(300)"
    found = run(tmp_path, walls, python(code), answer_bytes=100)
    assert found.killed_reason == "answer too large"
    assert not found.timed_out
    assert f"claims {size} bytes" in found.answer_error


def test_an_answer_without_end_is_cut_off(tmp_path: Path, walls: Walls) -> None:
    found = run(tmp_path, walls, python("import os\nwhile True: os.write(3, b'\\0' * 65536)"), answer_bytes=100)
    assert found.killed_reason == "answer too large"
    assert found.answer is None


def test_an_answer_may_nest_as_deep_as_it_likes(tmp_path: Path, walled: Walls) -> None:
    code = "import os, struct; body = b'[' * 100_000; os.write(3, struct.pack('>I', len(body)))\nos.write(3, body)"
    found = run(tmp_path, walled, python(code), answer_bytes=1 << 20)
    assert found.answer is None
    assert "not JSON" in found.answer_error


def test_there_is_no_answer_descriptor_unless_one_was_asked_for(tmp_path: Path, walls: Walls) -> None:
    code = "import os\ntry: os.fstat(3); print('open')\nexcept OSError: print('closed')"
    assert run(tmp_path, walls, python(code)).stdout.text() == "closed\n"


def test_the_command_inherits_no_descriptor_of_the_harness(tmp_path: Path, walls: Walls) -> None:
    with (tmp_path / "held").open("wb") as held:
        os.set_inheritable(held.fileno(), True)
        found = run(tmp_path, walls, python("import os; print(sorted(os.listdir('/proc/self/fd')))"), stdin=b"x")
    # The listing itself needs one more.
    assert found.stdout.text().strip() == "['0', '1', '2', '3']"


def test_behind_the_walls_there_is_no_network(tmp_path: Path, walled: Walls) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=5)"
        refused = run(tmp_path, walled, python(code))
        reached = run(tmp_path, walled, python(code), network="host")
    assert "ConnectionRefused" in refused.stderr.text()
    assert reached.ok, reached.stderr.text()


def test_only_what_is_named_can_be_written(tmp_path: Path, walled: Walls) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    run(scratch, walled, python("open('here', 'w'); open('../beside', 'w')"))
    assert (scratch / "here").exists()
    assert not (tmp_path / "beside").exists()


def test_a_machine_that_cannot_start_a_process_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(InfraAgentError, match="no process can be started") as caught:
        run(tmp_path / "missing", NO_WALLS, ["/bin/true"])
    assert caught.value.hint


def test_a_run_leaves_no_descriptor_open(tmp_path: Path, walls: Walls) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    run(tmp_path, walls, ["/bin/true"])
    before = count()
    for options in ({}, {"stdin": b"x", "answer_bytes": 10}):
        run(tmp_path, walls, ["/bin/true"], **options)
    run(tmp_path, walls, ["/bin/sleep", "300"], timeout_s=1)
    assert count() == before


def test_the_result_can_be_written_down(tmp_path: Path, walled: Walls) -> None:
    found = run(tmp_path, walled, python(ANSWER.format("[1, None, 'x']")), answer_bytes=100)
    assert json.dumps(found.answer) == '[1, null, "x"]'
