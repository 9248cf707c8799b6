"""`infra-agent.toml`: text to Stack and back, and the paths that it names.

Covered: unknown keys, engines and parameters (the nearest known one is offered), values of a wrong type or out of
range, each with file and line; relative paths, which are taken from the file's directory.
Not covered: whether the engine starts; that is found out by starting it.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError

from infra_agent.errors import ConfigError
from infra_agent.stack import toml
from infra_agent.stack.demo import demo_paths, demo_stack
from infra_agent.stack.engines import engine_of, get_engine
from infra_agent.stack.engines.base import Engine
from infra_agent.stack.engines.command import DECLARES, EXPERIMENT, declared_parameters
from infra_agent.stack.engines.table import complaint, find, suggestion
from infra_agent.stack.hub import cached_snapshot, looks_like_hub_id
from infra_agent.stack.model import (
    PACKAGE,
    Experiment,
    LaunchSpec,
    Reference,
    ReviewTable,
    Stack,
    StackLimits,
    Workload,
)
from infra_agent.stack.reviewers import read_allowed_signers, review_problem

FILE_NAME = "infra-agent.toml"
DEMO = "demo"
_STACK_KEYS = (
    "name", "engine", "model", "served_model", "url", "sources", "patchable", "protected", "playbooks", "skills",
)  # fmt: skip
_SECTIONS: Mapping[str, type[BaseModel]] = {
    "workload": Workload, "reference": Reference, "limits": StackLimits, "review": ReviewTable,
    "experiment": Experiment,
}  # fmt: skip
_OF_COMMAND = ("command", "health_path", "state_path")
_OF_EXPERIMENT = ("metrics", "experiment")
_TABLES = ("stack", "launch", "parameters", "space", "metrics", "probes", *_SECTIONS)


def load_stack(path: Path) -> Stack:
    """The stack that the file describes, with relative paths made absolute. Raises ConfigError."""
    text = toml.read_text(path)
    stack = _anchor(parse_stack(text, path.name), path.absolute().parent)
    _check_review(stack, text, path.name)
    return stack


def parse_stack(text: str, name: str = FILE_NAME) -> Stack:
    """The stack that the text describes. `name` is the file's name in errors. Raises ConfigError."""
    document = toml.parse(text, name)
    _check_keys(document, text, name)
    _check_finite(document, text, name)
    fields: dict[str, Any] = dict(document.get("stack", {}))
    fields |= {table: document[table] for table in _TABLES[1:] if table in document}
    fields.setdefault("name", Path(name).stem)
    try:
        stack = Stack.model_validate(fields)
    except ValidationError as error:
        raise _value_error(error, text, name) from None
    _check_coherent(stack, text, name)
    _check_declared(stack, text, name)
    _check_parameters(stack, text, name)
    _check_experiment(stack, text, name)
    return stack


def dump_stack(stack: Stack) -> str:
    """The stack as TOML; `parse_stack` gives the same stack back."""
    data = stack.model_dump(mode="json", exclude_none=True)
    if stack.engine not in DECLARES:
        data["launch"] = {key: value for key, value in data["launch"].items() if key not in _OF_COMMAND}
    document: dict[str, Any] = {"stack": {key: data[key] for key in _STACK_KEYS if key in data}}
    absent = () if stack.engine == EXPERIMENT else _OF_EXPERIMENT
    document |= {table: data[table] for table in _TABLES[1:] if data.get(table) and table not in absent}
    return tomli_w.dumps(document)


def resolve_stack(ref: str | None, cwd: Path) -> tuple[Stack, str]:
    """The stack meant by `--stack` and where it comes from: "demo" or the file's path.

    `None`: ./infra-agent.toml when it exists, else the demo. The demo's paths are named here, not prepared.
    """
    if ref is None:
        path = cwd / FILE_NAME
        ref = str(path) if path.exists() else DEMO
    if ref == DEMO:
        return demo_stack(demo_paths()), DEMO
    path = cwd / Path(ref).expanduser()
    if path.is_dir():
        path = path / FILE_NAME
    return load_stack(path), str(path)


