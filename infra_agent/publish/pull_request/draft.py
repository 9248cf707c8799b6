"""Opens a draft, or brings the one that is open up to date; when a step fails, what this call made is taken back.

Order: the repository is looked at, then an open request of the branch, then the branch is pushed, then the request is
made. A request that a person has made ready is theirs: it is not touched.

Covered: the order, taking the branch back, a creation whose answer was lost.
Not covered: the texts.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra_agent.changes.git import Git
from infra_agent.errors import ForgeError, InfraAgentError, PullRequestRefused
from infra_agent.publish.pull_request import remote as remotes
from infra_agent.publish.pull_request.forge import Draft, Forge, ForgeTimeout, Target
from infra_agent.publish.pull_request.remote import Remote


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The draft as it stands, and whether this call made it."""

    draft: Draft
    created: bool


def open_draft(forge: Forge, target: Target, git: Git, remote: Remote, commit: str) -> Opened:
    """Push the branch and open or update its draft. Raises ForgeError, ConfigError, PullRequestRefused."""
    standing = forge.find(target)
    if standing is not None and not standing.draft:
        raise PullRequestRefused(
            f"request {standing.number} of this branch is no draft any more: a person has it in hand",
            where=standing.url,
            hint="for another one, choose another branch with --branch",
        )
    made_branch = remotes.push(git, remote, target.head, commit)
    try:
        if standing is not None:
            return Opened(draft=forge.update(standing, target), created=False)
        return Opened(draft=_create(forge, target), created=True)
    except ForgeError as error:
        if made_branch:
            _take_back(git, remote, target, commit, error)
        raise


def _create(forge: Forge, target: Target) -> Draft:
    try:
        return forge.create(target)
    except ForgeTimeout:
        found = forge.find(target)
        if found is None:
            raise
        return found


def _take_back(git: Git, remote: Remote, target: Target, commit: str, error: ForgeError) -> None:
    try:
        remotes.take_back(git, remote, target.head, commit)
    except InfraAgentError as second:
        raise ForgeError(
            f"{error.message}; the branch {target.head} was pushed and could not be taken back: {second.message}",
            where=error.where,
            lines=error.lines,
            hint=f"remove the branch {target.head}, or run the command again",
        ) from error
