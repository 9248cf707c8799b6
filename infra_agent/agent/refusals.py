"""The refusal of an action: what a brain is told instead of a result."""

from __future__ import annotations

from infra_agent.errors import UsageError


class ActionError(UsageError):
    """An action that may not be carried out. The brain sees the message; it is charged, never executed.

    `code` says which rule it broke, e.g. `repeat` or `conclude_refused`.
    """

    kind = "action"

    def __init__(self, message: str, *, code: str = "refused") -> None:
        super().__init__(message)
        self.code = code
