"""Any server that speaks the OpenAI API, attached to by URL: measured, never launched and never changed.

Covered: measuring and diagnosing a running server.
Not covered: changing it; there are no parameters, so a goal that needs a change cannot be met with this engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infra_agent.errors import ConfigError
from infra_agent.stack.engines.base import LaunchPlan, LogPattern, Parameter
from infra_agent.stack.model import ParameterValue, Stack


class OpenAIEngine:
    """A running OpenAI-compatible server."""

    name = "openai"
    launches = False
    health_path = "/v1/models"
    metrics_path: str | None = None
    log_patterns: Sequence[LogPattern] = ()

    def parameters(self) -> Sequence[Parameter]:
        """None: a server that someone else started has nothing that can be set from here."""
        return ()

    def plan(self, stack: Stack, settings: Mapping[str, ParameterValue], port: int) -> LaunchPlan:
        """Raises ConfigError: this engine is attached to, not launched."""
        hint = 'describe the launch with another engine, e.g. engine = "transformers"'
        raise ConfigError(f"stack {stack.name}: a server attached to by URL cannot be launched", hint=hint)

    def version_argv(self, stack: Stack) -> tuple[str, ...] | None:
        """None: the version of a remote server is not known."""
        return None

    def reporter(self) -> str | None:
        """None: nothing can be started inside a server that is already running."""
        return None

    def model_in_request(self, stack: Stack) -> str:
        """The model's name as the server knows it."""
        return stack.model
