"""GitHub and GitLab as their published API descriptions have them, on this machine: a request that breaks one is noted.

The shapes are those of github/rest-api-description (`pulls/create`, `pulls/update`, `pulls/list`, 2022-11-28) and of
GitLab's REST documentation (`merge_requests`): method, path, required headers, and fields with their types.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

GITHUB_HEADERS = {
    "accept": r"application/vnd\.github\+json",
    "authorization": r"Bearer \S+",
    "x-github-api-version": r"2022-11-28",
    "user-agent": r".+",
}
GITLAB_HEADERS = {"private-token": r"\S+", "user-agent": r".+"}
PULL = {"title": str, "head": str, "base": str, "body": str, "draft": bool, "maintainer_can_modify": bool, "issue": int}
PULL_REQUIRED = {"head", "base"}
PULL_CHANGE = {"title": str, "body": str, "state": str, "base": str, "maintainer_can_modify": bool}
MERGE = {"source_branch": str, "target_branch": str, "title": str, "description": str, "target_project_id": int}
MERGE_REQUIRED = {"source_branch", "target_branch", "title"}
MERGE_CHANGE = {"title": str, "description": str, "target_branch": str, "state_event": str}
Fields = dict[str, type]


@dataclass
class Failure:
    """How the next request of this method and path ends. `status` 0: no answer in time."""

    method: str
    pattern: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=lambda: {"message": "no"})
    carried_out: bool = False
    """A creation that is carried out, and whose answer is lost."""


@dataclass
class Forge:
    """What it holds and what was asked of it."""

    kind: str
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    open: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    archived: bool = False
    stall_s: float = 1.5

    def methods(self) -> list[str]:
        return [request["method"] for request in self.requests]

    def check(self, method: str, path: str, query: dict[str, list[str]], headers: dict[str, str], body: Any) -> None:
        wanted = GITHUB_HEADERS if self.kind == "github" else GITLAB_HEADERS
        for name, pattern in wanted.items():
            if not re.fullmatch(pattern, headers.get(name, "")):
                self.faults.append(f"{method} {path}: header {name} is {headers.get(name)!r}")
        if method in ("POST", "PUT", "PATCH") and headers.get("content-type") != "application/json":
            self.faults.append(f"{method} {path}: content-type {headers.get('content-type')!r}")
        shapes = {
            ("github", "POST"): (PULL, PULL_REQUIRED), ("github", "PATCH"): (PULL_CHANGE, set()),
            ("gitlab", "POST"): (MERGE, MERGE_REQUIRED), ("gitlab", "PUT"): (MERGE_CHANGE, set()),
        }  # fmt: skip
        if (self.kind, method) in shapes:
            known, required = shapes[self.kind, method]
            self._check_fields(f"{method} {path}", body, known, required)
        elif method != "GET":
            self.faults.append(f"{method} {path}: no such method")
        if query.get("state", ["open"])[0] not in ("open", "opened", "closed", "all", "merged"):
            self.faults.append(f"{method} {path}: state {query['state']}")

    def _check_fields(self, where: str, body: Any, known: Fields, required: set[str]) -> None:
        if not isinstance(body, dict):
            self.faults.append(f"{where}: the body is no object")
            return
        for name, value in body.items():
            if name not in known:
                self.faults.append(f"{where}: unknown field {name}")
            elif type(value) is not known[name]:
                self.faults.append(f"{where}: {name} is {type(value).__name__}")
        for name in sorted(required - body.keys()):
            self.faults.append(f"{where}: {name} is missing")

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        return (
            self._github(method, path, query, body)
            if self.kind == "github"
            else self._gitlab(method, path, query, body)
        )

    def _github(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if path == "/repos/owner/name" and method == "GET":
            return 200, {"default_branch": "main", "archived": self.archived, "full_name": "owner/name"}
        if path == "/repos/owner/name/pulls" and method == "GET":
            head = query["head"][0].partition(":")[2]
            return 200, [row for row in self.open if row["head"]["ref"] == head]
        if path == "/repos/owner/name/pulls" and method == "POST":
            number = len(self.open) + 7
            row = {
                "number": number, "html_url": f"{self.url}/owner/name/pull/{number}", "draft": body["draft"],
                "title": body["title"], "body": body["body"], "head": {"ref": body["head"].rpartition(":")[2]},
            }  # fmt: skip
            self.open.append(row)
            return 201, row
        match = re.fullmatch(r"/repos/owner/name/pulls/(\d+)", path)
        if match and method == "PATCH":
            (row,) = [row for row in self.open if row["number"] == int(match[1])]
            row.update(body)
            return 200, row
        return 404, {"message": "Not Found"}

    def _gitlab(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if path == "/projects/group%2Fsub%2Fname" and method == "GET":
            return 200, {"default_branch": "main", "archived": self.archived, "merge_requests_enabled": True}
        if path == "/projects/group%2Fsub%2Fname/merge_requests" and method == "GET":
            branch = query["source_branch"][0]
            return 200, [row for row in self.open if row["source_branch"] == branch]
        if path == "/projects/group%2Fsub%2Fname/merge_requests" and method == "POST":
            row = {
                "iid": 3, "web_url": f"{self.url}/group/sub/name/-/merge_requests/3", **body,
                "draft": body["title"].startswith("Draft:"),
            }  # fmt: skip
            self.open.append(row)
            return 201, row
        match = re.fullmatch(r"/projects/group%2Fsub%2Fname/merge_requests/(\d+)", path)
        if match and method == "PUT":
            (row,) = [row for row in self.open if row["iid"] == int(match[1])]
            row.update(body)
            return 200, row
        return 404, {"message": "404 Project Not Found"}


@contextmanager
def running(kind: str) -> Iterator[Forge]:
    """A forge that listens on this machine."""
    forge = Forge(kind=kind)

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(size)
            parts = urlsplit(self.path)
            body = json.loads(raw) if raw else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = parse_qs(parts.query)
            request = {"method": self.command, "path": parts.path, "headers": headers, "body": body, "query": query}
            forge.requests.append(request)
            forge.check(self.command, parts.path, query, headers, body)
            failure = next(
                (f for f in forge.failures if f.method == self.command and re.search(f.pattern, unquote(parts.path))),
                None,
            )
            if failure is not None:
                forge.failures.remove(failure)
                if failure.carried_out:
                    forge.answer(self.command, parts.path, query, body)
                if failure.status == 0:
                    time.sleep(forge.stall_s)
                    return
                self.reply(failure.status, failure.body, failure.headers)
                return
            self.reply(*forge.answer(self.command, parts.path, query, body), {})

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any

        def reply(self, status: int, document: Any, headers: dict[str, str]) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    forge.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
