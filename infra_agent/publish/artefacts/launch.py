"""A launch as ready files: command line, env file, engine configuration (YAML), Kubernetes patch. Each is read back.

The launch is the one that was measured, as the ledger has it; only the port is given back to the reader. What was read
back must be the launch again, or there is no file: nothing is offered that would start something else.

Covered: any engine's command line and environment; `--config` files of `vllm serve` and `sglang.launch_server`; a
strategic-merge patch for the container of a Deployment.
Not covered: starting them (the command line was started as often as the report says), other formats of clusters.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra_agent.errors import UsageError

PORT = "8000"
CONTAINER = "server"
_MASK = "***"
_ENGINES = {"vllm": re.compile(r"(?:^|/)vllm$|^vllm\."), "sglang": re.compile(r"^sglang(?:\.|$)|(?:^|/)sglang$")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line with its environment, without the port that chance gave it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of what was masked in the ledger: the reader has to fill it in."""
        named = [name for name, value in sorted(self.env.items()) if _MASK in value]
        return (*named, *(word for word in self.argv if _MASK in word))


def launch_of(argv: Sequence[str], env: Mapping[str, str]) -> Launch:
    """The launch of a ledger with the usual port in place of the free one that the run took."""
    words = list(argv)
    for index, word in enumerate(words):
        if word == "--port" and index + 1 < len(words) and words[index + 1].isdecimal():
            words[index + 1] = PORT
        elif word.startswith("--port=") and word.removeprefix("--port=").isdecimal():
            words[index] = f"--port={PORT}"
    return Launch(argv=tuple(words), env=dict(env))


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefacts:
    """File name → content, and why a file that one could expect is not there."""

    files: Mapping[str, bytes]
    gaps: tuple[str, ...]


def artefacts(launch: Launch, title: str) -> Artefacts:
    """All files of a launch. What would not be the launch again when read back is left out, with the reason."""
    heading = f"# {_comment(title)}\n"
    engine = engine_of(launch)
    makers: dict[str, Callable[[], str]] = {
        "launch.sh": lambda: f"#!/bin/sh\n{heading}set -eu\n{command_line(launch)}\n",
        "launch.env": lambda: heading + env_file(launch),
        "kubernetes-patch.yaml": lambda: heading + kubernetes_patch(launch),
    }
    if engine:
        start = _comment(shlex.join([*_before_options(launch.argv), "--config", f"{engine}.yaml"]))
        makers[f"{engine}.yaml"] = lambda: f"{heading}# {start}\n{engine_yaml(launch)}"
    files: dict[str, bytes] = {}
    gaps: list[str] = []
    for name, make in makers.items():
        try:
            files[name] = make().encode()
        except UsageError as error:
            gaps.append(f"{name}: {error.message}")
    return Artefacts(files=files, gaps=tuple(gaps))


def command_line(launch: Launch) -> str:
    """`exec env NAME=value ... program ...` for a POSIX shell."""
    words = [*(f"{name}={value}" for name, value in sorted(launch.env.items())), *launch.argv]
    line = "exec env " + shlex.join(words)
    if shlex.split(line)[2:] != words:
        raise _unreadable("command line")
    return line


def env_file(launch: Launch) -> str:
    """`NAME=value` lines as systemd and `docker --env-file` read them: no quotes, one line each."""
    lines = []
    for name, value in sorted(launch.env.items()):
        if "\n" in value or "\r" in value:
            raise _unreadable(f"env file: {name} has several lines")
        lines.append(f"{name}={value}")
    if dict(line.split("=", 1) for line in lines) != dict(launch.env):
        raise _unreadable("env file")
    return "".join(f"{line}\n" for line in lines)


def engine_of(launch: Launch) -> str:
    """`vllm` or `sglang` where the command line starts that engine; else empty."""
    for word in launch.argv[:4]:
        for engine, pattern in _ENGINES.items():
            if pattern.search(word):
                return engine
    return ""


def engine_yaml(launch: Launch) -> str:
    """The options as the engine's own `--config` file: `name: value`, a flag without a value as `true`."""
    options = _options(launch.argv)
    text = "".join(f"{name}: {_scalar(value)}\n" for name, value in options)
    if _argv_of(text) != [word for name, value in options for word in _words(name, value)]:
        raise _unreadable("configuration file")
    return text


def kubernetes_patch(launch: Launch, container: str = CONTAINER) -> str:
    """A strategic-merge patch of a Deployment: command and environment of one container.

    JSON in block form is YAML; `kubectl patch --patch-file` takes it. The name `server` is to be replaced by yours.
    """
    environment = [{"name": name, "value": value} for name, value in sorted(launch.env.items())]
    one = {"name": container, "command": list(launch.argv), "env": environment}
    document = {"spec": {"template": {"spec": {"containers": [one]}}}}
    text = json.dumps(document, indent=2, ensure_ascii=True) + "\n"
    if json.loads(text) != document:
        raise _unreadable("Kubernetes patch")
    return text


def _options(argv: Sequence[str]) -> list[tuple[str, str | None]]:
    """The options after the program and its positional words; UsageError where they cannot be told apart."""
    found: list[tuple[str, str | None]] = []
    words = list(argv)
    index = len(_before_options(argv))
    while index < len(words):
        name, equals, value = words[index].partition("=")
        if not name.startswith("--"):
            raise _unreadable(f"configuration file: {words[index]!r} belongs to no option")
        following = words[index + 1] if index + 1 < len(words) else "--"
        if equals:
            found.append((name[2:], value))
        elif following.startswith("--"):
            found.append((name[2:], None))
        else:
            found.append((name[2:], following))
            index += 1
        index += 1
    if len({name for name, _ in found}) != len(found):
        raise _unreadable("configuration file: an option is given twice")
    return found


def _before_options(argv: Sequence[str]) -> list[str]:
    """The program and its positional words."""
    first = next((index for index, word in enumerate(argv) if word.startswith("--")), len(argv))
    return list(argv[:first])


def _scalar(value: str | None) -> str:
    if value is None:
        return "true"
    return value if re.fullmatch(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", value) else json.dumps(value)


def _argv_of(text: str) -> list[str]:
    """What an engine makes of the file: read back with JSON's rules, which YAML shares for these scalars."""
    words: list[str] = []
    for line in text.splitlines():
        name, _, scalar = line.partition(": ")
        value: Any = json.loads(scalar)
        words += _words(name, None if value is True else value if isinstance(value, str) else scalar)
    return words


def _words(name: str, value: str | None) -> list[str]:
    return [f"--{name}"] if value is None else [f"--{name}", value]


def _comment(text: str) -> str:
    return " ".join(word for word in text.split() if word.isprintable())


def _unreadable(what: str) -> UsageError:
    return UsageError(f"the launch cannot be written as {what}", hint="the command line in the report is exact")
