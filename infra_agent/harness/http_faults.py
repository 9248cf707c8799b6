"""What kind of fault an HTTP client's exception stands for.

Covered: httpx and its successors, and clients built on them that keep the exception as the cause or carry a response
(the openai package). They share the names of their exceptions, not the classes.
Not covered: exceptions of other libraries: they are no fault of the wire and are raised as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from infra_agent.errors import InfraAgentError
from infra_agent.harness.retry import Fault, FaultKind, fault_of_status

_SHOWN = 200
_BY_NAME: tuple[tuple[str, FaultKind], ...] = (
    ("TimeoutException", "timeout"),
    ("RemoteProtocolError", "cut_stream"),
    ("ReadError", "cut_stream"),
    ("UnsupportedProtocol", "final"),
    ("LocalProtocolError", "final"),
    ("TransportError", "connection"),
)
"""Names of exception classes, the more special ones first."""


def fault_of(error: Exception) -> Fault | None:
    """The fault, or None for an exception that has nothing to do with the wire."""
    if isinstance(error, InfraAgentError):
        return None
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int) and status >= 400:
        return fault_of_status(status, f"HTTP {status}: {_short(error)}", _retry_after(response))
    for cause in _chain(error):
        kind = _kind(cause)
        if kind is not None:
            return Fault(kind=kind, text=f"{type(cause).__name__}: {_short(cause)}".rstrip(": "))
    return None


def _kind(error: BaseException) -> FaultKind | None:
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionError):
        return "connection"
    classes = {cls.__name__ for cls in type(error).__mro__ if cls.__module__.startswith("httpx")}
    return next((kind for name, kind in _BY_NAME if name in classes), None)


def _retry_after(response: Any) -> str | None:
    """The header in seconds or as a date; some providers give milliseconds in one of their own."""
    headers = getattr(response, "headers", {})
    milliseconds = str(headers.get("retry-after-ms", ""))
    if milliseconds.isascii() and milliseconds.isdigit():
        return str(int(milliseconds[:12]) / 1000)
    found = headers.get("retry-after")
    return None if found is None else str(found)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:_SHOWN]
