"""What a server of one's own tells about itself: a JSON object at a path that the stack file names.

Covered: numbers, texts and switches of the object become signals named `state.KEY`.
Not covered: whether it tells the truth; nested values.
"""

from __future__ import annotations

from pathlib import Path

import httpx

from probes.net.http import sync_client

_TIMEOUT_S = 10.0
_LARGEST_BYTES = 1 << 20


def ask(base_url: str, path: str, via: Path | None = None) -> dict[str, float | str | bool]:
    """The signals; empty when there is no JSON object to be had. `via`: the way to a server in a sandbox."""
    try:
        with sync_client(via, timeout=_TIMEOUT_S) as client:
            response = client.get(base_url + path)
        document = response.json() if len(response.content) <= _LARGEST_BYTES else None
    except (httpx.HTTPError, ValueError):
        return {}
    if response.status_code != httpx.codes.OK or not isinstance(document, dict):
        return {}
    return {f"state.{key}": value for key, value in document.items() if isinstance(value, bool | int | float | str)}
