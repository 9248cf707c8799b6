"""One suite over all engines: a description that is complete, consistent and refuses what it cannot do."""

from __future__ import annotations

import re
import sys

import pytest

from infra_agent.errors import ConfigError
from infra_agent.stack.engines import ENGINES, engine_of, get_engine
from infra_agent.stack.engines import table as t
from infra_agent.stack.engines.base import Engine, Parameter
from infra_agent.stack.model import LaunchSpec, ParameterSpec, ParameterValue, Stack

NAMES = ENGINES.names()
COMMANDS = {
    "command": ("{python}", "server.py", "--port", "{port}"),
    "experiment": ("{python}", "measure.py", "--seed", "{seed}", "{result}"),
}
LAUNCHING = [name for name in NAMES if get_engine(name).launches]
ATTACHING = [name for name in NAMES if not get_engine(name).launches]


DECLARED = {
    "workers": ParameterSpec(flag="--workers", type="int", low=1, high=64, evidence="A reason."),
    "fast": ParameterSpec(flag="--fast", type="bool"),
    "mode": ParameterSpec(flag="env:MODE", type="str", choices=("a", "b"), signal="state.mode"),
    "share": ParameterSpec(flag="-s", type="float", risk="memory", low=0.1, high=1.0),
}


def stack_for(engine: Engine) -> Stack:
    url = None if engine.launches else "http://127.0.0.1:1"
    if engine.name not in COMMANDS:
        return Stack(name="s", engine=engine.name, model="/models/m", url=url)
    launch = LaunchSpec(command=COMMANDS[engine.name])
    return Stack(name="s", engine=engine.name, model="m", launch=launch, parameters=DECLARED)


def described(name: str) -> Engine:
    """The engine as a stack of its own would get it."""
    return engine_of(stack_for(get_engine(name)))


def example(parameter: Parameter) -> ParameterValue:
    if parameter.choices:
        return parameter.choices[-1]
    return {"bool": True, "int": int(parameter.low or 0) + 1, "float": parameter.high or 1.0, "str": "cpu"}[
        parameter.type
    ]


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return described(request.param)


def test_an_engine_knows_its_own_name_and_where_it_answers(engine: Engine) -> None:
    assert get_engine(engine.name).name == engine.name
    assert engine.health_path.startswith("/")
    assert engine.metrics_path is None or engine.metrics_path.startswith("/")
    assert engine.model_in_request(stack_for(engine))


def test_parameters_have_unique_names_and_flags_and_valid_defaults(engine: Engine) -> None:
    table = engine.parameters()
    for key in ("name", "flag", "title"):
        values = [getattr(parameter, key) for parameter in table]
        assert len(values) == len(set(values))
    for parameter in table:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", parameter.name)
        assert re.fullmatch(r"--?[a-z0-9-]+|env:[A-Z0-9_]+", parameter.flag)
        assert parameter.default is None or t.complaint(parameter, parameter.default) is None
        assert parameter.low is None or parameter.high is None or parameter.low <= parameter.high
        assert parameter.evidence.endswith(".")
        assert parameter.family
        assert t.complaint(parameter, example(parameter)) is None


def test_log_patterns_compile_and_say_what_to_do(engine: Engine) -> None:
    for pattern in engine.log_patterns:
        re.compile(pattern.regex)
        assert pattern.meaning
        assert pattern.hint


@pytest.mark.parametrize("name", LAUNCHING)
def test_every_parameter_reaches_the_command_line_or_the_environment(name: str) -> None:
    engine = described(name)
    stack = stack_for(engine)
    bare = engine.plan(stack, {}, 8123)
    for parameter in engine.parameters():
        value = example(parameter)
        plan = engine.plan(stack, {parameter.name: value}, 8123)
        if parameter.flag.startswith("env:"):
            assert plan.argv == bare.argv
            assert plan.env == {**bare.env, parameter.flag.removeprefix("env:"): str(value)}
        else:
            expected = [parameter.flag] if value is True else [parameter.flag, str(value)]
            assert list(plan.argv) == [*bare.argv, *expected]
            assert plan.env == bare.env
        if parameter.type == "bool":
            off = engine.plan(stack, {parameter.name: False}, 8123).argv
            assert off == bare.argv if name in COMMANDS else "--no-" + parameter.flag[2:] in off


