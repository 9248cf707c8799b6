"""A brain that draws one conclusion: for work that somebody else did step by step, and for a run that must only end."""

from __future__ import annotations

from infra_agent.agent.actions import Action, ConcludeAction
from infra_agent.agent.dossier import Dossier
from infra_agent.agent.levers import skip_all


class EndingBrain:
    """Concludes with the given words; families that are still untried get the same reason."""

    def __init__(self, name: str, conclusion: ConcludeAction) -> None:
        self.name = name
        self._conclusion = conclusion

    def next(self, dossier: Dossier) -> Action:
        """The conclusion."""
        named = {skipped.family for skipped in self._conclusion.skipped}
        left = [entry for entry in skip_all(dossier, self._conclusion.reason[:300]) if entry.family not in named]
        return self._conclusion.model_copy(update={"skipped": (*self._conclusion.skipped, *left)})
