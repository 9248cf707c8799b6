"""Engines by name. Factories are lazy: describing one engine imports no other.

Covered: look-up with the nearest known name in the error.
Not covered: starting anything (harness.server).
"""

from __future__ import annotations

from infra_agent.errors import ConfigError
from infra_agent.stack.engines.base import Engine
from infra_agent.stack.engines.table import suggestion
from infra_agent.stack.model import Stack
from probes.base import Registry


def _transformers() -> Engine:
    from infra_agent.stack.engines.transformers import TransformersEngine

    return TransformersEngine()


def _openai() -> Engine:
    from infra_agent.stack.engines.openai import OpenAIEngine

    return OpenAIEngine()


def _command() -> Engine:
    from infra_agent.stack.engines.command import CommandEngine

    return CommandEngine()


def _experiment() -> Engine:
    from infra_agent.stack.engines.experiment import ExperimentEngine

    return ExperimentEngine()


ENGINES: Registry[Engine] = Registry("engine")
ENGINES.register("transformers", _transformers)
ENGINES.register("openai", _openai)
ENGINES.register("command", _command)
ENGINES.register("experiment", _experiment)


def get_engine(name: str) -> Engine:
    """The engine of this name. Raises ConfigError that names the nearest known one."""
    if name not in ENGINES.names():
        hint = suggestion(name, ENGINES.names())
        raise ConfigError(f"unknown engine {name!r}", where="stack.engine", hint=hint)
    return ENGINES.create(name)


def engine_of(stack: Stack) -> Engine:
    """The stack's engine, with the parameters that its file declares. Raises ConfigError for an unknown one."""
    from infra_agent.stack.engines.command import COMMAND, EXPERIMENT, CommandEngine

    if stack.engine == EXPERIMENT:
        from infra_agent.stack.engines.experiment import ExperimentEngine

        return ExperimentEngine(stack)
    return CommandEngine(stack) if stack.engine == COMMAND else get_engine(stack.engine)
