"""A server of one's own that speaks the OpenAI API, started by a command line from the stack file.

Words in braces are put in: `{port}` (it must occur), `{host}`, `{python}`, `{model}`, `{source}` (the first source
directory; the candidate's tree where there is no sandbox to mount it) and `{parameters}` (where the flags go; they go
to the end without it). The same words work in the values of `launch.env`.

Covered: any language; parameters declared in the stack file, each with its risk class; what is in effect, if the server
tells it at `launch.state_path`.
Not covered: servers that choose their own port, and more than one process that listens.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence

from infra_agent.errors import ConfigError
from infra_agent.stack.engines import table as t
from infra_agent.stack.engines.base import Engagement, LaunchPlan, LogPattern, Parameter, RiskClass
from infra_agent.stack.model import PACKAGE, ParameterSpec, ParameterValue, Stack

COMMAND = "command"
EXPERIMENT = "experiment"
SOURCE = "{source}"
_PARAMETERS = "{parameters}"
_HOST = "127.0.0.1"
_PLACE = re.compile(r"\{([a-z_]+)\}")
_WHERE = "launch.command"
_VERSION = "import sys; print('Python ' + '.'.join(map(str, sys.version_info[:3])))"


DECLARES = frozenset({COMMAND, EXPERIMENT})
"""Engines whose parameters the stack file declares, and which a command of its own starts."""


class CommandEngine:
    """The engine of one stack. Without a stack it describes what all of them share."""

    name = COMMAND
    launches = True
    metrics_path: str | None = None
    log_patterns: Sequence[LogPattern] = (
        LogPattern(
            regex=r"[Aa]ddress already in use",
            meaning="another process listens on the port",
            hint="use {port} in launch.command, so that a free one is given",
        ),
        LogPattern(
            regex=r"ModuleNotFoundError: No module named '\S+'",
            meaning="the interpreter lacks a package",
            hint="name the server's own interpreter in launch.python",
        ),
    )

    def __init__(self, stack: Stack | None = None) -> None:
        self.health_path = stack.launch.health_path if stack is not None else "/health"
        self._table = declared_parameters(stack) if stack is not None else ()

    def parameters(self) -> Sequence[Parameter]:
        """The parameters that the stack file declares."""
        return self._table

    def plan(self, stack: Stack, settings: Mapping[str, ParameterValue], port: int) -> LaunchPlan:
        """Argv and environment. Raises ConfigError for settings or a command that cannot be used."""
        table = declared_parameters(stack)
        _check_launchable(stack)
        t.check(table, settings, where="launch.parameters")
        t.check_side_doors(table, (*stack.launch.extra_args, *stack.launch.command), stack.launch.env, ())
        places = {**places_of(stack), "port": str(port), "host": _HOST}
        argv, env = command_line(stack, table, settings, places)
        return LaunchPlan(argv=argv, env=env, host=_HOST, port=port)

    def version_argv(self, stack: Stack) -> tuple[str, ...] | None:
        """The interpreter's version, for a command that uses it; a server of one's own has no other to ask for."""
        uses = any("{python}" in word for word in stack.launch.command)
        return (python_of(stack), "-I", "-S", "-c", _VERSION) if uses else None

    def reporter(self) -> str | None:
        """Any Python process can be looked into; another one does not answer."""
        return "python"

    def model_in_request(self, stack: Stack) -> str:
        """The name that requests carry."""
        return stack.model or stack.name


def declared_parameters(stack: Stack) -> tuple[Parameter, ...]:
    """The stack file's `[parameters]` as a table."""
    return tuple(_parameter(name, spec) for name, spec in stack.parameters.items())


def command_line(
    stack: Stack, table: Sequence[Parameter], settings: Mapping[str, ParameterValue], places: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """`launch.command` with flags and places put in, and the environment. Raises ConfigError for an unknown place."""
    flags = (*_arguments(table, settings), *stack.launch.extra_args)
    argv: list[str] = []
    for word in stack.launch.command:
        argv += flags if word == _PARAMETERS else [filled(word, places, _WHERE)]
    argv += () if _PARAMETERS in stack.launch.command else flags
    own = {name: filled(value, places, f"launch.env.{name}") for name, value in stack.launch.env.items()}
    return tuple(argv), {**own, **t.environment(table, settings)}


def uses_source(stack: Stack) -> bool:
    """Whether the command is started from `{source}`, so that another tree can take its place without a mount."""
    return any(SOURCE in word for word in (*stack.launch.command, *stack.launch.env.values()))


def _parameter(name: str, spec: ParameterSpec) -> Parameter:
    return Parameter(
        name=name,
        title=spec.title or name.replace("_", " "),
        flag=spec.flag,
        type=spec.type,
        default=spec.default,
        risk=RiskClass.PRODUCTION if spec.risk == "unknown" else RiskClass(spec.risk),
        family=spec.family,
        evidence=spec.evidence or "Declared in the stack file.",
        choices=spec.choices,
        low=spec.low,
        high=spec.high,
        engagement=None if spec.signal is None else Engagement(signal=spec.signal),
    )


def _arguments(table: Sequence[Parameter], settings: Mapping[str, ParameterValue]) -> tuple[str, ...]:
    """Flags of the settings. A switch that is off is left out: `--no-FLAG` is not known to every server."""
    off = {parameter.name for parameter in table if settings.get(parameter.name) is False}
    return t.arguments(table, {name: value for name, value in settings.items() if name not in off})


def places_of(stack: Stack) -> dict[str, str]:
    """What the words in braces stand for, whatever is started."""
    directories = [source for source in stack.sources if not source.startswith(PACKAGE)]
    places = {"python": python_of(stack), "model": stack.model or stack.name}
    return {**places, "source": directories[0]} if directories else places


def filled(word: str, places: Mapping[str, str], where: str) -> str:
    """A word with its places put in. Raises ConfigError for one that is not known."""

    def value(match: re.Match[str]) -> str:
        if match[1] in places:
            return places[match[1]]
        hint = "name a directory in stack.sources" if match[1] == "source" else t.suggestion(match[1], places)
        raise ConfigError(f"nothing is known to put in for {match[0]}", where=where, hint=hint)

    return _PLACE.sub(value, word)


def python_of(stack: Stack) -> str:
    """The stack's interpreter."""
    return stack.launch.python or sys.executable


def _check_launchable(stack: Stack) -> None:
    if stack.url is not None:
        hint = "remove stack.url to have it launched"
        raise ConfigError(f"stack {stack.name} is attached to {stack.url} and cannot be launched", hint=hint)
    if not stack.launch.command:
        hint = 'e.g. command = ["{python}", "server.py", "--port", "{port}"]'
        raise ConfigError("no command is set", where=_WHERE, hint=hint)
    if not any("{port}" in word for word in (*stack.launch.command, *stack.launch.env.values())):
        hint = "the harness chooses a free port for each launch"
        raise ConfigError("the command has no {port}", where=_WHERE, hint=hint)
