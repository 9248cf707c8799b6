"""The main path on the real engine: tuned, killed in the middle, resumed, verified; with a small workload."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from simulated.stacks import events_of, kill_when, report_of, run

from infra_agent.stack.files import dump_stack
from infra_agent.stack.model import Stack

GOAL = "at 4 concurrent requests, raise output tokens per second by 30 % without changing the answers within 15 minutes"


def small(stack: Stack) -> Stack:
    """The demo stack with short answers, the lever that helps, and a flag that this machine accepts and ignores."""
    return stack.model_copy(
        update={
            "space": {"cb_use_cuda_graph": (True,), "continuous_batching": (True,)},
            "workload": stack.workload.model_copy(update={"max_tokens": 16}),
            "reference": stack.reference.model_copy(update={"max_tokens": 16}),
        }
    )


SCRIPT = """
[[action]]
kind = "measure"
probe = "load"
target = "stock"
[[action]]
kind = "propose"
hypothesis = ""
changes = [{ parameter = "cb_use_cuda_graph", value = true }]
[[action]]
kind = "propose"
hypothesis = ""
changes = [{ parameter = "continuous_batching", value = true }]
"""


@pytest.mark.engine
def test_a_run_on_the_real_engine_survives_a_kill_and_climbs_only_as_far_as_it_must(
    demo_stack: Stack, tmp_path: Path
) -> None:
    """Up to the screen; the proof in blocks is `make demo` and, with a kill in its middle, `make test-engine`."""
    (tmp_path / "infra-agent.toml").write_text(dump_stack(small(demo_stack)))
    (tmp_path / "script.toml").write_text(SCRIPT)
    args = ["run", "--goal", GOAL, "--seed", "11", "--brain", "script", "--script", "script.toml"]
    assert kill_when(tmp_path, args, "candidate", 1, signal.SIGKILL) == -signal.SIGKILL
    resumed = run(tmp_path, "runs", "resume", "last")
    report = report_of(tmp_path)
    ends = {row["candidate"]: row for row in report["verdicts"] if row["lane"] == "agent"}

    assert resumed.returncode == 1, resumed.stderr
    assert ends["C1"]["cause"] == "not_engaged"
    assert ends["C2"]["cause"] == "unclear"
    assert ends["C2"]["estimate"]["ratio"] > 1.3
    observed = [event["data"] for event in events_of(tmp_path) if event["kind"] == "observation"]
    seen = {(row["candidate"], row["observation"]["probe"], row["observation"]["verdict"]) for row in observed}
    assert ("C1", "engagement", "fail") in seen
    assert not [row for row in seen if row[:2] == ("C1", "load")]
    assert ("C2", "answers", "pass") in seen
    assert ("stock", "events.overlap", "pass") in seen
    assert run(tmp_path, "runs", "verify", "last").returncode == 0


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_real_engine_is_tuned_through_a_kill_and_an_ignored_flag_never_reaches_the_load_rung(
    demo_stack: Stack, tmp_path: Path
) -> None:
    (tmp_path / "infra-agent.toml").write_text(dump_stack(small(demo_stack)))
    args = ["run", "--goal", GOAL, "--seed", "11"]
    assert kill_when(tmp_path, args, "block", 1, signal.SIGKILL) == -signal.SIGKILL
    resumed = run(tmp_path, "runs", "resume", "last", timeout_s=500)
    report = report_of(tmp_path)

    accepted = {row["title"]: row for row in report["accepted"]}
    assert resumed.returncode == 0, resumed.stderr
    assert accepted["continuous batching"]["estimate"]["low"] > 1
    assert report["final"]["estimate"]["low"] > 1.3
    assert report["answers"]["verdict"] == "pass"
    assert report["honesty_row"] is not None
    assert report["run"]["sessions"] == 2

    ignored = next(row for row in report["verdicts"] if "graphs" in row["title"])
    assert (ignored["decision"], ignored["cause"]) == ("invalid", "not_engaged")
    observed = [event["data"] for event in events_of(tmp_path) if event["kind"] == "observation"]
    probes = {row["observation"]["probe"] for row in observed if row["candidate"] == ignored["candidate"]}
    assert "load" not in probes

    verified = run(tmp_path, "runs", "verify", "last", "--json")
    assert verified.returncode == 0
    assert json.loads(verified.stdout)["ok"]
