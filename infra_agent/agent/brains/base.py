"""The Brain protocol: a dossier in, one action out. Brains touch no files, processes or network."""

from __future__ import annotations

from typing import Protocol

from infra_agent.agent.actions import Action
from infra_agent.agent.dossier import Dossier


class Brain(Protocol):
    """Decides the next action from the dossier alone: the same dossier gives the same action, so a run resumes."""

    name: str

    def next(self, dossier: Dossier) -> Action:
        """The next action."""
        ...
