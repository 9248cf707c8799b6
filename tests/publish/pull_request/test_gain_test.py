"""The failing-before test of a package, run for real: two servers, one of them slow."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from publish.pull_request.code_runs import code_run

from infra_agent.publish.publish import load_state, report_of
from infra_agent.publish.pull_request.gain_test import gain_test, lower_end, wanted_ratio
from infra_agent.publish.report.model import Report

SLOW_S, FAST_S = 0.06, 0.003


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(load_state(code_run(tmp_path_factory.mktemp("run"), settings=True)))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory, report: Report) -> Path:
    path = tmp_path_factory.mktemp("script") / "gain_test.py"
    path.write_text(gain_test(report, "output_tok_per_s"))
    return path


def command(pause_s: float) -> str:
    """A server with known times of its tokens; the script puts a port in."""
    settings = json.dumps(
        {"gap_s": pause_s, "first_token_s": pause_s, "obey_max_tokens": True, "model": "/models/smol"}
    )
    return shlex.join([sys.executable, "-m", "probes.load.mock_server", "--script", settings]) + " --port {port}"


def ask(script: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(script), "--base", command(SLOW_S), "--changed", command(FAST_S), *flags]
    for _ in range(4):
        done = subprocess.run(words, capture_output=True, text=True, timeout=240)
        if "client delay" not in done.stdout:  # This machine was busy: nothing was learnt.
            break
    return done


def test_it_passes_with_the_change_and_fails_without(script: Path) -> None:
    after = ask(script)
    assert after.returncode == 0, after.stdout + after.stderr
    before = ask(script, "--before")
    assert before.returncode == 1, before.stdout + before.stderr
    assert "wanted at least x1.48" in before.stdout


def test_a_server_that_does_not_start_is_no_verdict(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--base", "false", "--changed", "false"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "cannot tell" in done.stdout


def test_the_ratio_that_is_wanted_lies_between_nothing_and_what_was_proved(report: Report) -> None:
    low = lower_end(report)
    assert low is not None
    assert wanted_ratio(report) == pytest.approx(math.sqrt(low))


def test_both_arms_are_the_launches_of_the_report(script: Path) -> None:
    text = script.read_text()
    assert "--continuous-batching" not in text.partition("CHANGED =")[0]
    assert text.count("--port {port}") == 2