def validate_paths(stack: Stack) -> None:
    """Raises ConfigError when a path that the stack names does not exist."""
    for source in stack.sources:
        if not source.startswith(PACKAGE) and not Path(source).is_dir():
            raise ConfigError(f"no such source directory: {source}", where="stack.sources")
    for place, path in (
        *(("experiment.needs", path) for path in stack.experiment.needs),
        *((f"stack.{key}", path) for key in ("playbooks", "skills") if (path := getattr(stack, key)) is not None),
    ):
        if not Path(path).exists():
            raise ConfigError(f"no such file or directory: {path}", where=place)
    for place, prompts in (
        ("workload.prompts", stack.workload.prompts),
        ("reference.prompts", stack.reference.prompts),
    ):
        if not prompts.startswith("builtin:") and not Path(prompts).is_file():
            raise ConfigError(f"no such prompt file: {prompts}", where=place, hint="use builtin:NAME or a JSONL file")
    if stack.url is None:
        _validate_python(stack)
        if stack.engine in DECLARES:
            engine_of(stack).plan(stack, stack.launch.parameters, port=1)
        else:
            _validate_model(stack)


def _validate_python(stack: Stack) -> None:
    python = stack.launch.python
    if python is not None and shutil.which(python) is None:
        hint = "name the interpreter of the environment in which the engine is installed"
        raise ConfigError(f"no such interpreter: {python}", where="launch.python", hint=hint)
    if python is None and not sys.executable:
        raise ConfigError("no interpreter is set", where="launch.python", hint="name one")


def _validate_model(stack: Stack) -> None:
    model = stack.model
    if not model:
        hint = "name a directory with config.json and weights"
        raise ConfigError("no model is set", where="stack.model", hint=hint)
    path = Path(model)
    if looks_like_hub_id(model) and not path.exists():
        if stack.launch.env.get("HF_HUB_OFFLINE") in (None, "1") and cached_snapshot(model, stack.launch.env) is None:
            hint = f"fetch it first (hf download {model}), or name a directory"
            raise ConfigError(f"model {model} is not in the local Hugging Face cache", where="stack.model", hint=hint)
        return
    if not path.exists():
        raise ConfigError(f"no such model: {model}", where="stack.model", hint="name an existing directory")
    if path.is_dir() and not (path / "config.json").is_file():
        raise ConfigError(f"{model} holds no config.json", where="stack.model", hint="name the model's own directory")


def _check_keys(document: Mapping[str, Any], text: str, name: str) -> None:
    for table, content in document.items():
        if table not in _TABLES:
            where = toml.place(text, name, table) if isinstance(content, dict) else toml.place(text, name, "", table)
            raise ConfigError(f"unknown table or key {table!r}", where=where, hint=_belongs(table))
        if not isinstance(content, dict):
            raise ConfigError(f"{table} is a table, not a value", where=toml.place(text, name, "", table))
    known: dict[str, tuple[str, ...]] = {"stack": _STACK_KEYS, "launch": tuple(LaunchSpec.model_fields)}
    known |= {table: tuple(model.model_fields) for table, model in _SECTIONS.items()}
    for table, keys in known.items():
        for key, content in document.get(table, {}).items():
            if key not in keys:
                nested = isinstance(content, dict)
                where = toml.place(text, name, f"{table}.{key}") if nested else toml.place(text, name, table, key)
                raise ConfigError(f"unknown key {key!r} in [{table}]", where=where, hint=suggestion(key, keys))


