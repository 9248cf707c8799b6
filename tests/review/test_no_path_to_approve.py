"""Nothing but a person at the command line can approve: no action, no import, nothing inside the walls."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from agent.sessions import session_in
from pydantic import BaseModel

from infra_agent.agent import effects
from infra_agent.agent.actions import ACTION, Action
from infra_agent.agent.execute import ActionError, execute
from infra_agent.harness.sandbox import hold_walls, outer_env, wrap
from infra_agent.review.effects import BRAIN_MAY, Effect
from infra_agent.review.risk import GATED
from infra_agent.review.sign import create_key
from infra_agent.stack.model import GatedClass

ROOT = Path(__file__).resolve().parents[2]
SIGNING = "infra_agent.review.sign"


def models() -> set[type[BaseModel]]:
    return set(get_args(get_args(Action)[0]))


@pytest.mark.requirement("A4")
def test_every_action_has_a_declared_effect_class_and_none_beyond_it() -> None:
    assert set(effects.EFFECTS) == models()
    assert set(effects.EFFECTS.values()) <= BRAIN_MAY
    assert not BRAIN_MAY & {Effect.APPLY, Effect.APPROVE, Effect.PUBLISH}


@pytest.mark.requirement("A4")
def test_an_action_without_a_class_or_with_a_persons_class_is_refused_at_the_edge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Approve(BaseModel):
        kind: str = "approve"

    with session_in(tmp_path) as session:
        before = session.state.head_seq
        with pytest.raises(ActionError, match="no declared effect class"):
            execute(session, Approve(), "agent")  # type: ignore[arg-type]
        monkeypatch.setattr(effects, "EFFECTS", {Approve: Effect.APPROVE})
        with pytest.raises(ActionError, match="a person's"):
            execute(session, Approve(), "agent")  # type: ignore[arg-type]
        assert session.state.head_seq == before


@pytest.mark.requirement("A3")
@pytest.mark.parametrize("kind", ["approve", "accept", "grant", "sign", "review", "reject", "waiting", "approved"])
def test_no_action_of_a_persons_name_exists(kind: str) -> None:
    with pytest.raises(ValueError):
        ACTION.validate_python({"kind": kind, "candidate": "C1", "request": "0" * 64})


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, also inside functions and as text to be imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {SIGNING} if SIGNING in node.value else set()
    return found


@pytest.mark.requirement("A3")
def test_only_the_review_command_imports_what_can_sign() -> None:
    users = [
        str(path.relative_to(ROOT))
        for path in sorted([*(ROOT / "infra_agent").rglob("*.py"), *(ROOT / "probes").rglob("*.py")])
        if SIGNING in imports_of(path)
    ]
    assert users == ["infra_agent/cli/review.py"]


@pytest.mark.requirement("A3")
def test_loading_the_agent_loads_nothing_that_can_sign() -> None:
    code = "import sys, infra_agent.agent.run, infra_agent.agent.start; print('infra_agent.review.sign' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "False"


LOOK = """
import os, sys
for path in sys.argv[1:]:
    try:
        print(open(path, "rb").read(11))
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.requirement("A3")
@pytest.mark.parametrize("where", ["home", "tmp", "elsewhere"])
@pytest.mark.parametrize("named", ["", "key", "folder", "parent"])
def test_the_reviewers_key_cannot_be_read_inside_the_walls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, named: str
) -> None:
    roots = {"home": Path.home(), "tmp": tmp_path, "elsewhere": Path("/var/tmp")}
    base = roots[where] / f"infra-agent-test-{os.getpid()}-{tmp_path.name}"
    config = base / "infra-agent"
    try:
        create_key(config, "alice")
        monkeypatch.setenv("INFRA_AGENT_CONFIG", str(config))
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        key = config / "reviewer.key"
        paths = {"key": key, "folder": config, "parent": base}
        env = {"PATH": os.defpath, **({"NAMED": str(paths[named])} if named else {})}
        argv = [sys.executable, "-I", "-S", "-c", LOOK, str(key)]
        command = wrap(argv, hold_walls(no_sandbox=False), writable=[scratch], env=env, cwd=scratch)
        done = subprocess.run(command, env=outer_env(), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "FileNotFoundError"
        command = wrap(argv, hold_walls(no_sandbox=False), writable=[config], env=env, cwd=config)
        done = subprocess.run(command, env=outer_env(), capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.strip() in ("PermissionError", "b''"), done.stderr
        assert key.read_bytes().startswith(b"-----BEGIN")
    finally:
        for name in ("reviewer.key", "reviewer.pub"):
            (config / name).unlink(missing_ok=True)
        config.rmdir()
        base.rmdir()


def test_the_table_of_reviewers_knows_exactly_the_classes_that_wait() -> None:
    assert set(get_args(GatedClass)) == {risk.value for risk in GATED}
