"""`python -m probes.load` as a user runs it: in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from probes.load.__main__ import main
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script

COMMAND = (sys.executable, "-m", "probes.load", "--model", "mock", "--concurrency", "2", "--requests", "4")


def ran(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, "--url", url, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_an_invalid_window_exits_1_and_ends_stdout_with_one_json_document(mock: MockProcess) -> None:
    mock.play(Script(model="other"))
    done = ran(mock.url, "--json")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["verdict"] == "invalid"
    assert document["quantities"] == []
    assert "FAIL model: other" in done.stdout


def test_a_wrong_command_exits_2_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [*COMMAND[3:], "--url", "http://127.0.0.1:1"]
    assert main([*COMMAND[3:], "--url", "localhost:1"]) == 2
    assert "base_url must look like http://HOST:PORT" in capsys.readouterr().err
    assert main([*wrong, "--prompts", "builtin:none"]) == 2
    assert main([*wrong, "--extra-body", "[]"]) == 2
    assert main([*wrong, "--api-key-env", "NOT_A_VARIABLE_OF_THIS_MACHINE"]) == 2
    with pytest.raises(SystemExit, match="2"):
        main([*wrong, "--rate", "3"])


def test_an_interrupt_ends_at_once_and_without_a_traceback(mock: MockProcess) -> None:
    mock.play(Script(fault="stall"))
    process = subprocess.Popen(
        [*COMMAND, "--url", mock.url, "--warmup", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline_s = time.monotonic() + 60
    while len(mock.truth()) < 2 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in stderr
