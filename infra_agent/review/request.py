"""An approval request: everything that a person's yes stands for, as canonical JSON (RFC 8785) with one digest.

Covered: what is bound, the request's id, and which part differs when two requests do.
Not covered: free text. Titles, claims and reasons are shown to a person and never hashed: no word of a model can
change what was approved, and none can make an approval fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rfc8785

from infra_agent.review.effects import Effect
from infra_agent.stack.model import ParameterValue

VERSION = 1
_NAMES = {
    "version": "form of the request",
    "run": "run id",
    "candidate": "candidate id",
    "stack": "stack digest",
    "patches": "patch digest",
    "settings": "settings",
    "candidate_digest": "candidate digest",
    "risk": "risk class",
    "evidence": "evidence digest",
    "operands": "operand digest",
    "effect": "effect class",
    "budget_s": "budget effect",
    "reviewers": "reviewers digest",
}
"""Parts of a request in the order in which a difference is looked for, and what people call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """One question to a person: may this candidate become the best?

    `evidence_seq` and `evidence_hash`: the ledger's head when the gate opened. `operands`: name → sha256 of files that
    the run reads. `budget_s`: seconds of the run's budget that going on may still spend. `reviewers`: digest of who
    may answer.
    """

    run: str
    candidate: str
    stack: str
    patches: tuple[str, ...]
    settings: Mapping[str, ParameterValue]
    candidate_digest: str
    risk: str
    evidence_seq: int
    evidence_hash: str
    operands: Mapping[str, str]
    effect: Effect
    budget_s: float
    reviewers: str

    def document(self) -> dict[str, Any]:
        """The request as JSON."""
        return {
            "version": VERSION,
            "run": self.run,
            "candidate": self.candidate,
            "stack": self.stack,
            "patches": list(self.patches),
            "settings": dict(self.settings),
            "candidate_digest": self.candidate_digest,
            "risk": self.risk,
            "evidence": {"seq": self.evidence_seq, "hash": self.evidence_hash},
            "operands": dict(self.operands),
            "effect": self.effect.value,
            "budget_s": self.budget_s,
            "reviewers": self.reviewers,
        }

    @property
    def id(self) -> str:
        """SHA-256 of the canonical JSON: what a person signs."""
        return document_id(self.document())


def document_id(document: Mapping[str, Any]) -> str:
    """The id of a request as JSON. ValueError when it has no canonical form."""
    return hashlib.sha256(rfc8785.dumps(dict(document))).hexdigest()


def difference(asked: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What people call the first part in which two requests differ; None when they are the same."""
    for part, name in _NAMES.items():
        if _canonical(asked.get(part)) != _canonical(now.get(part)):
            return name
    return None if asked.keys() == now.keys() else _NAMES["version"]


def _canonical(value: Any) -> bytes:
    # Compared as bytes: in Python True equals 1, in a command line it does not.
    return rfc8785.dumps(value)
