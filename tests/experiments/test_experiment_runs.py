"""Whole runs of the real command line on stacks that are experiments."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from experiments.small import (
    BOTH,
    HALF,
    IDLE,
    REQUIRED,
    data_of,
    ends,
    lab,
    propose,
    pursue,
    script,
    small,
)
from simulated.stacks import events_of, report_of, run

SUM = "the error must not grow with length, code changes allowed, within 10 minutes"
PROVE = {"kind": "prove", "candidate": "C1"}


def test_a_numeric_defect_is_found_proved_and_waits_until_a_person_signs(tmp_path: Path) -> None:
    folder = lab(tmp_path, "naive_sum")
    config = {"INFRA_AGENT_CONFIG": str(folder / "config")}
    assert run(folder, "review", "key", **config).returncode == 0
    done = pursue(folder, goal=SUM)
    assert done.returncode == 3, done.stdout + done.stderr
    assert ends(folder) == [("C1", "accepted", "proved")]
    assert data_of(folder, "waiting")[0]["candidate"] == "C1"
    probes = [row["observation"]["probe"] for row in data_of(folder, "observation") if row["candidate"] == "C1"]
    assert probes[:3] == ["code-engagement", "reference", "experiment"]
    _sign(folder, config)
    resumed = run(folder, "runs", "resume", "last", **config)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    _reported(folder)
    assert run(folder, "runs", "verify", "last").returncode == 0


def _sign(folder: Path, config: dict[str, str]) -> None:
    """Approve the one change that waits."""
    (row,) = json.loads(run(folder, "review", "list", "--json", **config).stdout)["waiting"]
    key = str(folder / "config" / "reviewer.key")
    signed = ("review", "approve", f"{row['run']}/C1", "--key", key, "--yes-i-reviewed", row["confirm"])
    assert run(folder, *signed, **config).returncode == 0


def _reported(folder: Path) -> None:
    """Units, names and gaps of a run without requests."""
    report = report_of(folder)
    assert report["outcome"]["code"] == "met"
    assert report["goal"]["target_text"] == "Error growth: at most 0.2"
    goal = next(row for row in report["before_after"] if row["is_goal"])
    assert (goal["name"], goal["unit"], goal["better"]) == ("error_growth", "1", True)
    assert goal["best"]["value"] < 0.2 < goal["stock"]["value"]
    gaps = {gap["what"] for gap in report["not_measured"]}
    assert "device_time" in gaps
    assert not gaps & {"ttft", "output_tok_per_s", "answers", "honesty_row"}
    assert report["claims"][0]["kind"] == "cause"
    assert report["hypotheses"][0]["inside"] is True
    lines = run(folder, "runs", "show", "last", "--commands").stdout.splitlines()
    stock = lines[lines.index("# stock") + 1]
    assert "measure.py" in stock
    assert "probes.load" not in "\n".join(lines)
    done = subprocess.run(["/bin/sh", "-c", stock], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "result.json").read_text())["quantities"][0]["name"] == "error_growth"
    page = (max((folder / "runs").iterdir()) / "report.html").read_text()
    assert "Error growth" in page


@pytest.mark.slow
def test_an_interrupted_run_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    folder = lab(tmp_path, "naive_sum")
    command = [sys.executable, "-m", "infra_agent", "run", "--goal", SUM, "--seed", "3"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 250
    while not (folder / "runs").is_dir() or not any(e["kind"] == "block" for e in events_of(folder)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    blocks = len(data_of(folder, "block"))
    done = run(folder, "runs", "resume", "last")
    assert done.returncode == 3, done.stdout + done.stderr
    assert ends(folder) == [("C1", "accepted", "proved")]
    assert len(data_of(folder, "block")) >= max(3, blocks)
    assert len([row for row in data_of(folder, "candidate") if row["lane"] == "agent"]) == 1


@pytest.mark.slow
def test_a_transform_that_changes_nothing_measurable_is_rejected(tmp_path: Path) -> None:
    folder = lab(tmp_path, "naive_sum")
    (folder / "skills" / "wide-accumulator" / "transform.py").write_text(
        "def propose(tree, facts):\n"
        "    text = (tree / 'totals.py').read_text()\n"
        "    files = {'totals.py': text.replace('result', 'running')}\n"
        "    return [{'files': files, 'claim': 'another name'}]\n"
    )
    done = pursue(folder, goal=SUM)
    assert done.returncode == 1, done.stdout + done.stderr
    assert ends(folder) == [("C1", "rejected", "no_gain")]


@pytest.mark.slow
def test_proposals_that_do_not_fit_and_transforms_that_fail_are_said_and_end_nothing(tmp_path: Path) -> None:
    folder = lab(tmp_path, "naive_sum")
    skill = folder / "skills" / "wide-accumulator" / "transform.py"
    skill.write_text(
        "def propose(tree, facts):\n"
        "    assert facts['signals']['error_grows'] is True\n"
        "    return [{'diff': '--- a/../x\\n+++ b/../x\\n@@ -1 +1 @@\\n-a\\n+b\\n', 'claim': 'out of scope'}]\n"
    )
    done = pursue(folder, goal=SUM)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "do not fit" in done.stderr
    assert not data_of(folder, "candidate")
    skill.write_text("def propose(tree, facts):\n    (tree / 'totals.py').write_text('')\n    return []\n")
    done = pursue(folder, goal=SUM)
    assert done.returncode == 1
    assert "ended with exit code" in done.stderr
    assert "float32" in (folder / "src" / "totals.py").read_text()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"before": "raise SystemExit(3)"}, "it failed (exit code 3)"),
        pytest.param({"before": "import missing_module"}, "lacks a package", marks=pytest.mark.slow),
        pytest.param({"before": "sys.exit(0)"}, "wrote no result", marks=pytest.mark.slow),
        pytest.param({"value": "float('nan')"}, "not JSON", marks=pytest.mark.slow),
        pytest.param({"value": "'fast'"}, "not valid", marks=pytest.mark.slow),
        ({"before": "document['quantities'][0]['unit'] = 's'"}, "unit of error: s (1)"),
        pytest.param(
            {"before": "document['quantities'][0]['name'] = 'other'"},
            "error is measured: absent",
            marks=pytest.mark.slow,
        ),
        (
            {"more": ', "checks": [{"name": "rows", "ok": False, "measured": "3", "limit": "4"}]'},
            "rows: 3 (4)",
        ),
    ],
)
def test_a_stock_run_that_gives_no_figure_fails_the_run_with_its_cause(
    tmp_path: Path, setting: dict[str, str], said: str
) -> None:
    done = pursue(small(tmp_path, **setting))
    assert done.returncode == 6, done.stdout + done.stderr
    assert said in done.stderr


def test_a_run_that_does_not_end_is_ended_at_its_deadline(tmp_path: Path) -> None:
    folder = small(tmp_path, before="import time; time.sleep(600)")
    path = folder / "infra-agent.toml"
    path.write_text(path.read_text().replace("timeout_s = 20", "timeout_s = 2"))
    done = pursue(folder)
    assert done.returncode == 6
    assert "did not end within 2 s" in done.stderr
    assert data_of(folder, "launch_ended")[0]["outcome"] == "hung"


def test_a_run_reaches_no_network_and_reads_nothing_beside_its_stack(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("x")
    before = (
        "import socket, pathlib\n"
        "lo = socket.create_server(('127.0.0.1', 0))\n"
        f"assert not pathlib.Path({str(secret)!r}).exists()\n"
        "try:\n    socket.create_connection(('192.0.2.1', 80), timeout=2)\n"
        "except OSError as error:\n    assert error.errno == 101, error\n"
    )
    stack = tmp_path / "stack"
    stack.mkdir()
    folder = small(stack, before=before)
    done = pursue(folder, *script(folder))
    assert done.returncode == 1, done.stdout + done.stderr


def test_what_was_declared_deterministic_and_is_not_is_measured_in_blocks(tmp_path: Path) -> None:
    folder = small(tmp_path, value="part.error() + os.urandom(1)[0] / 256")
    done = pursue(folder, *script(folder))
    assert "declared deterministic, but equal runs differ" in done.stderr
    assert data_of(folder, "noise")[0]["source"] == "assumed"


def test_a_diff_climbs_engagement_and_required_probes_before_it_is_measured(tmp_path: Path) -> None:
    folder = small(tmp_path, stack=REQUIRED)
    done = pursue(folder, *script(folder, propose(HALF), PROVE))
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert ends(folder)[0] == ("C1", "accepted", "proved")


def test_a_diff_that_a_required_probe_rejects_is_never_measured(tmp_path: Path) -> None:
    folder = small(tmp_path, stack=REQUIRED)
    pursue(folder, *script(folder, propose(BOTH)))
    assert ends(folder) == [("C1", "rejected", "answers_changed")]
    made = [row["observation"]["probe"] for row in data_of(folder, "observation") if row["candidate"] == "C1"]
    assert made == ["code-engagement", "look"]


def test_a_diff_that_no_run_executes_is_not_engaged(tmp_path: Path) -> None:
    folder = small(tmp_path)
    pursue(folder, *script(folder, propose(IDLE)))
    assert ends(folder) == [("C1", "invalid", "not_engaged")]


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        ("double throughput", "an experiment has no output_tok_per_s"),
        ("error below 1e-20", "below what the metric can tell apart"),
        ("make it nicer", "goal is not clear"),
        ("error below 1 s", "needs its unit"),
    ],
)
def test_a_goal_that_the_stack_cannot_show_is_refused_before_anything_runs(
    tmp_path: Path, goal: str, said: str
) -> None:
    done = pursue(small(tmp_path), goal=goal)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.slow
def test_a_measuring_script_that_changed_cannot_be_resumed_with(tmp_path: Path) -> None:
    folder = lab(tmp_path, "naive_sum")
    config = {"INFRA_AGENT_CONFIG": str(folder / "config")}
    assert run(folder, "review", "key", **config).returncode == 0
    assert pursue(folder, goal=SUM).returncode == 3
    _sign(folder, config)
    with (folder / "measure.py").open("a") as sink:
        sink.write("\n# edited\n")
    done = run(folder, "runs", "resume", "last", **config)
    assert done.returncode == 2
    assert "what measures the experiment has changed" in done.stderr


@pytest.mark.slow
def test_repeated_work_is_hoisted_and_a_red_herring_is_not_accepted(tmp_path: Path) -> None:
    folder = lab(tmp_path, "repeated_work")
    done = pursue(folder, goal="halve the time per batch, code changes allowed, within 10 minutes")
    assert done.returncode == 0, done.stdout + done.stderr
    decided = dict((candidate, decision) for candidate, decision, _ in ends(folder))
    assert decided["C1"] != "accepted"
    assert decided["C2"] == "accepted"
    assert report_of(folder)["accepted"][0]["estimate"]["low"] > 2
