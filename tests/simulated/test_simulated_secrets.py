"""Canary secrets everywhere a run can meet them: none of them, in no form, in any file or on any stream it writes."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulated.stacks import ENGINE, events_of, kill_when, run

pytestmark = [pytest.mark.requirement("S1"), pytest.mark.timeout(600)]
IN_ENV = "sk-CANARY1-0123456789abcdef"
AWKWARD = "CANARY2 p@ss/w+rd\"quo'te\\x&<é>"
IN_ADDRESS = "CANARY3-hunter2"
IN_STACK = "CANARY4-engine-key-98765"
IN_ARGV = "CANARY5-argv-key-43210"
SHORT = "Zq7"
ALL = (IN_ENV, AWKWARD, IN_ADDRESS, IN_STACK, IN_ARGV)
ENVIRON = {
    "OPENAI_API_KEY": IN_ENV,
    "DB_PASSWORD": AWKWARD,
    "DATABASE_URL": f"postgres://app:{IN_ADDRESS}@db/x",
}
GOAL = f"""
metric = "output_tok_per_s"
statistic = "value"
direction = "maximise"
budget_s = 300
text = "double it, and by the way my key is {IN_ENV}"
[target]
kind = "ratio"
value = 2.0
[load]
concurrency = 4
"""


def forms(secret: str) -> Iterator[tuple[str, bytes]]:
    """Every form in which it must not be found."""
    yield "as it is", secret.encode()
    yield "json", json.dumps(secret)[1:-1].encode()
    yield "json, not ascii", json.dumps(secret, ensure_ascii=False)[1:-1].encode()
    yield "json twice", json.dumps(json.dumps(secret))[3:-3].encode()
    yield "address", urllib.parse.quote(secret, safe="").encode()
    yield "form", urllib.parse.quote_plus(secret).encode()
    yield "page", html.escape(secret).encode()
    yield "python", repr(secret)[1:-1].encode()
    yield "hexadecimal", secret.encode().hex().encode()
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + secret.encode())
        yield f"base64, shifted by {shift}", text[4 * bool(shift) : len(text) - 4]


def leaks(content: bytes) -> list[str]:
    return [f"{secret}: {name}" for secret in ALL for name, form in forms(secret) if form in content]


def prepare(folder: Path) -> Path:
    """A stack file whose engine leaks whatever it can; returns its path."""
    for name in ("engine.py", "leaky_engine.py"):
        shutil.copyfile(ENGINE.with_name(name), folder / name)
    (folder / "leaks.json").write_text(json.dumps(ALL))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/leaky_engine.py "$@"\n')
    python.chmod(0o755)
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    (folder / "goal.toml").write_text(GOAL)
    path = folder / "infra-agent.toml"
    path.write_text(
        f"""
