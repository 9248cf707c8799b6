"""infra-agent.toml: what is read, what is written, and how precisely mistakes are named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.errors import ConfigError
from infra_agent.stack.cache import cache_dir
from infra_agent.stack.demo import demo_paths, demo_stack
from infra_agent.stack.engines import get_engine
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.files import dump_stack, load_stack, parse_stack, resolve_stack, validate_paths
from infra_agent.stack.init import init_text, write_init
from infra_agent.stack.model import LaunchSpec, ParameterValue, Reference, Stack, StackLimits, Workload

GOOD = """\
[stack]
name = "mine"
engine = "transformers"
model = "./weights"

[launch]
python = "./venv/bin/python"
extra_args = ["--chat-template-kwargs", "{}"]

[launch.parameters]
cb_num_blocks = 64
continuous_batching = false

[launch.env]
HF_HOME = "/data/hf"

[space]
continuous_batching = [true]
omp_num_threads = [1, 4]

[limits]
start_timeout_s = 90.5
"""

TABLE = get_engine("transformers").parameters()


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_stack(text)
    return caught.value


def test_a_file_becomes_a_stack_with_paths_from_its_own_directory(tmp_path: Path) -> None:
    path = tmp_path / "infra-agent.toml"
    path.write_text(GOOD)
    stack = load_stack(path)
    assert stack.name == "mine"
    assert stack.model == str(tmp_path / "weights")
    assert stack.launch.python == str(tmp_path / "venv/bin/python")
    assert stack.launch.parameters == {"cb_num_blocks": 64, "continuous_batching": False}
    assert stack.space == {"continuous_batching": (True,), "omp_num_threads": (1, 4)}
    assert stack.limits.start_timeout_s == 90.5
    assert stack.limits.stop_timeout_s == StackLimits().stop_timeout_s


def test_a_hub_name_stays_a_name_unless_a_directory_of_that_name_is_there(tmp_path: Path) -> None:
    path = tmp_path / "infra-agent.toml"
    path.write_text('[stack]\nengine = "transformers"\nmodel = "org/name"\n')
    assert load_stack(path).model == "org/name"
    (tmp_path / "org/name").mkdir(parents=True)
    assert load_stack(path).model == str(tmp_path / "org/name")


def test_prompt_files_and_sources_are_taken_from_the_files_directory(tmp_path: Path) -> None:
    path = tmp_path / "infra-agent.toml"
    path.write_text(
        '[stack]\nengine = "transformers"\nmodel = "m"\nsources = ["src"]\n[workload]\nprompts = "p.jsonl"\n'
    )
    stack = load_stack(path)
    assert stack.workload.prompts == str(tmp_path / "p.jsonl")
    assert stack.sources == (str(tmp_path / "src"),)
    assert stack.reference.prompts == "builtin:answers"


@pytest.mark.parametrize(
    ("old", "new", "message", "where", "hint"),
    [
        ("model =", "modle =", "unknown key 'modle' in [stack]", "infra-agent.toml:4  stack.modle", "model?"),
        ("[space]", "[spaec]", "unknown table or key 'spaec'", "infra-agent.toml:17  spaec", "space?"),
        ("start_timeout_s", "start_timout_s", "unknown key", "infra-agent.toml:22  limits.", "start_timeout_s?"),
        ("cb_num_blocks", "cb-num-block", "unknown launch", "infra-agent.toml:11  launch.param", "cb_num_blocks?"),
        ("omp_num_threads", "omp_threads", "unknown launch", "infra-agent.toml:19  space.omp", "omp_num_threads?"),
        ('"transformers"', '"tranformers"', "unknown engine", "infra-agent.toml:3  stack.engine", "transformers?"),
        ("cb_num_blocks = 64", "cb_num_blocks = 0", "at least 1; got 0", "infra-agent.toml:11", ""),
        ("cb_num_blocks = 64", "cb_num_blocks = true", "needs a whole number; got True", "infra-agent.toml:11", ""),
        ("cb_num_blocks = 64", "dtype = 'float8'", "one of auto, bfloat16", "infra-agent.toml:11", ""),
        ("= [1, 4]", "= [1, 4.5]", "needs a whole number; got 4.5", "infra-agent.toml:19  space.omp_num_threads", ""),
        ("= [1, 4]", "= []", "lists no values", "infra-agent.toml:19", "remove the line"),
        ("= [1, 4]", "= 4", "space.omp_num_threads", "infra-agent.toml:19  space.omp_num_threads", ""),
        ("= 90.5", "= 0", "greater than 0; got 0", "infra-agent.toml:22  limits.start_timeout_s", ""),
        ("= 90.5", "= inf", "finite", "infra-agent.toml:22  limits.start_timeout_s", ""),
        ('HF_HOME = "/data/hf"', "HF_HOME = 3", "launch.env.HF_HOME", "infra-agent.toml:15  launch.env.HF_HOME", ""),
        ('name = "mine"', "name = mine", "not valid TOML", "infra-agent.toml:2", ""),
        ('engine = "transformers"', "", "stack.engine is missing", "infra-agent.toml:1  stack", ""),
        ("[stack]", "launch = 3\n[stack]", "not valid TOML", "infra-agent.toml:7", ""),
        ("[stack]\n", "", "belongs into the table [stack]", "infra-agent.toml:1  name", ""),
        ("[launch]\n", "[launch.params]\nx = 1\n[launch]\n", "unknown key", "infra-agent.toml:6  ", "parameters?"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_the_nearest_known_word(
    old: str, new: str, message: str, where: str, hint: str
) -> None:
    assert old in GOOD
    error = refused(GOOD.replace(old, new, 1))
    assert message in error.message or message in error.hint
    assert error.where.startswith(where)
    assert hint in error.hint


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_an_empty_file_is_an_error(text: str) -> None:
    assert "empty" in refused(text).message


def test_a_missing_or_unreadable_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file") as caught:
        load_stack(tmp_path / "infra-agent.toml")
    assert "init" in caught.value.hint
    with pytest.raises(ConfigError, match="cannot read"):
        load_stack(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_stack(binary)


def test_an_attached_server_needs_a_url_and_takes_no_parameters() -> None:
    assert "needs a url" in refused('[stack]\nengine = "openai"\nmodel = "m"\n').message
    assert "not an http address" in refused('[stack]\nengine = "openai"\nmodel = "m"\nurl = "host:80"\n').message
    head = '[stack]\nengine = "transformers"\nmodel = "m"\nurl = "http://h:1"\n'
    error = refused(head + "[space]\ncompile = [true]\n")
    assert "cannot be relaunched" in error.message
    assert error.where == "infra-agent.toml:5  space"
    assert parse_stack(head).url == "http://h:1"


def values_of(parameter: Parameter) -> st.SearchStrategy[ParameterValue]:
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    low, high = parameter.low, parameter.high
    if parameter.type == "int":
        return st.integers(int(low or 0), int(high or 1000))
    if parameter.type == "float":
        return st.floats(low or 0, high or 1)
    return st.booleans() if parameter.type == "bool" else st.just("cpu")


LAUNCHED = st.dictionaries(st.sampled_from([p.name for p in TABLE]), st.none()).flatmap(
    lambda names: st.fixed_dictionaries({p.name: values_of(p) for p in TABLE if p.name in names})
)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20)
STACKS = st.builds(
    Stack,
    name=TEXT,
    engine=st.just("transformers"),
    model=TEXT,
    served_model=st.none() | TEXT,
    launch=st.builds(
        LaunchSpec,
        python=st.none() | TEXT,
        parameters=LAUNCHED,
        env=st.dictionaries(TEXT, TEXT, max_size=3),
        extra_args=st.lists(TEXT, max_size=3).map(tuple),
    ),
    space=LAUNCHED.map(lambda chosen: {name: (value,) for name, value in chosen.items()}),
    sources=st.lists(TEXT, max_size=2).map(tuple),
    workload=st.builds(Workload, prompts=TEXT, requests=st.integers(1, 99), stream=st.booleans()),
    reference=st.builds(Reference, oracle=st.sampled_from(["none", "transformers-float32"])),
    limits=st.builds(StackLimits, start_timeout_s=st.floats(1e-3, 1e6), memory_bytes=st.none() | st.integers(1, 2**53)),
)


@settings(max_examples=60, deadline=None)
@given(STACKS)
def test_a_stack_survives_being_written_and_read(stack: Stack) -> None:
    again = parse_stack(dump_stack(stack))
    assert again == stack
    assert [type(value) for value in again.launch.parameters.values()] == [
        type(value) for value in stack.launch.parameters.values()
    ]


def test_without_a_name_the_file_in_the_directory_is_used_and_else_the_demo(tmp_path: Path) -> None:
    assert resolve_stack(None, tmp_path) == (demo_stack(demo_paths()), "demo")
    path = tmp_path / "infra-agent.toml"
    path.write_text(GOOD)
    for ref in (None, str(tmp_path), str(path), "infra-agent.toml"):
        stack, source = resolve_stack(ref, tmp_path)
        assert (stack.name, source) == ("mine", str(path))
    assert resolve_stack("demo", tmp_path)[1] == "demo"


def test_the_demo_is_a_valid_stack_file() -> None:
    stack = demo_stack(demo_paths())
    assert parse_stack(dump_stack(stack)) == stack
    assert stack.launch.parameters == {"cb_num_blocks": 64}
    assert stack.workload.concurrency == 4


def test_the_cache_variable_moves_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRA_AGENT_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    assert demo_paths().root.parent == tmp_path
    assert cache_dir({}) != tmp_path


def model_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "weights"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    return directory


def test_paths_that_do_not_exist_are_named_before_anything_is_started(tmp_path: Path) -> None:
    good = Stack(name="s", engine="transformers", model=str(model_directory(tmp_path)))
    validate_paths(good)
    validate_paths(good.model_copy(update={"launch": LaunchSpec(python=sys.executable)}))
    cases: dict[str, dict[str, object]] = {
        "no such model": {"model": str(tmp_path / "absent")},
        "no model is set": {"model": ""},
        "holds no config.json": {"model": str(tmp_path)},
        "no such interpreter": {"launch": LaunchSpec(python=str(tmp_path / "python"))},
        "no such source directory": {"sources": (str(tmp_path / "src"),)},
        "no such prompt file": {"workload": Workload(prompts=str(tmp_path / "p.jsonl"))},
    }
    for message, update in cases.items():
        with pytest.raises(ConfigError, match=message) as caught:
            validate_paths(good.model_copy(update=update))
        assert caught.value.where


def test_a_hub_name_must_be_in_the_local_cache(tmp_path: Path) -> None:
    launch = LaunchSpec(env={"HF_HOME": str(tmp_path)})
    stack = Stack(name="s", engine="transformers", model="org/name", launch=launch)
    with pytest.raises(ConfigError, match="not in the local Hugging Face cache") as caught:
        validate_paths(stack)
    assert "hf download org/name" in caught.value.hint
    repository = tmp_path / "hub" / "models--org--name"
    (repository / "snapshots" / "abc").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    validate_paths(stack)


@pytest.mark.parametrize(
    ("engine", "model", "url"),
    [
        ("transformers", None, None),
        ("transformers", 'odd "name" \\ ä', None),
        ("transformers", "org/name", "http://127.0.0.1:8001"),
        ("openai", None, None),
        ("openai", "served", "http://host:9000"),
    ],
)
def test_the_written_file_loads_as_it_is(engine: str, model: str | None, url: str | None, tmp_path: Path) -> None:
    path = tmp_path / "infra-agent.toml"
    write_init(path, init_text(engine, model, url))
    stack = load_stack(path)
    assert stack.engine == engine
    if model is not None:
        assert stack.model == model
    if url is not None or engine == "openai":
        assert stack.url == (url or "http://127.0.0.1:8000")
        assert stack.reference.oracle == "none"
    assert stack.workload == Workload()


def test_every_line_offered_in_the_written_space_is_valid() -> None:
    text = init_text("transformers")
    offered = {f"# {parameter.name} = " for parameter in TABLE if parameter.family != "service"}
    lines = [line.removeprefix("# ") if any(map(line.startswith, offered)) else line for line in text.splitlines()]
    stack = parse_stack("\n".join(lines))
    assert set(stack.space) == {parameter.name for parameter in TABLE if parameter.family != "service"}


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "infra-agent.toml"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        write_init(path, "new")
    assert path.read_text() == "precious"
    write_init(path, "new", force=True)
    assert path.read_text() == "new"
    with pytest.raises(ConfigError, match="cannot write"):
        write_init(tmp_path / "absent" / "x.toml", "new")


def test_the_example_in_the_documentation_loads() -> None:
    text = (Path(__file__).parents[2] / "docs" / "stacks.md").read_text(encoding="utf-8")
    example = text.split("```toml\n", 1)[1].split("```", 1)[0]
    stack = parse_stack(example)
    assert stack.space
    for table in ("stack", "launch", "launch.parameters", "launch.env", "space", "workload", "reference", "limits"):
        assert f"[{table}]" in example