def _check_declared(stack: Stack, text: str, name: str) -> None:
    """`[parameters]` belongs to a server of one's own, and must describe parameters that can be set."""
    for parameter in declared_parameters(stack):
        where = toml.place(text, name, f"parameters.{parameter.name}")
        if stack.engine not in DECLARES:
            hint = "its table is shown by `infra-agent stack show --params`"
            raise ConfigError(f"engine {stack.engine} has a parameter table of its own", where=where, hint=hint)
        values = [*parameter.choices, *([] if parameter.default is None else [parameter.default])]
        problem = next((found for value in values if (found := complaint(parameter, value)) is not None), None)
        if problem is not None:
            raise ConfigError(problem, where=where)
    if stack.engine in DECLARES and stack.url is None and not stack.launch.command:
        words = '"server.py", "--port", "{port}"' if stack.engine != EXPERIMENT else '"measure.py", "{result}"'
        hint = f'e.g. command = ["{{python}}", {words}]'
        raise ConfigError("launch.command is missing", where=toml.place(text, name, "launch"), hint=hint)
    if stack.launch.command and stack.engine not in DECLARES:
        where = toml.place(text, name, "launch", "command")
        raise ConfigError(f"engine {stack.engine} is not started by a command", where=where, hint='engine = "command"')


def _check_experiment(stack: Stack, text: str, name: str) -> None:
    """What only an experiment has, and what it cannot do without."""
    if stack.engine == EXPERIMENT:
        if not stack.metrics:
            hint = 'e.g. [metrics.error] with unit = "1", direction = "minimise" and meaning = "what it is"'
            raise ConfigError(
                "an experiment declares what it measures", where=toml.place(text, name, "metrics"), hint=hint
            )
        if stack.url is not None:
            where = toml.place(text, name, "stack", "url")
            raise ConfigError("an experiment is run, not attached to", where=where, hint="remove url")
    for table in () if stack.engine == EXPERIMENT else _OF_EXPERIMENT:
        if getattr(stack, table) and getattr(stack, table) != Experiment():
            where = toml.place(text, name, table)
            raise ConfigError(f"[{table}] belongs to experiments", where=where, hint='engine = "experiment"')


def _check_finite(document: Mapping[str, Any], text: str, name: str) -> None:
    # TOML knows inf and nan; a deadline of either would never come, and a digest cannot hold them.
    for table, content in document.items():
        for key, value in content.items():
            if isinstance(value, float) and not math.isfinite(value):
                where = toml.place(text, name, table, key)
                raise ConfigError(f"{table}.{key} must be a finite number; got {value}", where=where)


def _belongs(word: str) -> str:
    if word in _STACK_KEYS:
        return f"{word} belongs into the table [stack]"
    return suggestion(word, _TABLES)


def _value_error(error: ValidationError, text: str, name: str) -> ConfigError:
    first = error.errors(include_url=False)[0]
    location = [str(part) for part in first["loc"] if not isinstance(part, int)]
    table, key = _table_and_key(location)
    cause = first["msg"][0].lower() + first["msg"][1:]
    within = _within_review(first["loc"]) if table == "review" else ""
    if first["type"] == "missing":
        what = f"{table}.{key}: {within}missing" if within else f"{table}.{key} is missing"
        return ConfigError(what, where=toml.place(text, name, table))
    where = toml.place(text, name, table, key)
    return ConfigError(f"{table}.{key}: {within}{cause}; got {first['input']!r}", where=where)


def _within_review(location: tuple[int | str, ...]) -> str:
    """Which reviewer and which of their keys: a person reads `reviewer 2: classes: `."""
    numbers = [f"reviewer {part + 1}: " for part in location if isinstance(part, int)][:1]
    return "".join([*numbers, *(f"{part}: " for part in location[3:] if isinstance(part, str))])


def _table_and_key(location: list[str]) -> tuple[str, str]:
    head = location[0] if location else ""
    if head not in _TABLES:
        return "stack", head
    if head == "launch" and len(location) > 2:
        return f"launch.{location[1]}", location[2]
    return head, location[1] if len(location) > 1 else ""


def _check_coherent(stack: Stack, text: str, name: str) -> None:
    engine = _engine_at(stack, text, name)
    if not engine.launches and stack.url is None:
        hint = 'add url = "http://HOST:PORT"'
        raise ConfigError(f"engine {stack.engine} needs a url", where=toml.place(text, name, "stack"), hint=hint)
    if stack.url is None:
        return
    if not stack.url.startswith(("http://", "https://")):
        where = toml.place(text, name, "stack", "url")
        raise ConfigError(f"not an http address: {stack.url!r}", where=where, hint='e.g. "http://127.0.0.1:8000"')
    for table in ("launch.parameters", "space"):
        if stack.space if table == "space" else stack.launch.parameters:
            hint = "remove url to have it launched, or remove this table"
            message = f"a server attached to by url cannot be relaunched with other parameters: [{table}]"
            raise ConfigError(message, where=toml.place(text, name, table), hint=hint)


