"""What a server of one's own tells about itself: a JSON object at a path that the stack file names.

Covered: numbers, texts and switches of the object become signals named `state.KEY`.
Not covered: whether it tells the truth; nested values.
"""

from __future__ import annotations

import httpx

_TIMEOUT_S = 10.0
_LARGEST_BYTES = 1 << 20


def ask(base_url: str, path: str) -> dict[str, float | str | bool]:
    """The signals; empty when the server does not answer with a JSON object."""
    try:
        response = httpx.get(base_url + path, timeout=_TIMEOUT_S, trust_env=False)
        document = response.json() if len(response.content) <= _LARGEST_BYTES else None
    except (httpx.HTTPError, ValueError):
        return {}
    if response.status_code != httpx.codes.OK or not isinstance(document, dict):
        return {}
    return {f"state.{key}": value for key, value in document.items() if isinstance(value, bool | int | float | str)}