@pytest.mark.parametrize("name", [name for name in LAUNCHING if name != "experiment"])
def test_a_plan_listens_on_the_loopback_interface_at_the_port_asked_for(name: str) -> None:
    engine = described(name)
    plan = engine.plan(stack_for(engine), {}, 8123)
    assert plan.base_url == "http://127.0.0.1:8123"
    assert "8123" in plan.argv
    assert plan.argv[0] == sys.executable
    launch = stack_for(engine).launch.model_copy(update={"python": "/env/bin/python", "extra_args": ("--x",)})
    own = stack_for(engine).model_copy(update={"launch": launch})
    assert engine.plan(own, {}, 1).argv[0] == "/env/bin/python"
    assert engine.plan(own, {}, 1).argv[-1] == "--x"


@pytest.mark.parametrize("name", LAUNCHING)
def test_a_plan_refuses_unknown_names_and_impossible_values(name: str) -> None:
    engine = described(name)
    stack = stack_for(engine)
    first = engine.parameters()[0]
    with pytest.raises(ConfigError) as caught:
        engine.plan(stack, {first.name.replace("_", "-") + "s": True}, 1)
    assert first.name in caught.value.hint
    for parameter in engine.parameters():
        wrong: list[ParameterValue] = [{"bool": 1, "int": True, "float": "1", "str": 3}[parameter.type]]
        if parameter.choices:
            wrong.append("no such choice")
        if parameter.low is not None:
            wrong.append(int(parameter.low) - 1)
        if parameter.high is not None:
            wrong.append(int(parameter.high) + 1)
        if parameter.type == "float":
            wrong += [float("nan"), float("inf")]
        for value in wrong:
            with pytest.raises(ConfigError, match=parameter.name):
                engine.plan(stack, {parameter.name: value}, 1)


@pytest.mark.parametrize("name", LAUNCHING)
def test_a_plan_refuses_side_doors_past_the_table_and_the_harness(name: str) -> None:
    engine = described(name)
    stack = stack_for(engine)
    for parameter in engine.parameters():
        if parameter.flag.startswith("env:"):
            launch = stack.launch.model_copy(update={"env": {parameter.flag.removeprefix("env:"): "1"}})
        else:
            launch = stack.launch.model_copy(update={"extra_args": (f"{parameter.flag}=1",)})
        with pytest.raises(ConfigError) as caught:
            engine.plan(stack.model_copy(update={"launch": launch}), {}, 1)
        assert f"launch.parameters.{parameter.name}" in caught.value.hint
    if name not in COMMANDS:
        with pytest.raises(ConfigError, match="set by the harness"):
            engine.plan(stack.model_copy(update={"launch": LaunchSpec(extra_args=("--port", "1"))}), {}, 1)
    with pytest.raises(ConfigError, match="cannot be launched"):
        engine.plan(stack.model_copy(update={"url": "http://h:1"}), {}, 1)


@pytest.mark.parametrize("name", ATTACHING)
def test_an_attached_engine_is_never_launched(name: str) -> None:
    engine = described(name)
    assert engine.parameters() == ()
    assert engine.reporter() is None
    assert engine.version_argv(stack_for(engine)) is None
    with pytest.raises(ConfigError, match="cannot be launched"):
        engine.plan(stack_for(engine), {}, 1)


def test_a_misspelt_engine_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="unknown engine 'Tranformers'") as caught:
        get_engine("Tranformers")
    assert caught.value.hint == "did you mean transformers?"
    with pytest.raises(ConfigError) as caught:
        get_engine("xyz")
    assert caught.value.hint == "known: command, experiment, openai, transformers"


def test_a_switch_turned_off_is_said_aloud_and_the_environment_of_the_stack_wins_over_defaults() -> None:
    engine = get_engine("transformers")
    stack = stack_for(engine).model_copy(update={"launch": LaunchSpec(env={"HF_HUB_OFFLINE": "0"})})
    plan = engine.plan(stack, {"continuous_batching": False, "omp_num_threads": 2}, 1)
    assert "--no-continuous-batching" in plan.argv
    assert plan.env["HF_HUB_OFFLINE"] == "0"
    assert plan.env["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize("model", ["", "--help", "/home/me@work/model"])
def test_a_model_that_the_server_would_misread_is_refused(model: str) -> None:
    engine = get_engine("transformers")
    with pytest.raises(ConfigError):
        engine.plan(stack_for(engine).model_copy(update={"model": model}), {}, 1)
