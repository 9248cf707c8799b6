"""`infra-agent probe run events` and `… trace` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script

COMMAND = [sys.executable, "-c", "from infra_agent.cli.main import main; main()", "probe", "run"]


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=240, check=False, cwd=folder)


def test_a_load_of_its_own_counts_its_client_among_the_facts(tmp_path: Path) -> None:
    with MockProcess() as mock:
        mock.play(Script(first_token_s=0.05, gap_s=0.02, chunks=(1,) * 10))
        done = run(tmp_path, "events", "--url", mock.url, "--concurrency", "4", "--requests", "12", "--json")
    seen = json.loads(done.stdout)["observation"]
    assert done.returncode in (0, 1), done.stderr
    assert seen["signals"]["client_answers"] == 12
    assert next(fact for fact in seen["detail"]["facts"] if fact["name"] == "client_late")["quality"] == "exact"
    assert {"limit", "state", "reason", "confidence", "refuted_by", "used"} == set(seen["detail"]["findings"][0])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["events"], "no server is named"),
        (["events", "--url", "http://10.1.2.3:8000"], "neither this machine"),
        (["events", "--url", "http://127.0.0.1:9", "--seconds", "0"], "a window lasts"),
        (["events", "--url", "http://127.0.0.1:9", "--limit", "x=1"], "a limit is NAME=NUMBER"),
        (["events", "--url", "http://127.0.0.1:9", "--engine", "tgi"], "no engine 'tgi'"),
        (["events", "--url", "http://127.0.0.1:9", "--load", "none.json"], "cannot read none.json"),
        (["trace"], "give a file, or --pid"),
        (["trace", "none.json"], "cannot open none.json"),
        (["trace", "--pid", "4194399"], "does not exist"),
        (["trace", "a.json", "--pid", "1"], "give a file, or --pid"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error_in_words_and_in_json(tmp_path: Path, args: list[str], says: str) -> None:
    done = run(tmp_path, *args, "--json")
    assert done.returncode == 2
    assert says in json.loads(done.stdout)["error"]["message"]
    assert "Traceback" not in done.stderr


def test_a_server_that_is_not_there_is_exit_1_and_says_why(tmp_path: Path) -> None:
    done = run(tmp_path, "events", "--url", "http://127.0.0.1:9", "--seconds", "0.5")
    assert done.returncode == 1
    assert "nothing to go by" in done.stdout


def test_a_trace_is_shown_as_a_card_and_as_json(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "gemm\x1b[31m", "pid": 0, "tid": 7, "ts": 0, "dur": 5}
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [event, {**event, "ts": 20}]}))
    card = run(tmp_path, "trace", "t.json")
    assert card.returncode == 0
    assert "Time line of 0.025 ms" in card.stdout
    assert "\x1b" not in card.stdout
    found = json.loads(run(tmp_path, "trace", "t.json", "--json").stdout)["observation"]
    assert found["signals"]["idle_share"] == pytest.approx(0.6)
