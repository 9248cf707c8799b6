"""GitHub's pull requests, by its REST API (version 2022-11-28): `/repos`, `/search/issues`, `/pulls`.

Covered: draft pull requests from a branch of the repository or of a fork, GitHub Enterprise by its address.
Not covered: marking ready, merging, labels, reviewers; a person does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from infra_agent.errors import ForgeError
from infra_agent.publish.pull_request.forge import Draft, Rest, Target, number_of, text_of

API_URL = "https://api.github.com"
VERSION = "2022-11-28"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHub:
    """One repository. `head_owner`: owner of the fork that has the branch; empty for the repository itself."""

    rest: Rest
    repository: str
    head_owner: str = ""

    def check(self) -> str:
        """The default branch. ForgeError for a repository that is archived or takes no pull request."""
        path = f"/repos/{self.repository}"
        found = self.rest.ask("GET", path)
        if isinstance(found, dict) and found.get("archived"):
            raise ForgeError(f"{self.repository} is archived: it takes no pull request", where=path)
        return text_of(found, "default_branch", path)

    def find(self, target: Target) -> Draft | None:
        """The open pull request from this branch."""
        path = f"/repos/{self.repository}/pulls"
        query = {"state": "open", "head": f"{self._owner}:{target.head}", "base": target.base}
        found = self.rest.ask("GET", path, query=query)
        rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
        mine = [row for row in rows if row.get("head", {}).get("ref") == target.head]
        return _draft(mine[0], path) if mine else None

    def create(self, target: Target) -> Draft:
        """Open a draft pull request."""
        path = f"/repos/{self.repository}/pulls"
        head = f"{self.head_owner}:{target.head}" if self.head_owner else target.head
        body = {"title": target.title, "head": head, "base": target.base, "body": target.body, "draft": True}
        return _draft(self.rest.ask("POST", path, body=body), path)

    def update(self, draft: Draft, target: Target) -> Draft:
        """Set title and body; nothing else of it is touched."""
        path = f"/repos/{self.repository}/pulls/{draft.number}"
        return _draft(self.rest.ask("PATCH", path, body={"title": target.title, "body": target.body}), path)

    @property
    def _owner(self) -> str:
        return self.head_owner or self.repository.partition("/")[0]


def github(client: httpx.Client, repository: str, token: str, api_url: str = "", head_owner: str = "") -> GitHub:
    """The repository `owner/name`, with a token that may write pull requests."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "X-GitHub-Api-Version": VERSION,
        "User-Agent": "infra-agent",
    }
    rest = Rest(client=client, base_url=(api_url or API_URL).rstrip("/"), token_name="GITHUB_TOKEN", headers=headers)
    return GitHub(rest=rest, repository=repository, head_owner=head_owner)


def _draft(document: Any, where: str) -> Draft:
    number, url = number_of(document, "number", where), text_of(document, "html_url", where)
    return Draft(number=number, url=url, draft=document.get("draft") is True)
