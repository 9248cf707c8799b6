"""A change is one reversible edit of the stack, of a launch parameter or of code; a candidate is a set of them.

Covered: both kinds of change, their inverses, and the digest that names a candidate.
Not covered: the trees that code changes make (`workspace`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rfc8785

from infra_agent.changes.parse import parse
from infra_agent.changes.patch import Patch, render
from infra_agent.stack.model import ParameterValue


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchChange:
    """Set one launch parameter. `before` is the value it replaces (None: not set)."""

    parameter: str
    value: ParameterValue
    before: ParameterValue | None = None

    def inverse(self) -> LaunchChange | None:
        """The change that puts it back; None when the parameter was not set before."""
        return None if self.before is None else LaunchChange(parameter=self.parameter, value=self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchChange:
    """One code change: the canonical diff, its SHA-256, and the files that it names."""

    diff: str
    digest: str
    files: tuple[str, ...]

    @classmethod
    def of(cls, patch: Patch) -> PatchChange:
        """The change that a patch makes."""
        return cls(diff=render(patch), digest=patch.digest, files=tuple(file.path for file in patch.files))

    def inverse(self) -> PatchChange:
        """The change that puts it back."""
        return PatchChange.of(parse(self.diff).inverse())


STOCK = "stock"


def settings_digest(stack_digest: str, settings: Mapping[str, ParameterValue], patches: Sequence[str] = ()) -> str:
    """Digest of a candidate: sha256 over the canonical JSON of stack digest, settings and digests of its patches.

    `patches` are in the order in which they were applied to stock's sources; without any the key is left out.
    """
    document: dict[str, Any] = {"stack": stack_digest, "settings": dict(settings)}
    if patches:
        document["patches"] = list(patches)
    return hashlib.sha256(rfc8785.dumps(document)).hexdigest()


def apply(settings: Mapping[str, ParameterValue], changes: Iterable[LaunchChange]) -> dict[str, ParameterValue]:
    """Settings after the changes; the input is not modified."""
    result = dict(settings)
    for change in changes:
        result[change.parameter] = change.value
    return result
