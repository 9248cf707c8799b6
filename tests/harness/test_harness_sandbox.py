"""The walls hold, and a wall that does not hold is named instead of relied upon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness_help import FakeEngine, fake_plan, fake_stack

from infra_agent.errors import ExitCode, SandboxUnavailable
from infra_agent.harness import sandbox
from infra_agent.harness.sandbox import NO_WALLS, Walls, hold_walls, outer_env, wrap
from infra_agent.harness.selftest import broken_wall, namespace_reason
from infra_agent.harness.server import serve
from infra_agent.harness.visible import hidden_directories, visible_paths


@pytest.fixture(scope="module")
def walls() -> Walls:
    return hold_walls(no_sandbox=False)


def run_inside(walls: Walls, scratch: Path, code: str, *argv: str) -> str:
    program = [sys.executable, "-I", "-S", "-c", code, *argv]
    command = wrap(program, walls, writable=[scratch], env={"PATH": os.defpath}, cwd=scratch)
    done = subprocess.run(command, env=outer_env(), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def fake_bwrap(folder: Path, script: str) -> Walls:
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Walls(mode="bubblewrap", binary=str(path))


def test_the_walls_hold_on_this_machine(walls: Walls) -> None:
    assert walls.mode == "bubblewrap"
    assert walls.as_dict()["network"] == "host network shared (loopback server)"


def test_without_a_sandbox_only_when_asked() -> None:
    assert hold_walls(no_sandbox=True) is NO_WALLS
    assert "no sandbox" in NO_WALLS.as_dict()["detail"]


def test_only_the_scratch_directory_can_be_written(walls: Walls, tmp_path: Path) -> None:
    scratch, beside = tmp_path / "scratch", tmp_path / "beside"
    scratch.mkdir()
    beside.mkdir()
    code = """
import sys
for path in sys.argv[1:]:
    try:
        open(path + "/file", "w").close()
        print("written", path)
    except OSError as error:
        print(type(error).__name__, path)
"""
    # The directory beside is given relative: an absolute one would be taken for something the launch needs to read.
    lines = run_inside(walls, scratch, code, ".", "../beside", "/usr", "/var/tmp").splitlines()
    assert lines[0] == "written ."
    assert not any(line.startswith("written") for line in lines[1:])
    assert not list(beside.iterdir())


def test_a_path_named_by_the_launch_is_visible_but_read_only(walls: Walls, tmp_path: Path) -> None:
    scratch, model = tmp_path / "scratch", tmp_path / "model"
    scratch.mkdir()
    model.mkdir()
    (model / "weights").write_text("w")
    code = """
import sys
print(open(sys.argv[1] + "/weights").read())
try:
    open(sys.argv[1] + "/weights", "w")
except OSError as error:
    print(error.strerror)
"""
    assert run_inside(walls, scratch, code, str(model)).splitlines() == ["w", "Read-only file system"]


def test_there_is_no_way_to_get_capabilities(walls: Walls, tmp_path: Path) -> None:
    code = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapBnd'))])"
    assert run_inside(walls, tmp_path, code) == str(["0" * 16] * 2)


def test_secrets_of_the_harness_are_not_visible(walls: Walls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-very-secret-value"
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "OMP_SECRET_KEY"):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    log = tmp_path / "log"
    plan = fake_plan(fault="environment")
    with serve(plan, FakeEngine(), fake_stack(), walls=walls, scratch=tmp_path / "s", log_path=log) as server:
        lines = server.last_lines(10)
    environment = json.loads(next(line for line in log.read_text().splitlines() if line.startswith("ENV"))[4:])
    assert not {"OPENAI_API_KEY", "HF_TOKEN", "OMP_SECRET_KEY"} & environment.keys()
    assert "***" not in log.read_text()
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["HOME"] == str(tmp_path / "s")
    assert any(line.startswith("INIT PATH=") for line in lines)


def test_secrets_do_not_pass_without_a_sandbox_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    log = tmp_path / "log"
    plan = fake_plan(fault="environment")
    with serve(plan, FakeEngine(), fake_stack(), walls=NO_WALLS, scratch=tmp_path / "s", log_path=log):
        pass
    line = next(line for line in log.read_text().splitlines() if line.startswith("ENV"))
    assert "***" not in line
    assert "OPENAI_API_KEY" not in json.loads(line[4:])
    assert "HOME" in json.loads(line[4:])


def test_a_missing_binary_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "find_bwrap", lambda: None)
    with pytest.raises(SandboxUnavailable) as caught:
        hold_walls(no_sandbox=False)
    assert caught.value.exit_code == ExitCode.SANDBOX
    assert "not installed" in caught.value.message
    assert "--no-sandbox" in caught.value.hint


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "cannot start here"),
        ("exit 0", "gave no answer"),
        # Runs the command without any wall.
        ('while [ "$1" != -- ]; do shift; done; shift; cd {scratch}; exec "$@"', "went through"),
    ],
)
def test_a_bubblewrap_that_holds_nothing_is_found_out(tmp_path: Path, script: str, named: str) -> None:
    problem = broken_wall(fake_bwrap(tmp_path, script.replace("{scratch}", str(tmp_path))))
    assert problem is not None
    assert named in problem.message


@pytest.mark.parametrize(
    ("option", "named"),
    [("--unshare-pid", "processes can be seen"), ("--clearenv", "environment is visible"), ("--cap-drop", "capabilit")],
)
def test_each_wall_that_is_left_out_is_found_out(walls: Walls, tmp_path: Path, option: str, named: str) -> None:
    if option == "--cap-drop" and os.geteuid() != 0:
        pytest.skip("an ordinary user has no capabilities to keep")
    arguments = 2 if option == "--cap-drop" else 1
    script = f"""
