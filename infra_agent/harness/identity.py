"""Is the server that answers the one that was asked for? Decided by the model field of a real answer.

Covered: chat and text completions; a revision suffix (`name@main`) that an engine adds by itself.
Not covered: an engine that echoes the requested name whatever it has loaded.
"""

from __future__ import annotations

from infra_agent.stack.engines.base import Engine
from infra_agent.stack.model import Stack


def expected_models(engine: Engine, stack: Stack) -> tuple[str, ...]:
    """Names that an answer may carry, the requested one first."""
    names = (engine.model_in_request(stack), stack.served_model)
    return tuple(dict.fromkeys(name for name in names if name))


def is_expected(answered: str, expected: tuple[str, ...]) -> bool:
    """Whether an answer's model field names one of the expected models."""
    return answered in expected or any("@" not in name and answered.partition("@")[0] == name for name in expected)
