"""Where load may go: this machine, and the host that the stack file names. Nothing else can be reached.

Covered: URLs of bad form; hosts compared by name, before anything is resolved; the `url` of a stack file.
Not covered: what a permitted name resolves to (the user's own resolver says).
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit


def check_target(url: str, hosts: Iterable[str]) -> None:
    """ValueError unless `url` is a plain http(s) root on this machine or on one of `hosts`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"base_url must look like http://HOST:PORT, not {url!r}")
    if parts.port is not None and parts.port < 1:  # reading `port` raises ValueError when it is no number
        raise ValueError(f"base_url has an impossible port: {url!r}")
    if parts.username is not None or parts.query or parts.fragment or any(char <= " " for char in url):
        raise ValueError("base_url holds no credentials, query, fragment or white space")
    if not (is_local(parts.hostname) or parts.hostname in {host.lower() for host in hosts}):
        raise ValueError(
            f"{parts.hostname} is neither this machine nor a host that the stack file names; "
            'no load is sent to it (name it as url = "..." under [stack] in infra-agent.toml)'
        )


def is_local(host: str) -> bool:
    """A loopback address or `localhost`, by name alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(stack_file: Path) -> tuple[str, ...]:
    """The host that a stack file attaches to, if it names one. ValueError when the file cannot be read."""
    try:
        stack = tomllib.loads(stack_file.read_text(encoding="utf-8")).get("stack")
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {stack_file}: {error}") from error
    url = stack.get("url") if isinstance(stack, dict) else None
    return host_of(url) if isinstance(url, str) else ()


def host_of(url: str | None) -> tuple[str, ...]:
    """The host of a URL, as the one host that may be sent load; empty without one."""
    host = urlsplit(url).hostname if url else None
    return (host,) if host else ()
