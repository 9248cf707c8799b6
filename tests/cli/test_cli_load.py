"""`infra-agent probe run load` as a user runs it, against a server in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script

BUSY = ("FAIL client delay", "FAIL arrival", "client delay: mean", "arrival rate: ")
QUICK = Script(first_token_s=0.02, gap_s=0.002, chunks=(1,) * 6)
COMMAND = [sys.executable, "-c", "from infra_agent.cli.main import main; main()", "probe", "run", "load"]


@pytest.fixture(scope="module")
def mock() -> Iterator[MockProcess]:
    with MockProcess() as process:
        yield process


def load(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=120, check=False, cwd=folder)


def measured(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A window that is valid; another try when this machine was too busy for the client to be on time."""
    for _ in range(8):
        done = load(folder, *args)
        if done.returncode == 0 or not any(name in done.stdout for name in BUSY):
            return done
        time.sleep(1.0)
    return done


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_server_is_measured_with_no_more_than_its_address(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(QUICK)
    done = measured(tmp_path, "--url", mock.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "closed loop of 4 · 12 requests" in done.stderr
    assert "TTFT, from send" in done.stdout
    assert "ok   model: mock" in done.stdout
    assert "not checked" in done.stdout


def test_a_sweep_gives_a_table_a_page_and_a_document(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(QUICK)
    args = ("--rate", "20,40", "--arrivals", "constant", "--requests", "12", "--slo-ttft", "1")
    done = measured(tmp_path, "--url", mock.url, *args, "--html", "page.html", "--output", "all.json", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = document(done)["observations"]
    assert [each["signals"]["rate_per_s"] for each in seen] == [20, 40]
    assert [each["detail"]["seed"] for each in seen] == [0, 1], "nothing cached in one window helps the next"
    page = (tmp_path / "page.html").read_text()
    assert "Time to first token against load" in page
    assert "Latency distribution" in page
    assert "In flight and decoding over time" in page
    assert "<script" not in page
    assert "http" not in page.replace(mock.url, "").replace("http-equiv", "")
    assert len(json.loads((tmp_path / "all.json").read_text())["windows"]) == 2


def test_synthetic_prompts_have_exactly_the_asked_length(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(QUICK)
    args = ("--input-tokens", "100:120", "--output-tokens", "6", "--concurrency", "2", "--requests", "6", "--json")
    done = measured(tmp_path, "--url", mock.url, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {check["name"]: check for check in document(done)["observation"]["checks"]}
    assert checks["prompt tokens"]["ok"]
    rows = mock.truth()[-6:]
    assert all(100 <= row.prompt_tokens <= 120 for row in rows)


def test_a_trace_is_replayed(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(QUICK)
    rows = [{"timestamp": 200 * n, "input_length": 40 + n, "output_length": 6} for n in range(5)]
    (tmp_path / "trace.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    done = measured(tmp_path, "--url", mock.url, "--trace", "trace.jsonl", "--trace-speed", "4", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert document(done)["observation"]["detail"]["arrivals"] == "trace.jsonl, 5 arrivals in 0.2 s"


def test_load_goes_only_where_the_stack_file_says(mock: MockProcess, tmp_path: Path) -> None:
    args = ("--url", "http://gpu-box.invalid:8000", "--model", "m", "--rate", "1", "--requests", "1", "--json")
    done = load(tmp_path, *args)
    assert done.returncode == 2
    error = document(done)["error"]
    assert "neither this machine nor a host that the stack file names" in error["message"]
    assert error["hint"].startswith("infra-agent init --engine openai")
    (tmp_path / "infra-agent.toml").write_text(
        '[stack]\nname = "x"\nengine = "openai"\nmodel = "m"\nurl = "http://gpu-box.invalid:8000"\n'
    )
    named = load(tmp_path, *args)
    assert named.returncode == 1, "it may be sent there now, and fails because there is no such host"
    assert "gpu-box.invalid has no address" in document(named)["observation"]["summary"]
    assert load(tmp_path, "--url", "http://other.invalid:8000", *args[2:]).returncode == 2


def test_the_stack_files_server_is_the_default(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(QUICK)
    (tmp_path / "infra-agent.toml").write_text(
        f'[stack]\nname = "x"\nengine = "openai"\nmodel = "m"\nurl = "{mock.url}"\n'
    )
    done = measured(tmp_path, "--concurrency", "2", "--requests", "4")
    assert done.returncode == 0, done.stdout + done.stderr


BROKEN = {
    "server that refuses the key": (Script(fail_every=1, fail_status=401), 'HTTP 401: {"error"'),
    "page of HTML": (Script(fault="html page"), "asked for a stream, got text/html"),
    "answer that is no stream": (Script(fault="not a stream"), "asked for a stream, got application/json"),
    "another model": (Script(model="other"), "model: other"),
    "no HTTP at all": (Script(fault="junk"), "not an HTTP/1.1 response"),
    "counts missing": (Script(usage="never"), "token counts: 0 of 4"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_bad_servers_end_with_their_reason_and_exit_1(mock: MockProcess, tmp_path: Path, name: str) -> None:
    script, reason = BROKEN[name]
    mock.play(script)
    args = ("--model", "mock", "--concurrency", "2", "--requests", "4", "--warmup", "0", "--output", "kept.json")
    done = load(tmp_path, "--url", mock.url, *args)
    assert done.returncode == 1, done.stdout + done.stderr
    assert reason in done.stdout
    assert "Traceback" not in done.stderr
    assert "tok/s" not in done.stdout
    assert json.loads((tmp_path / "kept.json").read_text())["windows"][0]["records"]


REFUSED = {
    "server that cannot count": (Script(usage="never", fail_every=1), ("--input-tokens", "50"), "counts tokens"),
    "no model named": (
        Script(),
        ("--url", "http://127.0.0.1:9"),
        "cannot be asked for its model: connection failed: Connection refused",
    ),
    "page of models that fails": (Script(), ("--url", "{url}/none"), "does not name one model (/v1/models: HTTP 404)"),
    "two ways to arrive": (Script(), ("--rate", "1", "--concurrency", "2"), "exactly one of them"),
    "prompt file that is not there": (Script(), ("--prompts", "none.jsonl"), "cannot read prompts"),
    "trace that is not there": (Script(), ("--trace", "none.jsonl"), "cannot read the trace"),
    "rate that is no number": (Script(), ("--rate", "fast"), "--rate is a number"),
    "ramp that is none": (Script(), ("--ramp", "1:2"), "a ramp is START:END:SECONDS"),
    "burstiness without gamma": (Script(), ("--rate", "2", "--burstiness", "0.5"), "belongs to --arrivals gamma"),
    "key that is not set": (Script(), ("--api-key-env", "NO_SUCH_VARIABLE_HERE"), "is not set"),
    "unknown export": (Script(), ("--export", "excel=x"), "FORMAT=PATH"),
    "prompt of two tokens": (Script(), ("--input-tokens", "2"), "too short"),
    "certificates without https": (Script(), ("--ca-file", "x.pem"), "belongs to an https"),
    "results that are not there": (Script(), ("--compare", "a.json", "b.json"), "cannot read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_asked_is_refused_with_exit_2(mock: MockProcess, tmp_path: Path, name: str) -> None:
    script, args, reason = REFUSED[name]
    mock.play(script)
    args = tuple(word.replace("{url}", mock.url) for word in args)
    model = () if "model" in name else ("--model", "mock")
    done = load(tmp_path, "--url", mock.url, *model, *args, "--json")
    assert done.returncode == 2, done.stdout + done.stderr
    assert reason in document(done)["error"]["message"]
    assert "Traceback" not in done.stderr


def test_an_interrupt_keeps_what_had_been_answered(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(Script(first_token_s=0.05, gap_s=0.01, chunks=(1,) * 5))
    args = ("--url", mock.url, "--model", "mock", "--rate", "10", "--requests", "600", "--warmup", "0")
    process = subprocess.Popen(
        [*COMMAND, *args, "--output", "kept.json", "--html", "kept.html", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    until_s = time.monotonic() + 60
    while sum(row.complete for row in mock.truth()) < 4 and time.monotonic() < until_s:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    seen = json.loads(stdout)["observation"]
    assert seen["verdict"] == "invalid"
    assert "interrupted by the user" in seen["summary"]
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert len(kept["windows"][0]["records"]) >= 4
    assert "invalid" in (tmp_path / "kept.html").read_text()


def test_several_processes_and_an_interrupt_leave_nothing_running(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(Script(fault="stall"))
    args = ("--url", mock.url, "--model", "mock", "--concurrency", "4", "--warmup", "0", "--processes", "2")
    process = subprocess.Popen(
        [*COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    until_s = time.monotonic() + 60
    while len(mock.truth()) < 4 and time.monotonic() < until_s:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_results_of_one_run_each_are_not_compared(mock: MockProcess, tmp_path: Path) -> None:
    results = Path(__file__).parents[1] / "probes" / "load" / "results"
    done = load(tmp_path, "--compare", str(results / "vllm-0.32.json"), str(results / "aiperf-0.13.json"), "--json")
    assert done.returncode == 1
    found = document(done)["comparison"]
    assert found["outcome"] == "not comparable"
    assert any("two tools" in reason for reason in found["reasons"])
    plain = load(tmp_path, "--compare", str(results / "vllm-0.32.json"), str(results / "vllm-0.32.json"))
    assert "because 1 of each: an interval needs at least 3 pairs" in plain.stdout


@pytest.mark.runs
def test_our_own_runs_in_turns_are_judged(mock: MockProcess, tmp_path: Path) -> None:
    fast, slow = Script(gap_s=0.002, chunks=(1,) * 40), Script(gap_s=0.008, chunks=(1,) * 40)
    for number in range(4):
        for name, script in (("a", slow), ("b", fast)) if number % 2 else (("b", fast), ("a", slow)):
            mock.play(script)
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            args = [
                "--concurrency",
                "2",
                "--requests",
                "6",
                "--warmup",
                "0",
                "--seed",
                str(number),
                "--max-tokens",
                "64",
            ]
            args += ["--model", "mock", "--output", f"{name}/{number}.json"]
            done = measured(tmp_path, "--url", mock.url, *args)
            assert done.returncode == 0, done.stdout + done.stderr
    done = load(tmp_path, "--compare", "a", "b", "--metric", "tpot_s")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("better: tpot_s, B against A")
    assert "order BAABBAAB" in done.stdout
