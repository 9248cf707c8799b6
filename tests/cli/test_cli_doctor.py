from __future__ import annotations

import json
from pathlib import Path

from simulated.stacks import attached_stack_file, run, stack_file


def test_doctor_names_every_check_and_each_finding_has_a_fix(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]})
    document = json.loads(run(tmp_path, "doctor", "--json").stdout)
    names = {check["name"] for check in document["checks"]}
    assert {"machine", "sandbox", "stack", "engine", "playbooks", "disk", "neighbours"} <= names
    assert all(check["fix"] for check in document["checks"] if not check["ok"])


def test_doctor_finds_a_missing_model_and_says_what_to_do(tmp_path: Path) -> None:
    path = stack_file(tmp_path, {"continuous_batching": [True]})
    (tmp_path / "model" / "config.json").unlink()
    (tmp_path / "model").rmdir()
    done = run(tmp_path, "doctor", "--stack", str(path), "--json")
    broken = {check["name"]: check for check in json.loads(done.stdout)["checks"] if not check["ok"]}
    assert done.returncode == 2
    assert "no such model" in broken["stack"]["found"]
    assert broken["stack"]["fix"]


def test_doctor_measures_the_noise_and_the_smallest_gain_that_can_be_shown(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]})
    done = run(tmp_path, "doctor", "--noise", "--json", INFRA_AGENT_STATE=str(tmp_path / "state"))
    document = json.loads(done.stdout)
    findings = {check["name"] for check in document["checks"] if not check["ok"]}
    assert findings <= {"neighbours"}, done.stdout
    assert done.returncode == (1 if findings else 0), done.stderr
    assert document["launches"] == 12
    assert 1.0 < document["mde_ratio"] < 3.0
    assert not list(tmp_path.glob("runs/*"))


def test_an_interpreter_without_the_engine_is_a_finding_of_the_stack_and_the_worst_code_is_the_exit_code(
    tmp_path: Path,
) -> None:
    path = stack_file(tmp_path, {"continuous_batching": [True]})
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    done = run(tmp_path, "doctor", "--stack", str(path), "--json")
    engine = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "engine")
    assert not engine["ok"]
    assert "unknown" in engine["found"]
    assert "launch.python" in engine["fix"]
    assert done.returncode == 6


def test_a_server_that_is_attached_to_needs_no_version(tmp_path: Path) -> None:
    attached_stack_file(tmp_path, "http://127.0.0.1:9")
    document = json.loads(run(tmp_path, "doctor", "--json").stdout)
    assert next(check for check in document["checks"] if check["name"] == "engine")["ok"]