def _engine_at(stack: Stack, text: str, name: str) -> Engine:
    try:
        return get_engine(stack.engine)
    except ConfigError as error:
        where = toml.place(text, name, "stack", "engine")
        raise ConfigError(error.message, where=where, hint=error.hint) from None


def _check_parameters(stack: Stack, text: str, name: str) -> None:
    table = engine_of(stack).parameters()
    for key, value in stack.launch.parameters.items():
        where = toml.place(text, name, "launch.parameters", key)
        problem = complaint(find(table, key, where), value)
        if problem is not None:
            raise ConfigError(problem, where=where)
    for key, values in stack.space.items():
        where = toml.place(text, name, "space", key)
        parameter = find(table, key, where)
        if not values:
            raise ConfigError(f"space.{key} lists no values", where=where, hint="remove the line to fix the parameter")
        for value in values:
            problem = complaint(parameter, value)
            if problem is not None:
                raise ConfigError(problem, where=where)


def _check_review(stack: Stack, text: str, name: str) -> None:
    problem = review_problem(stack.review) if stack.review is not None else None
    if problem is not None:
        raise ConfigError(problem, where=toml.place(text, name, "review"), hint="see docs/review.md")


def _with_signers(table: ReviewTable | None, base: Path) -> ReviewTable | None:
    """The table with the people of its allowed_signers file among the reviewers: what a run records is complete."""
    if table is None or table.allowed_signers is None:
        return table
    people = read_allowed_signers(base / Path(table.allowed_signers).expanduser())
    return table.model_copy(update={"reviewers": (*table.reviewers, *people), "allowed_signers": None})


def _anchor(stack: Stack, base: Path) -> Stack:
    """Paths made absolute: those that say so (`./`, `../`, `~`), and those that exist beside the file."""

    def absolute(text: str) -> str:
        path = Path(text).expanduser()
        if path.is_absolute():
            return str(path)
        explicit = text in (".", "..") or text.startswith(("./", "../"))
        # normpath would resolve `a/../b` through links wrongly: the parts are joined and left as they are.
        return str(base / path) if explicit or (text and (base / path).exists()) else text

    def anchored(text: str) -> str:
        return str(base / Path(text).expanduser())

    def prompts(text: str) -> str:
        return text if text.startswith("builtin:") else anchored(text)

    python = stack.launch.python
    if python is not None and ("/" in python or python.startswith("~")):
        python = anchored(python)
    named = stack.engine in DECLARES and not stack.model.startswith(("./", "../", "~"))
    model = stack.model if stack.url is not None or named else absolute(stack.model)
    command = tuple(absolute(word) for word in stack.launch.command)
    probes = {
        key: spec.model_copy(update={"command": tuple(absolute(word) for word in spec.command)})
        for key, spec in stack.probes.items()
    }
    folders = {key: anchored(value) for key in ("playbooks", "skills") if (value := getattr(stack, key)) is not None}
    needs = tuple(anchored(path) for path in stack.experiment.needs)
    return stack.model_copy(
        update={
            "model": model,
            "sources": tuple(source if source.startswith(PACKAGE) else anchored(source) for source in stack.sources),
            "launch": stack.launch.model_copy(update={"python": python, "command": command}),
            "workload": stack.workload.model_copy(update={"prompts": prompts(stack.workload.prompts)}),
            "reference": stack.reference.model_copy(update={"prompts": prompts(stack.reference.prompts)}),
            "review": _with_signers(stack.review, base),
            "probes": probes,
            "experiment": stack.experiment.model_copy(update={"needs": needs}),
            **folders,
        }
    )
