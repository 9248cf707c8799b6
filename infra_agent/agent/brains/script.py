"""A brain that plays a list of actions: for tests, and to repeat a person's plan exactly (`agent.scripts`)."""

from __future__ import annotations

from collections.abc import Sequence

from infra_agent.agent.actions import Action, ConcludeAction
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.levers import skip_all


class ScriptBrain:
    """Plays its actions in order; concludes after the last."""

    name = "script"

    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions = tuple(actions)

    def next(self, dossier: Dossier) -> Action:
        """The action of this turn."""
        if dossier.turn < len(self._actions):
            return self._actions[dossier.turn]
        left = skip_all(dossier, "the script ended before it")
        return ConcludeAction(reason="the script has ended", skipped=left)
