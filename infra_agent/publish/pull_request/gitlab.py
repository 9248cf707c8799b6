"""GitLab's merge requests, by its REST API v4: `GET /projects/:id`, `GET|POST|PUT /projects/:id/merge_requests`.

Covered: drafts (a title that begins with `Draft:`), groups and subgroups, self-managed hosts by their address.
Not covered: forks, marking ready, merging, labels, reviewers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from infra_agent.errors import ForgeError
from infra_agent.publish.pull_request.forge import Draft, Rest, Target, number_of, text_of

API_URL = "https://gitlab.com/api/v4"
DRAFT = "Draft: "


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLab:
    """One project, by its full path."""

    rest: Rest
    project: str

    def check(self) -> str:
        """The default branch. ForgeError for a project that is archived or takes no merge request."""
        found = self.rest.ask("GET", self._path)
        if isinstance(found, dict) and (found.get("archived") or found.get("merge_requests_enabled") is False):
            raise ForgeError(f"{self.project} takes no merge request", where=self._path)
        return text_of(found, "default_branch", self._path)

    def find(self, target: Target) -> Draft | None:
        """The open merge request from this branch."""
        path = f"{self._path}/merge_requests"
        query = {"state": "opened", "source_branch": target.head, "target_branch": target.base}
        found = self.rest.ask("GET", path, query=query)
        rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
        mine = [row for row in rows if row.get("source_branch") == target.head]
        return _draft(mine[0], path) if mine else None

    def create(self, target: Target) -> Draft:
        """Open a draft merge request."""
        path = f"{self._path}/merge_requests"
        body = {"source_branch": target.head, "target_branch": target.base, **_texts(target)}
        return _draft(self.rest.ask("POST", path, body=body), path)

    def update(self, draft: Draft, target: Target) -> Draft:
        """Set title and description; nothing else of it is touched."""
        path = f"{self._path}/merge_requests/{draft.number}"
        return _draft(self.rest.ask("PUT", path, body=_texts(target)), path)

    @property
    def _path(self) -> str:
        return f"/projects/{quote(self.project, safe='')}"


def gitlab(client: httpx.Client, project: str, token: str, api_url: str = "") -> GitLab:
    """The project `group/name`, with a token that has the scope `api`."""
    headers = {"PRIVATE-TOKEN": token, "User-Agent": "infra-agent"}
    rest = Rest(client=client, base_url=(api_url or API_URL).rstrip("/"), token_name="GITLAB_TOKEN", headers=headers)
    return GitLab(rest=rest, project=project)


def _texts(target: Target) -> dict[str, str]:
    return {"title": DRAFT + target.title, "description": target.body}


def _draft(document: Any, where: str) -> Draft:
    number, url = number_of(document, "iid", where), text_of(document, "web_url", where)
    title = text_of(document, "title", where)
    return Draft(number=number, url=url, draft=document.get("draft") is True or title.startswith(DRAFT))
