"""What a launch sees of the machine, and what it can do to it: only what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness_help import FakeEngine, fake_plan, fake_stack
from walls_help import run_inside

from infra_agent.errors import ExitCode, SandboxUnavailable
from infra_agent.harness import sandbox
from infra_agent.harness.mounts import home_directory, loader_directories, never_visible, system_paths
from infra_agent.harness.sandbox import NO_WALLS, Walls, hold_walls, outer_env, wrap
from infra_agent.harness.server import serve
from infra_agent.harness.visible import visible_paths

TRY_TO_WRITE = """
import sys
for path in sys.argv[1:]:
    try:
        open(path + "/file", "w").close()
        print("written", path)
    except OSError as error:
        print(type(error).__name__, path)
"""


@pytest.fixture(scope="module")
def walls() -> Walls:
    return hold_walls(no_sandbox=False)


def visible(argv: list[str], env: dict[str, str] | None = None, readable: tuple[Path, ...] = ()) -> list[Path]:
    return visible_paths(argv, env or {}, system=system_paths(), never=list(never_visible()), readable=readable)


def test_the_walls_say_what_they_hold(walls: Walls) -> None:
    described = walls.as_dict()
    assert described["mode"] == "bubblewrap"
    assert described["network"].startswith("loopback only")
    assert "memory" in described["limits"]


@pytest.mark.requirement("E4")
def test_without_a_sandbox_only_when_asked() -> None:
    assert hold_walls(no_sandbox=True) is NO_WALLS
    assert "no sandbox" in NO_WALLS.as_dict()["detail"]
    assert NO_WALLS.as_dict()["network"] == "host, shared"


def test_only_the_scratch_directory_can_be_written(walls: Walls, tmp_path: Path) -> None:
    scratch, beside = tmp_path / "scratch", tmp_path / "beside"
    scratch.mkdir()
    beside.mkdir()
    # The directory beside is given relative: an absolute one would be taken for something the launch needs to read.
    lines = run_inside(walls, scratch, TRY_TO_WRITE, ".", "../beside", "/usr", "/var/tmp", "/", "/etc").splitlines()
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


def test_of_the_machine_s_files_only_the_operating_system_is_there(walls: Walls, tmp_path: Path) -> None:
    names = json.loads(run_inside(walls, tmp_path, "import json, os; print(json.dumps(sorted(os.listdir('/'))))"))
    expected = {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "nix", "proc", "sbin", "sys", "tmp", "usr"}
    # Beside these only the first directory of what this launch itself needs: its interpreter, and where home was.
    needed = {Path(path).parts[1] for path in (sys.executable, sys.base_prefix, Path.home())}
    assert set(names) <= expected | needed
    private = (
        "import os; print([n for n in ('shadow', 'ssh', 'sudoers', 'pip.conf', 'fstab') if n in os.listdir('/etc')])"
    )
    assert run_inside(walls, tmp_path, private) == "[]"
    assert run_inside(walls, tmp_path, "import os; print(os.path.exists('/etc/ssl/private'))") == "False"


def test_inner_paths_keep_their_own_rights(walls: Walls, tmp_path: Path) -> None:
    outer = tmp_path / "sources"
    scratch, protected = outer / "build", outer / "build" / "tests"
    protected.mkdir(parents=True)
    code = TRY_TO_WRITE
    shown = run_inside(walls, scratch, code, str(outer), ".", str(protected), readable=[outer, protected]).splitlines()
    assert [line.split()[0] for line in shown] == ["OSError", "written", "OSError"]


def test_a_writable_directory_stays_writable_where_a_variable_names_a_part_of_it(walls: Walls, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "cache").mkdir(parents=True)
    program = [sys.executable, "-I", "-S", "-c", TRY_TO_WRITE, str(scratch / "cache")]
    env = {"PATH": os.defpath, "TRITON_CACHE_DIR": str(scratch / "cache")}
    command = wrap(program, walls, writable=[scratch], env=env, cwd=scratch)
    done = subprocess.run(command, env=outer_env(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("written")


@pytest.mark.parametrize("home", ["/", "/does/not/exist", "relative", ""])
def test_a_home_that_is_none_is_not_hidden(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    assert home_directory() not in (Path("/"), Path("/does/not/exist"))
    assert Path("/") not in never_visible()


def test_a_user_without_any_home_has_none_to_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    assert home_directory() is None
    assert list(never_visible())


def test_a_program_finds_its_own_user_host_and_temporary_directory(walls: Walls, tmp_path: Path) -> None:
    code = (
        "import os, pwd, socket, tempfile\n"
        "name = socket.gethostname()\n"
        "print(pwd.getpwuid(os.getuid()).pw_uid == os.getuid(), socket.gethostbyname(name), tempfile.gettempdir())\n"
    )
    assert run_inside(walls, tmp_path, code) == "True 127.0.0.1 /tmp"


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


@pytest.mark.requirement("E4")
def test_a_missing_binary_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "find_bwrap", lambda: None)
    with pytest.raises(SandboxUnavailable) as caught:
        hold_walls(no_sandbox=False)
    assert caught.value.exit_code == ExitCode.SANDBOX
    assert "not installed" in caught.value.message
    assert "--no-sandbox" in caught.value.hint


@pytest.mark.parametrize(("network", "shared"), [("none", False), ("loopback", False), ("host", True)])
def test_a_network_is_shared_only_when_it_is_said(walls: Walls, tmp_path: Path, network: str, shared: bool) -> None:
    words = wrap(["/bin/true"], walls, writable=[tmp_path], env={}, cwd=tmp_path, network=network)  # type: ignore[arg-type]
    assert ("--unshare-net" not in words) is shared


def test_without_walls_the_command_is_as_it_was(tmp_path: Path) -> None:
    assert wrap(["engine", "--port", "1"], NO_WALLS, writable=[], env={}, cwd=tmp_path) == ["engine", "--port", "1"]


def test_an_interpreter_below_home_stays_visible(tmp_path: Path) -> None:
    home = tmp_path / "home"
    base, venv, source, legacy = home / "pythons/3.11", home / "project/venv", home / "src/engine", home / "src/old"
    packages = venv / "lib/python3.11/site-packages"
    for folder in (base / "bin", venv / "bin", source, legacy, packages / "e-1.dist-info"):
        folder.mkdir(parents=True)
    (base / "bin/python3").write_text("")
    (base / "bin/python3").chmod(0o755)
    (venv / "bin/python").symlink_to(base / "bin/python3")
    (venv / "bin/serve").write_text("")
    (venv / "bin/serve").chmod(0o755)
    record = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (packages / "e-1.dist-info/direct_url.json").write_text(json.dumps(record))
    (packages / "old.pth").write_text(f"import os\n{legacy}\n")
    assert visible([str(venv / "bin/serve")]) == sorted([base, venv, source, legacy])


def test_an_environment_made_of_copies_leads_to_the_installation_it_came_from(tmp_path: Path) -> None:
    base, venv = tmp_path / "pythons/3.11", tmp_path / "venv"
    for folder in (base / "bin", venv / "bin"):
        folder.mkdir(parents=True)
        (folder / "python").write_text("")
        (folder / "python").chmod(0o755)
    (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.11\n")
    assert visible([str(venv / "bin/python")]) == sorted([base, venv])


def test_the_interpreter_of_a_script_is_visible_and_a_shared_prefix_is_taken_by_its_parts(tmp_path: Path) -> None:
    prefix = tmp_path / ".local"
    for part in ("bin", "lib", "share/keyrings"):
        (prefix / part).mkdir(parents=True)
    script = tmp_path / "tool"
    script.write_text(f"#!{prefix}/bin/python -I\n")
    (prefix / "bin/python").write_text("")
    for program in (script, prefix / "bin/python"):
        program.chmod(0o755)
    assert visible([str(script)]) == [prefix / "bin", prefix / "lib", script]


def test_what_is_named_inside_a_covered_directory_is_listed_beside_the_path_that_would_bring_it(tmp_path: Path) -> None:
    inner = tmp_path / "source/judge/part"
    inner.mkdir(parents=True)
    env = {"A": str(tmp_path / "source"), "B": str(inner)}
    plain = visible_paths([], env, system=(), never=())
    assert plain == [tmp_path / "source"]
    beside = visible_paths([], env, system=(), never=(), covered=[tmp_path / "source/judge"])
    assert beside == [tmp_path / "source", inner]


def test_nothing_that_holds_a_hidden_directory_is_made_visible(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("")
    argv = ["/bin/sh", "/", "/tmp", "/var", "/home", str(Path.home()), f"--file={tmp_path}/x.jsonl", "/run/../run"]
    env = {"HOME": "/tmp", "PATH": f"{tmp_path}/bin", "A": "/etc:/proc/self/environ:/dev/null", "B": "/sys/kernel"}
    assert visible(argv, env) == [tmp_path / "x.jsonl"]


def test_a_top_level_directory_is_visible_only_when_it_was_named_for_it() -> None:
    assert visible(["/bin/sh", "/opt"]) == []
    assert visible(["/bin/sh"], readable=(Path("/opt"),)) == [Path("/opt")]
    assert visible(["/bin/sh"], readable=(Path("/etc"), Path("/"), Path.home(), Path("/var"))) == []


def test_sockets_and_pipes_are_not_made_visible_by_being_mentioned(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert visible(["/bin/sh", str(tmp_path / "pipe")]) == []


def test_blobs_behind_a_model_made_of_links_stay_visible(tmp_path: Path) -> None:
    blob, snapshot = tmp_path / "blobs/ab12", tmp_path / "snapshots/main"
    blob.parent.mkdir(parents=True)
    blob.write_text("w")
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to("../../blobs/ab12")
    assert visible(["/bin/sh", str(snapshot)]) == [blob, snapshot]


def test_a_link_that_came_with_a_model_does_not_open_what_nobody_named(tmp_path: Path) -> None:
    model, shared = tmp_path / "model", Path("/opt")
    model.mkdir()
    (model / "config.json").symlink_to("/etc/shadow")
    (model / "weights").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("s")
    (model / "more").symlink_to(shared)
    assert visible(["/bin/sh", str(model)]) == [shared, model]


def test_the_operating_system_s_paths_hold_no_secrets_and_no_home() -> None:
    paths = system_paths()
    assert Path("/usr") in paths
    assert not {Path("/etc"), Path("/"), Path("/var"), Path("/run"), Path("/tmp"), Path("/etc/ssl")} & set(paths)
    assert not any(path.is_relative_to(each) for path in paths for each in (Path.home(), Path("/etc/ssl/private")))


def test_directories_that_the_loader_is_configured_for_are_found(tmp_path: Path) -> None:
    drivers, broad = tmp_path / "drivers/lib64", Path("/usr")
    drivers.mkdir(parents=True)
    (tmp_path / "ld.so.conf.d").mkdir()
    (tmp_path / "ld.so.conf").write_text("include ld.so.conf.d/*.conf\n")
    (tmp_path / "ld.so.conf.d/vendor.conf").write_text(f"# of the vendor\n{drivers}\n{broad}\n/does/not/exist\n")
    assert loader_directories(tmp_path) == [drivers]
