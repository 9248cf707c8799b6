"""A server of one's own: its command line, its declared parameters, and what its stack file may say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from infra_agent.errors import ConfigError
from infra_agent.stack.engines import engine_of
from infra_agent.stack.engines.base import RiskClass
from infra_agent.stack.files import dump_stack, load_stack, parse_stack, validate_paths
from infra_agent.stack.init import init_text
from infra_agent.stack.model import LaunchSpec, Stack

FILE = """\
[stack]
name = "own"
engine = "command"
model = "m"
sources = [".", "package:engine"]
patchable = ["*.py"]
protected = ["bench/"]

[launch]
command = ["{python}", "server.py", "--port", "{port}"]
state_path = "/state"

[launch.parameters]
workers = 2

[launch.env]
APP = "{source}/app"

[parameters.workers]
flag = "--workers"
type = "int"
risk = "concurrency"
low = 1
high = 8
signal = "state.workers"

[parameters.fast]
flag = "--fast"
type = "bool"

[space]
workers = [1, 4]
fast = [true]
"""


def stack(*command: str, sources: tuple[str, ...] = (), **launch: object) -> Stack:
    spec = LaunchSpec.model_validate({"command": command, **launch})
    return Stack(name="own", engine="command", model="m", sources=sources, launch=spec)


def test_a_stack_file_describes_it_and_survives_a_round_trip(tmp_path: Path) -> None:
    (tmp_path / "server.py").touch()
    (tmp_path / "infra-agent.toml").write_text(FILE)
    loaded = load_stack(tmp_path / "infra-agent.toml")
    assert loaded.launch.command == ("{python}", str(tmp_path / "server.py"), "--port", "{port}")
    assert loaded.sources == (str(tmp_path), "package:engine")
    assert parse_stack(dump_stack(loaded)) == loaded
    plan = engine_of(loaded).plan(loaded, {"workers": 4, "fast": True}, 8123)
    server = str(tmp_path / "server.py")
    assert plan.argv == (sys.executable, server, "--port", "8123", "--workers", "4", "--fast")
    assert plan.env == {"APP": f"{tmp_path}/app"}


def test_a_risk_that_is_not_stated_waits_for_a_person() -> None:
    table = {parameter.name: parameter for parameter in engine_of(parse_stack(FILE)).parameters()}
    assert table["workers"].risk is RiskClass.CONCURRENCY
    assert table["fast"].risk is RiskClass.PRODUCTION
    unknown = parse_stack(FILE.replace('risk = "concurrency"', 'risk = "unknown"'))
    assert engine_of(unknown).parameters()[0].risk is RiskClass.PRODUCTION


def test_flags_go_where_the_command_wants_them() -> None:
    made = parse_stack(FILE.replace('"--port", "{port}"]', '"{parameters}", "--port={port}"]'))
    plan = engine_of(made).plan(made, {"workers": 1}, 9)
    assert plan.argv[-3:] == ("--workers", "1", "--port=9")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('command = ["{python}", "server.py", "--port", "{port}"]\n', "", "launch.command is missing"),
        ('risk = "concurrency"', 'risk = "harmless"', "parameters.workers"),
        ('flag = "--workers"', 'flag = "workers"', "parameters.workers"),
        ('type = "int"', "", "parameters.workers"),
        ("workers = [1, 4]", "workers = [1, 9]", "at most 8"),
        ("workers = [1, 4]", "worker = [1]", "unknown launch parameter"),
        ("low = 1", "low = 1\ndefault = 0", "at least 1"),
        ("low = 1", "low = 1\nlows = 1", "parameters.workers"),
        ('engine = "command"', 'engine = "transformers"', "parameter table of its own"),
        ('state_path = "/state"', 'state_path = "state"', "launch.state_path"),
        ('state_path = "/state"', 'state_pth = "/state"', "unknown key"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_and_named(old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(ConfigError) as caught:
        parse_stack(FILE.replace(old, new, 1))
    assert message in f"{caught.value.message} {caught.value.where}"
    assert caught.value.where.startswith("infra-agent.toml")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (stack(), "no command"),
        (stack("{python}", "server.py"), "no {port}"),
        (stack("{python}", "{prt}", "{port}"), "{prt}"),
        (stack("{python}", "{source}/server.py", "{port}"), "{source}"),
        (stack("{python}", "{source}/server.py", "{port}", sources=("package:engine",)), "{source}"),
        (stack("{port}", env={"X": "{nothing}"}), "{nothing}"),
    ],
)
def test_a_command_that_cannot_be_filled_in_is_refused(made: Stack, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        engine_of(made).plan(made, {}, 1)
    assert message in caught.value.message
    with pytest.raises(ConfigError):
        validate_paths(made)


def test_words_in_braces_that_are_no_names_stay_as_they_are() -> None:
    made = stack("{python}", "{port}", '{"a": 1}', "{}", "{X}", env={"PORT": "{port}"})
    plan = engine_of(made).plan(made, {}, 7)
    assert plan.argv[1:] == ("7", '{"a": 1}', "{}", "{X}")
    assert plan.env == {"PORT": "7"}


def test_a_command_without_python_has_no_version_to_ask_for() -> None:
    assert engine_of(stack("node", "s.js", "{port}")).version_argv(stack("node", "s.js", "{port}")) is None
    asked = engine_of(stack("{python}", "{port}")).version_argv(stack("{python}", "{port}"))
    assert asked is not None
    assert asked[0] == sys.executable


@pytest.mark.parametrize("engine", ["command", "transformers", "openai"])
def test_the_file_that_init_writes_loads_as_it_is(engine: str, tmp_path: Path) -> None:
    (tmp_path / "infra-agent.toml").write_text(init_text(engine, None, ""))
    made = load_stack(tmp_path / "infra-agent.toml")
    assert made.engine == engine
    assert (made.url is None) == (engine != "openai")
    if engine == "command":
        validate_paths(made)
