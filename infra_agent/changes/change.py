"""A Change is one reversible edit of the stack; a Candidate is the stack with a set of changes applied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import rfc8785

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
class Candidate:
    """The stack with `settings` in place of its stock parameters.

    `base` names the candidate it was built on ("stock" or an id like "C1"); `changes` are relative to that base;
    `settings` are the complete parameter settings relative to an empty command line.
    """

    id: str
    title: str
    base: str
    changes: tuple[LaunchChange, ...]
    settings: Mapping[str, ParameterValue]
    digest: str


STOCK = "stock"


def settings_digest(stack_digest: str, settings: Mapping[str, ParameterValue]) -> str:
    """Digest of a candidate: sha256 over the canonical JSON of stack digest and settings."""
    document = rfc8785.dumps({"stack": stack_digest, "settings": dict(settings)})
    return hashlib.sha256(document).hexdigest()


def apply(settings: Mapping[str, ParameterValue], changes: Iterable[LaunchChange]) -> dict[str, ParameterValue]:
    """Settings after the changes; the input is not modified."""
    result = dict(settings)
    for change in changes:
        result[change.parameter] = change.value
    return result
