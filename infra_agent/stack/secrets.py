"""Secrets of a stack file: found, left out of what is written, and put back when a run is resumed.

Covered: `launch.env`, `launch.extra_args`, `launch.parameters` and addresses. They reach the engine and nothing else.
Not covered: secrets under names that say nothing (`redact.known`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from infra_agent.errors import ConfigError
from infra_agent.redact.known import (
    MASK,
    address_secrets,
    flag_values,
    hidden_argv,
    hidden_env,
    is_secret,
    secret_values,
)
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.files import DEMO, load_stack
from infra_agent.stack.model import LaunchSpec, ParameterValue, Stack


def stack_secrets(stack: Stack) -> frozenset[str]:
    """Every secret value in the stack."""
    named = {name: value for name, value in stack.launch.parameters.items() if isinstance(value, str)}
    found = secret_values(stack.launch.env, named) | flag_values(stack.launch.extra_args)
    return found | frozenset(address_secrets(stack.url or ""))


def hidden_stack(stack: Stack) -> Stack:
    """The stack as it may be written and shown."""
    launch = stack.launch
    hidden = launch.model_copy(
        update={
            "env": hidden_env(launch.env),
            "extra_args": tuple(hidden_argv(launch.extra_args)),
            "parameters": {name: _hidden(name, value) for name, value in launch.parameters.items()},
        }
    )
    url = hidden_env({"url": stack.url})["url"] if stack.url is not None else None
    return stack.model_copy(update={"launch": hidden, "url": url})


def restored_stack(kept: Stack, digest: str, source: str, environ: Mapping[str, str]) -> Stack:
    """The stack of a run with its secrets, from the file it was read from or from variables of the same name.

    `kept` is what the ledger holds, `digest` the whole stack's. ConfigError when the secrets are not to be had, or
    the stack is another one by now.
    """
    places = list(_hidden_places(kept))
    if not places:
        return kept
    for stack in (_from_file(source), _from_environment(kept, environ)):
        if stack is not None and stack_digest(stack, {}) == digest:
            return stack
    variables = [place.removeprefix("launch.env.") for place in places if place.startswith("launch.env.")]
    exports = " ".join(f"{name}=..." for name in variables)
    by_hand = f", or set {exports}" if len(variables) == len(places) else ""
    raise ConfigError(
        f"the run needs secrets that its ledger does not hold: {', '.join(places)}",
        where=source or "the stack file",
        hint=f"put the stack file back as it was{by_hand}, then resume",
    )


def _hidden(name: str, value: ParameterValue) -> ParameterValue:
    return MASK if isinstance(value, str) and is_secret(name, value) else value


def _hidden_places(stack: Stack) -> Iterator[str]:
    launch: LaunchSpec = stack.launch
    yield from (f"launch.env.{name}" for name, value in launch.env.items() if MASK in value)
    yield from (f"launch.parameters.{name}" for name, value in launch.parameters.items() if MASK in str(value))
    if any(MASK in word for word in launch.extra_args):
        yield "launch.extra_args"
    if MASK in (stack.url or ""):
        yield "url"


def _from_file(source: str) -> Stack | None:
    if not source or source == DEMO or not Path(source).is_file():
        return None
    return load_stack(Path(source))


def _from_environment(kept: Stack, environ: Mapping[str, str]) -> Stack | None:
    """The kept stack, hidden variables taken from the environment."""
    env = {name: environ.get(name, value) if MASK in value else value for name, value in kept.launch.env.items()}
    return kept.model_copy(update={"launch": kept.launch.model_copy(update={"env": env})})
