"""The error of an action that may not be carried out."""

from __future__ import annotations

from infra_agent.errors import UsageError


class ActionError(UsageError):
    """An action that may not be carried out. The brain sees the message; it is charged, never executed."""

    kind = "action"
