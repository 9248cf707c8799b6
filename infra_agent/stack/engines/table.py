"""Checks settings against an engine's parameter table, and turns them into command-line words.

Covered: unknown names (the nearest known one is offered), types, choices, ranges, flags and environment variables.
Not covered: whether a value makes sense for a model or a device; the engine itself says that at start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from infra_agent.errors import ConfigError
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.model import ParameterValue

ENV_PREFIX = "env:"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to this one, or None when nothing is close."""
    candidates = list(known)
    folded = {name.lower().replace("-", "_"): name for name in candidates}
    match = get_close_matches(word.lower().replace("-", "_"), list(folded), n=1, cutoff=0.6)
    return folded[match[0]] if match else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint for a misspelt word: the nearest known one, or all of them."""
    names = sorted(known)
    close = nearest(word, names)
    if close is not None:
        return f"did you mean {close}?"
    return f"known: {', '.join(names)}" if names else "none are known here"


def find(table: Sequence[Parameter], name: str, where: str = "") -> Parameter:
    """The parameter of this name. Raises ConfigError that names the nearest known one."""
    for parameter in table:
        if parameter.name == name:
            return parameter
    hint = suggestion(name, [parameter.name for parameter in table])
    raise ConfigError(f"unknown launch parameter {name!r}", where=where, hint=hint)


def complaint(parameter: Parameter, value: ParameterValue) -> str | None:
    """What is wrong with this value, or None when it may be used."""
    wrong_type = _type_complaint(parameter.type, value)
    if wrong_type is not None:
        return f"{parameter.name} {wrong_type}"
    if parameter.choices and value not in parameter.choices:
        return f"{parameter.name} is one of {', '.join(map(str, parameter.choices))}; got {value!r}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            return f"{parameter.name} must be finite; got {value}"
        if parameter.low is not None and value < parameter.low:
            return f"{parameter.name} is at least {parameter.low:g}; got {value}"
        if parameter.high is not None and value > parameter.high:
            return f"{parameter.name} is at most {parameter.high:g}; got {value}"
    if isinstance(value, str) and (not value or "\0" in value or "\n" in value):
        return f"{parameter.name} needs a value of one line; got {value!r}"
    return None


def _type_complaint(kind: str, value: ParameterValue) -> str | None:
    # bool is an int in Python: `cb_num_blocks = true` must not become 1.
    ok = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "str": isinstance(value, str),
    }[kind]
    words = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}
    return None if ok else f"needs {words[kind]}; got {value!r}"


def check(table: Sequence[Parameter], settings: Mapping[str, ParameterValue], where: str = "") -> None:
    """Raises ConfigError for the first unknown name or impossible value."""
    for name, value in settings.items():
        problem = complaint(find(table, name, where), value)
        if problem is not None:
            raise ConfigError(problem, where=where)


def arguments(table: Sequence[Parameter], settings: Mapping[str, ParameterValue]) -> tuple[str, ...]:
    """Command-line words for the settings, in the table's order. `False` becomes `--no-FLAG`."""
    words: list[str] = []
    for parameter in table:
        if parameter.name not in settings or parameter.flag.startswith(ENV_PREFIX):
            continue
        value = settings[parameter.name]
        if value is True:
            words.append(parameter.flag)
        elif value is False:
            words.append("--no-" + parameter.flag.removeprefix("--"))
        else:
            words += [parameter.flag, str(value)]
    return tuple(words)


def environment(table: Sequence[Parameter], settings: Mapping[str, ParameterValue]) -> dict[str, str]:
    """Environment variables for the settings."""
    return {
        parameter.flag.removeprefix(ENV_PREFIX): str(settings[parameter.name])
        for parameter in table
        if parameter.name in settings and parameter.flag.startswith(ENV_PREFIX)
    }


def check_side_doors(
    table: Sequence[Parameter],
    extra_args: Sequence[str],
    env: Mapping[str, str],
    owned: Sequence[str],
) -> None:
    """Raises ConfigError when extra arguments or variables set what the table or the harness already controls.

    Such a value would survive every candidate unseen, and the comparison would not be the one that is reported.
    """
    flags = {parameter.flag: parameter.name for parameter in table}
    for word in extra_args:
        flag = word.split("=", 1)[0]
        name = flags.get(flag) or flags.get("--" + flag.removeprefix("--no-"))
        if name is not None:
            hint = f"set launch.parameters.{name} instead"
            raise ConfigError(f"{flag} is a known launch parameter", where="launch.extra_args", hint=hint)
        if flag in owned:
            raise ConfigError(f"{flag} is set by the harness", where="launch.extra_args", hint="remove it")
    for variable in env:
        name = flags.get(ENV_PREFIX + variable)
        if name is not None:
            hint = f"set launch.parameters.{name} instead"
            raise ConfigError(f"{variable} is a known launch parameter", where="launch.env", hint=hint)
