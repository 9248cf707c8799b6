"""A source tree full of files that other tools would run: none of them runs in the harness, whatever it does there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from simulated.stacks import kill_when, stack_file

import infra_agent
from infra_agent.harness.sandbox import hold_walls
from infra_agent.harness.versions import engine_version
from infra_agent.stack.engines import get_engine
from infra_agent.stack.model import LaunchSpec, Stack

pytestmark = pytest.mark.requirement("E5")
ROOT = Path(infra_agent.__file__).parents[1]
TESTS = Path(__file__).parents[1]
START = "from simulated.worlds import enter; enter('steady'); from infra_agent.cli.main import main; main()"
HARNESS = [sys.executable, "-P", "-c", START]
"""As the installed command starts: without the working directory on the path. Time is exact, for busy machines."""
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS)])}
GOAL = "at 4 concurrent requests, double the output tokens per second within 10 minutes"
SHADOWED = (
    "json", "typing", "csv", "email", "zipfile", "shutil", "tempfile", "platform", "socket", "ssl", "random",
    "numpy", "scipy", "httpx", "typer", "rich", "pydantic", "psutil", "jinja2", "filelock", "rfc8785", "ulid",
    "infra_agent", "probes", "transformers", "torch", "venv", "pip", "ctypes", "select", "signal",
)  # fmt: skip
HOOKS = ("pre-commit", "post-checkout", "post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-push")


class Tree:
    """The planted tree. Whatever runs leaves a file of its own name in `canaries`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "source"
        self.canaries = folder / "canaries"
        self.canaries.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.path)], check=True)
        (self.path / "kernel.py").write_text("x = 1\n")
        for name in (*SHADOWED, "sitecustomize", "usercustomize", "conftest", "setup"):
            (self.path / f"{name}.py").write_text(self.python(name))
        self.plant_tools()
        self.plant_git()

    def python(self, name: str) -> str:
        return f"open({str(self.canaries / name)!r}, 'w').close()\n"

    def shell(self, name: str) -> str:
        return f"touch {self.canaries / name}"

    def plant_tools(self) -> None:
        code = self.python("pth").strip()
        (self.path / "evil.pth").write_text(f"import os; {code}\n")
        (self.path / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
            '[tool.pytest.ini_options]\naddopts = "-p conftest"\n'
        )
        (self.path / "setup.cfg").write_text("[tool:pytest]\naddopts = -p conftest\n")
        (self.path / "pytest.ini").write_text("[pytest]\naddopts = -p conftest\n")
        (self.path / "Makefile").write_text(f"all:\n\t{self.shell('make')}\n")
        (self.path / ".env").write_text("PYTHONSTARTUP=sitecustomize.py\nPYTHONPATH=.\n")

    def plant_git(self) -> None:
        git = self.path / ".git"
        for hook in HOOKS:
            path = git / "hooks" / hook
            path.write_text(f"#!/bin/sh\n{self.shell(f'hook-{hook}')}\n")
            path.chmod(0o755)
        with (git / "config").open("a") as config:
            config.write(
                f'[core]\n\tfsmonitor = "{self.shell("fsmonitor")}; false"\n\thooksPath = .git/hooks\n'
                f'\tpager = "{self.shell("pager")}"\n\teditor = "{self.shell("editor")}"\n'
                f'[filter "z"]\n\tclean = "{self.shell("clean")}; cat"\n\tsmudge = "{self.shell("smudge")}; cat"\n'
                f'[diff]\n\texternal = "{self.shell("diff")}"\n[diff "z"]\n\ttextconv = "{self.shell("textconv")}"\n'
            )
        (self.path / ".gitattributes").write_text("* filter=z diff=z\n")

    def ran(self) -> list[str]:
        return sorted(path.name for path in self.canaries.iterdir())

    def harness(self, *args: str) -> subprocess.CompletedProcess[str]:
        """The real command line, started in the planted tree."""
        environ = {**os.environ, **ENVIRONMENT}
        return subprocess.run(
            [*HARNESS, *args], cwd=self.path, env=environ, capture_output=True, text=True, timeout=240,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_planted_files_do_run_in_careless_hands(tree: Tree) -> None:
    subprocess.run([sys.executable, "-c", "import csv"], cwd=tree.path, check=True)
    subprocess.run(["git", "status"], cwd=tree.path, capture_output=True, check=True)
    subprocess.run(["git", "add", "kernel.py"], cwd=tree.path, capture_output=True, check=True)
    assert {"csv", "fsmonitor", "clean", "hook-post-index-change"} <= set(tree.ran())


@pytest.mark.parametrize("walls", [(), ("--no-sandbox",)], ids=["sandbox", "no sandbox"])
def test_nothing_planted_in_the_sources_runs_during_a_whole_run(tree: Tree, tmp_path: Path, walls: tuple[str]) -> None:
    space = {"continuous_batching": [True], "compile": [True]}
    stack = stack_file(tmp_path, space, sources=[tree.path])
    before = sorted(path.name for path in tree.path.iterdir())
    assert "transformers 0.0-simulated" in tree.harness("doctor", "--stack", str(stack), *walls).stdout
    args = ["run", "--stack", str(stack), "--goal", GOAL, "--seed", "3", *walls]
    assert kill_when(tree.path, args, "block", 1, command=HARNESS, env=ENVIRONMENT) == -signal.SIGKILL
    resumed = tree.harness("runs", "resume", "last", *walls)
    assert resumed.returncode == 0, resumed.stderr
    for command in (("runs", "show"), ("runs", "verify"), ("runs", "list"), ("report",), ("playbook", "list")):
        assert tree.harness(*command).returncode == 0
    assert tree.harness("stack", "show", "--stack", str(stack)).returncode == 0
    assert tree.ran() == []
    assert sorted(path.name for path in tree.path.iterdir() if path.name != "runs") == before


@pytest.mark.parametrize("walls", ["sandbox", "no sandbox"])
def test_the_stacks_own_interpreter_is_asked_in_an_empty_directory(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, walls: str
) -> None:
    monkeypatch.chdir(tree.path)
    stack = Stack(name="s", engine="transformers", model="m", launch=LaunchSpec(python=sys.executable))
    found = engine_version(get_engine("transformers"), stack, hold_walls(no_sandbox=walls == "no sandbox"))
    assert "transformers" in found
    assert tree.ran() == []


def test_nothing_planted_where_the_user_stands_runs_when_there_is_no_stack_file(tree: Tree) -> None:
    tree.harness("doctor")
    tree.harness("run", "--goal", GOAL, "--dry-run")
    tree.harness("init")
    assert tree.ran() == []