[stack]
name = "leaky"
engine = "transformers"
model = "{folder}/model"
sources = {json.dumps([sys.prefix, sys.base_prefix, str(folder)])}
[launch]
python = "{python}"
extra_args = ["--api-key", "{IN_ARGV}"]
[launch.env]
ENGINE_API_KEY = "{IN_STACK}"
SHORT_TOKEN = "{SHORT}"
[space]
continuous_batching = [true]
[workload]
requests = 12
max_tokens = 8
warmup_requests = 1
[reference]
oracle = "none"
max_tokens = 8
[limits]
start_timeout_s = 60
"""
    )
    return path


def tuned(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """A run; again when this machine was too busy for the first window to be valid (exit 6)."""
    args = ["run", "--stack", str(folder / "infra-agent.toml"), "--goal", str(folder / "goal.toml"), "--seed", "3"]
    for _ in range(5):
        done = run(folder, *args, *more, timeout_s=500, **ENVIRON)
        assert done.returncode in (0, 1, 4, 6), done.stderr
        assert leaks(said(done)) == []
        if done.returncode != 6:
            break
        shutil.rmtree(folder / "runs")
    return done


def said(done: subprocess.CompletedProcess[str]) -> bytes:
    return (done.stdout + done.stderr).encode()


def logs(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in sorted((folder / "runs").glob("*/logs/*.log")))


def below(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_no_secret_is_in_any_file_or_on_any_stream_and_the_engine_has_its_own(tmp_path: Path) -> None:
    stack = str(prepare(tmp_path))
    goal = str(tmp_path / "goal.toml")
    done = tuned(tmp_path, "--budget", "120s")
    commands = [
        ["runs", "show"], ["runs", "show", "--json"], ["runs", "show", "--commands"], ["runs", "list", "--json"],
        ["runs", "verify"], ["report"], ["stack", "show"], ["stack", "show", "--json"], ["doctor"],
        ["doctor", "--json", "--stack", stack], ["run", "--goal", goal, "--dry-run", "--json"],
        ["run", "--goal", f"my key is {IN_ENV}"], ["run", "--goal", goal, "--stack", IN_ENV],
        ["runs", "show", AWKWARD, "--json"],
    ]  # fmt: skip
    for command in commands:
        asked = run(tmp_path, *command, **ENVIRON)
        assert leaks(said(asked)) == [], command
        if "--json" in command:
            json.loads(asked.stdout)
    assert leaks(said(done)) == []
    found = {str(path): leaks(path.read_bytes()) for path in below(tmp_path / "runs")}
    assert {path: names for path, names in found.items() if names} == {}
    for path in below(tmp_path / "runs"):
        assert SHORT.encode() not in path.read_bytes().replace(b"GOT", b""), path
    kept = logs(tmp_path)
    assert f"GOT ENGINE_API_KEY {hashlib.sha256(IN_STACK.encode()).hexdigest()}" in kept
    assert f"GOT SHORT_TOKEN {hashlib.sha256(SHORT.encode()).hexdigest()}" in kept
    assert kept.count("loading with *** done") >= 5
    launched = next(event["data"] for event in events_of(tmp_path) if event["kind"] == "launch")
    assert launched["env"]["ENGINE_API_KEY"] == launched["env"]["SHORT_TOKEN"] == "***"
    assert launched["argv"][launched["argv"].index("--api-key") + 1] == "***"
    answers = [e for e in events_of(tmp_path) if e["data"].get("observation", {}).get("probe") == "reference-answers"]
    assert "my key is ***, in base64 ***" in json.dumps(answers)


def test_answers_that_hold_a_secret_are_still_compared(tmp_path: Path) -> None:
    prepare(tmp_path)
    goal = tmp_path / "goal.toml"
    goal.write_text(goal.read_text() + "[constraints]\nanswers_unchanged = true\n")
    tuned(tmp_path, "--budget", "60s")
    observations = [e["data"]["observation"] for e in events_of(tmp_path) if e["kind"] == "observation"]
    compared = [o for o in observations if o["probe"] == "answers"]
    assert compared
    assert compared[0]["verdict"] == "pass", compared[0]["summary"]


def test_a_resumed_run_has_its_stacks_secrets_back_from_the_file_or_the_environment(tmp_path: Path) -> None:
    stack = prepare(tmp_path)
    text = stack.read_text().replace(f'extra_args = ["--api-key", "{IN_ARGV}"]\n', "")
    stack.write_text(text)
    args = ["run", "--stack", str(stack), "--goal", str(tmp_path / "goal.toml"), "--seed", "3"]
    kill_when(tmp_path, args, "launch_ended", 1)
    stack.write_text(text.replace(IN_STACK, "CANARY4-another-key-now"))
    refused = run(tmp_path, "runs", "resume", "last")
    assert refused.returncode == 2
    assert "launch.env.ENGINE_API_KEY, launch.env.SHORT_TOKEN" in refused.stderr
    assert "set ENGINE_API_KEY=... SHORT_TOKEN=..." in refused.stderr
    before = len(events_of(tmp_path))
    kept_logs = logs(tmp_path)
    done = run(tmp_path, "runs", "resume", "last", timeout_s=500, ENGINE_API_KEY=IN_STACK, SHORT_TOKEN=SHORT, **ENVIRON)
    assert done.returncode in (0, 1, 4, 6), done.stderr
    assert len(events_of(tmp_path)) > before
    after = logs(tmp_path).replace(kept_logs, "")
    assert f"GOT ENGINE_API_KEY {hashlib.sha256(IN_STACK.encode()).hexdigest()}" in after
    assert leaks(said(done)) == []
    assert [path for path in below(tmp_path / "runs") if IN_STACK.encode() in path.read_bytes()] == []


def test_an_internal_error_shows_no_secret_even_with_a_traceback(tmp_path: Path) -> None:
    code = (
        "import infra_agent.cli.main as m, infra_agent.cli.doctor as d\n"
        "def boom(*a): raise RuntimeError('cannot use ' + __import__('os').environ['OPENAI_API_KEY'])\n"
        "import infra_agent.agent.checkup as c; c.check_machine = boom\n"
        "m.main(['doctor'])\n"
    )
    for more in ({}, {"INFRA_AGENT_TRACEBACK": "1"}):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **ENVIRON, **more}, capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 70
        assert "cannot use ***" in done.stderr
        assert leaks(said(done)) == []
        assert ("Traceback" in done.stderr) == bool(more)
