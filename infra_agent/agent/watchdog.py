"""Stops a brain that makes no progress: it repeats itself, is refused again and again, or nothing new comes of it.

Covered: the same action (by its digest) again and again without a decision in between, refusals in a row, turns
without a new observation, candidate or verdict. Built again from the ledger after a resume: a crash grants no patience.
Not covered: a brain that measures new things without end; turns and budget end that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a brain may go on without progress, in turns.

    `same`: one action, since the last new candidate, verdict or best. The plain search measures its best again up to
    once per halving, so 10 leaves room for a thousand promising ones. `refused`: refusals in a row. `quiet`: turns
    without any new observation, candidate, verdict or best; stating causes and reading are quiet.
    """

    same: int = 10
    refused: int = 10
    quiet: int = 25


class Progress(NamedTuple):
    """What a run has gathered so far: observations, and candidates with verdicts and acceptances."""

    observations: int
    decisions: int


class Watchdog:
    """Sees every action once, after it was carried out or refused."""

    def __init__(self, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._seen: Counter[str] = Counter()
        self._last = Progress(0, 0)
        self._quiet = 0
        self._refused = 0

    @classmethod
    def resumed(cls, state: RunState, patience: Patience | None = None) -> Watchdog:
        """As it stood when the ledger ends."""
        watchdog = cls(patience)
        observations = decisions = 0
        for stamped in state.events:
            data = stamped.data
            observations += isinstance(data, k.ObservationMade)
            decisions += isinstance(data, k.CandidateProposed | k.VerdictGiven | k.Accepted)
            if isinstance(data, k.ActionTaken):
                watchdog.saw(data.action, refused=False, progress=Progress(observations, decisions))
            elif isinstance(data, k.ActionRefused):
                watchdog.saw(data.action, refused=True, progress=Progress(observations, decisions))
        return watchdog

    def saw(self, action: Any, *, refused: bool, progress: Progress) -> str:
        """Count one action; why the brain is to be stopped, or nothing. `action` is JSON data, or the text of it."""
        if progress.decisions > self._last.decisions:
            self._seen.clear()
        self._quiet = 0 if progress != self._last else self._quiet + 1
        self._refused = self._refused + 1 if refused else 0
        self._last = progress
        digest = digest_of(action)
        self._seen[digest] += 1
        if self._refused >= self._patience.refused:
            return f"{self._refused} refused actions in a row"
        if self._seen[digest] >= self._patience.same:
            return f"the same action {self._seen[digest]} times without a decision"
        if self._quiet >= self._patience.quiet:
            return f"{self._quiet} turns without a new observation, candidate or verdict"
        return ""


def progress_of(state: RunState) -> Progress:
    """What the run has gathered now."""
    candidates = state.candidates.values()
    ends = sum((candidate.verdict is not None) + (candidate.accepted is not None) for candidate in candidates)
    return Progress(len(state.observations), len(state.candidates) + ends)


def digest_of(action: Any) -> str:
    """The digest of an action, whatever the order of its keys."""
    if isinstance(action, str):
        with contextlib.suppress(ValueError):
            action = json.loads(action)
    text = json.dumps(action, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
