"""A git remote: its default branch, and pushing one branch to it. Nothing is ever forced, merged or taken over.

Covered: directories, `file://`, `ssh://`, `user@host:path`, `https://` (and `http://` on this machine); a token goes to
git in its environment, never on a command line.
Not covered: git's credential helpers; the user's git configuration is not read.
"""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from infra_agent.changes.git import Git
from infra_agent.errors import ConfigError, PullRequestRefused, UsageError

_ALLOWED = {f"protocol.{name}.allow": "always" for name in ("file", "ssh", "https")}
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_FETCHED = "refs/infra-agent/base"
_PASSED = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "SSL_CERT_FILE",
    "HTTPS_PROXY",
    "https_proxy",
)
_NOT_AHEAD = re.compile(r"non-fast-forward|fetch first|rejected")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Where to push. `user` and `token` are for `https` alone; `repr` shows neither."""

    address: str
    user: str = ""
    token: str = field(default="", repr=False)

    def git(self, git: Git) -> Git:
        """The git directory with the way to this remote opened."""
        settings = {**git.settings, **_ALLOWED}
        parts = urlsplit(self.address)
        if parts.scheme == "http" and parts.hostname in _LOOPBACK:
            settings["protocol.http.allow"] = "always"
        if self.token and parts.scheme in ("https", "http"):
            both = base64.b64encode(f"{self.user}:{self.token}".encode()).decode()
            settings[f"http.{parts.scheme}://{parts.netloc}/.extraHeader"] = f"Authorization: Basic {both}"
        passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
        return replace(git, settings=settings, environment={**git.environment, **passed})


def remote_of(address: str, folder: Path) -> Remote:
    """The remote of an address; a relative directory is one below `folder`. UsageError for what is none."""
    if not address or address.startswith("-") or "::" in address:
        raise UsageError(f"not the address of a git remote: {address!r}", where="--remote")
    if "://" not in address and not re.match(r"^[^/]+:", address):
        path = (folder / address).resolve()
        if not path.is_dir():
            raise UsageError(f"no such directory: {path}", where="--remote", hint="git init --bare makes one")
        return Remote(address=str(path))
    return Remote(address=address)


def default_branch(git: Git, remote: Remote) -> tuple[str, str]:
    """Name and commit of the remote's default branch; both empty for a remote without commits."""
    listed = _run(git, remote, "ls-remote", "--symref", "--", remote.address, "HEAD")
    name = commit = ""
    for line in listed.splitlines():
        left, _, right = line.partition("\t")
        if right == "HEAD" and left.startswith("ref: refs/heads/"):
            name = left.removeprefix("ref: refs/heads/")
        elif right == "HEAD":
            commit = left
    return (name or "main", commit) if commit else ("", "")


def fetch(git: Git, remote: Remote, branch: str) -> str:
    """Bring a branch of the remote into the git directory; its commit."""
    _run(git, remote, "fetch", "--quiet", "--no-tags", "--", remote.address, f"+refs/heads/{branch}:{_FETCHED}")
    return git.run("rev-parse", "--verify", _FETCHED).decode().strip()


def standing(git: Git, remote: Remote, branch: str) -> str:
    """The commit that the remote's branch has now; empty when there is no such branch."""
    listed = _run(git, remote, "ls-remote", "--", remote.address, f"refs/heads/{branch}")
    return listed.partition("\t")[0].strip()


def push(git: Git, remote: Remote, branch: str, commit: str) -> bool:
    """Push the commit as the branch; whether this made the branch. PullRequestRefused when it holds other work."""
    before = standing(git, remote, branch)
    if before == commit:
        return False
    try:
        _run(git, remote, "push", "--quiet", "--", remote.address, f"{commit}:refs/heads/{branch}")
    except ConfigError as error:
        if _NOT_AHEAD.search("\n".join((error.message, *error.lines))):
            raise PullRequestRefused(
                f"the remote's branch {branch} holds other commits: it is never overwritten",
                where=remote.address, lines=error.lines, hint="choose another name with --branch",
            ) from None  # fmt: skip
        raise
    return not before


def take_back(git: Git, remote: Remote, branch: str, commit: str) -> None:
    """Remove a branch that was made a moment ago, if it still is what was pushed."""
    lease = f"--force-with-lease=refs/heads/{branch}:{commit}"
    _run(git, remote, "push", "--quiet", lease, "--", remote.address, f":refs/heads/{branch}")


def _run(git: Git, remote: Remote, *words: str) -> str:
    try:
        return remote.git(git).run(*words).decode("utf-8", "replace")
    except ConfigError as error:
        raise ConfigError(
            f"the remote cannot be used: {error.message}",
            where=remote.address,
            lines=error.lines,
            hint="check address and rights; nothing was changed there",
        ) from None
