"""What kind of fault an HTTP client's exception stands for.

Covered: httpx, and clients built on it that keep its exception as the cause or carry a response (the openai package).
Not covered: exceptions of other libraries: they are no fault of the wire and are raised as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from infra_agent.errors import InfraAgentError
from infra_agent.harness.retry import Fault, fault_of_status

_SHOWN = 200


def fault_of(error: Exception) -> Fault | None:
    """The fault, or None for an exception that has nothing to do with the wire."""
    if isinstance(error, InfraAgentError):
        return None
    response = getattr(error, "response", None)
    if isinstance(response, httpx.Response):
        text = f"HTTP {response.status_code}: {' '.join(str(error).split())[:_SHOWN]}"
        return fault_of_status(response.status_code, text, _retry_after(response))
    for cause in _chain(error):
        if isinstance(cause, httpx.TimeoutException | TimeoutError):
            return Fault(kind="timeout", text=_named(cause))
        if isinstance(cause, httpx.RemoteProtocolError | httpx.ReadError | httpx.StreamError):
            return Fault(kind="cut_stream", text=_named(cause))
        if isinstance(cause, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            return Fault(kind="final", text=_named(cause))
        if isinstance(cause, httpx.TransportError | ConnectionError):
            return Fault(kind="connection", text=_named(cause))
    return None


def _retry_after(response: httpx.Response) -> str | None:
    """The header in seconds or as a date; some providers give milliseconds in one of their own."""
    milliseconds = response.headers.get("retry-after-ms", "")
    if milliseconds.isascii() and milliseconds.isdigit():
        return str(int(milliseconds[:12]) / 1000)
    found: str | None = response.headers.get("retry-after")
    return found


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:_SHOWN]}".rstrip(": ")