n=$#
while [ $n -gt 0 ]; do
  word=$1; shift; n=$((n - 1))
  if [ "$word" = {option} ]; then
    skip={arguments - 1}; while [ $skip -gt 0 ]; do shift; n=$((n - 1)); skip=$((skip - 1)); done
  elif [ "$word" = --unshare-user-try ]; then :
  else set -- "$@" "$word"; fi
done
exec {walls.binary} "$@"
"""
    problem = broken_wall(fake_bwrap(tmp_path, script))
    assert problem is not None
    assert named in problem.message


def test_the_reason_of_a_refusing_kernel_is_named(tmp_path: Path) -> None:
    (tmp_path / "sys/user").mkdir(parents=True)
    (tmp_path / "sys/kernel").mkdir(parents=True)
    assert namespace_reason(tmp_path) is None
    (tmp_path / "sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    reason = namespace_reason(tmp_path)
    assert reason is not None
    assert "AppArmor" in reason.message
    assert "profile" in reason.hint
    (tmp_path / "sys/user/max_user_namespaces").write_text("0\n")
    reason = namespace_reason(tmp_path)
    assert reason is not None
    assert "user namespaces are off" in reason.message


def test_an_interpreter_in_the_hidden_home_stays_visible(tmp_path: Path) -> None:
    home = tmp_path / "home"
    base, venv, source = home / "pythons/3.11", home / "project/venv", home / "src/engine"
    for folder in (base / "bin", venv / "bin", source, venv / "lib/python3.11/site-packages/e-1.dist-info"):
        folder.mkdir(parents=True)
    (base / "bin/python3").write_text("")
    (venv / "bin/python").symlink_to(base / "bin/python3")
    (venv / "bin/serve").write_text("")
    record = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (venv / "lib/python3.11/site-packages/e-1.dist-info/direct_url.json").write_text(json.dumps(record))
    visible = visible_paths([str(venv / "bin/serve")], {}, [home])
    assert visible == sorted([base, venv, source])


def test_the_home_itself_is_never_made_visible(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "x.jsonl").write_text("")
    argv = ["/bin/sh", str(home), str(tmp_path), "--file=" + str(home / "x.jsonl")]
    assert visible_paths(argv, {"HOME": str(home), "PATH": f"{home}/bin"}, [home]) == [home / "x.jsonl"]


def test_blobs_behind_a_model_made_of_links_stay_visible(tmp_path: Path) -> None:
    blob, snapshot = tmp_path / "blobs/ab12", tmp_path / "snapshots/main"
    blob.parent.mkdir(parents=True)
    blob.write_text("w")
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to("../../blobs/ab12")
    assert visible_paths(["/bin/sh", str(snapshot)], {}, [tmp_path]) == [blob, snapshot]


def test_home_and_tmp_are_hidden(tmp_path: Path) -> None:
    assert tmp_path in hidden_directories(tmp_path)
    assert Path("/tmp") in hidden_directories(tmp_path)
    assert Path("/") not in hidden_directories(Path("/"))
