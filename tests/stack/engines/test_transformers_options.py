"""The parameter table against the engine itself: its own option parser, in the stack's own environment."""

from __future__ import annotations

import json
import subprocess

import pytest

from infra_agent.stack.engines.transformers import EXCLUDED, TABLE, TransformersEngine
from infra_agent.stack.model import LaunchSpec, Stack

LIST_OPTIONS = """
import enum, inspect, json
from transformers.cli.serve import Serve
from transformers.cli.transformers import app

def plain(value):
    return value.value if isinstance(value, enum.Enum) else value

signature = inspect.signature(Serve.__init__).parameters
command = app.get_command(None, "serve")
flags = {p.name: [list(p.opts), list(p.secondary_opts)] for p in command.params}
print(json.dumps({
    name: {"default": plain(parameter.default), "flags": flags.get(name)}
    for name, parameter in signature.items() if name != "self"
}))
"""


@pytest.fixture(scope="module")
def options(demo_stack: Stack) -> dict[str, dict[str, object]]:
    env = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1", "PATH": "/usr/bin:/bin", "HOME": "/tmp"}
    argv = [str(demo_stack.launch.python), "-c", LIST_OPTIONS]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    parsed: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return parsed


@pytest.mark.engine
def test_every_option_of_the_engine_is_in_the_table_or_left_out_for_a_reason(options: dict) -> None:
    flags = {parameter.name for parameter in TABLE if parameter.flag.startswith("--")}
    assert set(options) == flags | set(EXCLUDED)
    assert not flags & set(EXCLUDED)
    assert all(reason for reason in EXCLUDED.values())


@pytest.mark.engine
def test_defaults_and_flags_are_the_engines_own(options: dict) -> None:
    for parameter in TABLE:
        if not parameter.flag.startswith("--"):
            continue
        assert options[parameter.name]["default"] == parameter.default, parameter.name
        on, off = options[parameter.name]["flags"]
        assert parameter.flag in on
        if parameter.type == "bool":
            assert "--no-" + parameter.flag[2:] in off


@pytest.mark.engine
def test_the_version_command_prints_the_installed_version(demo_stack: Stack) -> None:
    python = demo_stack.launch.python
    stack = Stack(name="s", engine="transformers", model="/m", launch=LaunchSpec(python=python))
    argv = TransformersEngine().version_argv(stack)
    assert argv is not None
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "transformers 5.19.0"
