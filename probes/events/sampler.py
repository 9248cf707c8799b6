"""Reads a server's `/metrics` again and again over a window; a server that goes away leaves what was read before.

Covered: servers without such a page, pages too large or of no text, answers that fail now and then, an early stop.
Not covered: authentication other than headers handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx

from probes.events.prometheus import Page, parse

LARGEST_PAGE = 32 * 2**20
TIMEOUT_S = 5.0
NO_PAGE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading. `at_s`: seconds after the window began. `page` is None when `trouble` says why."""

    at_s: float
    page: Page | None
    trouble: str = ""


@dataclass(slots=True, kw_only=True)
class Recording:
    """All readings of a window, in order."""

    readings: list[Reading] = field(default_factory=list)
    wall_s: float = 0.0
    no_page: str = ""
    """Why this server has no such page; empty when it has one, or when nothing was answered."""

    @property
    def pages(self) -> list[tuple[float, Page]]:
        """The readings that succeeded."""
        return [(reading.at_s, reading.page) for reading in self.readings if reading.page is not None]

    @property
    def troubles(self) -> tuple[str, ...]:
        """What went wrong, each wording once."""
        return tuple(dict.fromkeys(reading.trouble for reading in self.readings if reading.trouble))


def metrics_url(url: str) -> str:
    """The page's address for a server's root, with or without `/v1`."""
    parts = urlsplit(url)
    root = parts.path.rstrip("/").removesuffix("/metrics").removesuffix("/v1")
    return f"{parts.scheme}://{parts.netloc}{root}/metrics"


def record(
    url: str,
    *,
    seconds: float,
    interval_s: float,
    clock: Callable[[], float],
    wait: Callable[[float], bool],
    on_beat: Callable[[float], None],
    headers: Mapping[str, str] | None = None,
) -> Recording:
    """Read the page every `interval_s` until `seconds` are over.

    `wait` sleeps and returns True to end early; one more reading closes the window either way. `on_beat` is called
    with the seconds passed at each reading, page or not. The target's host must have been checked before.
    """
    recording = Recording()
    started_s = clock()
    with httpx.Client(timeout=TIMEOUT_S, headers=dict(headers or {}), trust_env=False) as client:
        while True:
            at_s = clock() - started_s
            on_beat(at_s)
            if not recording.no_page:
                _read(client, metrics_url(url), at_s, recording)
            left_s = seconds - (clock() - started_s)
            if left_s <= 0:
                break
            if wait(min(interval_s, left_s)):
                seconds = 0.0
    recording.wall_s = clock() - started_s
    return recording


def _read(client: httpx.Client, url: str, at_s: float, recording: Recording) -> None:
    try:
        with client.stream("GET", url) as answer:
            if answer.status_code in NO_PAGE:
                recording.no_page = f"{url} answers {answer.status_code}: this server has no metrics page"
                return
            if answer.status_code != HTTPStatus.OK:
                recording.readings.append(Reading(at_s=at_s, page=None, trouble=f"{url} answers {answer.status_code}"))
                return
            text = _text(answer)
    except (httpx.HTTPError, ValueError) as error:
        reason = str(error) or type(error).__name__
        recording.readings.append(Reading(at_s=at_s, page=None, trouble=f"{url}: {reason}"))
        return
    recording.readings.append(Reading(at_s=at_s, page=parse(text)))


def _text(answer: httpx.Response) -> str:
    held = bytearray()
    for chunk in answer.iter_bytes():
        held += chunk
        if len(held) > LARGEST_PAGE:
            raise ValueError(f"the page is larger than {LARGEST_PAGE >> 20} MiB")
    return held.decode("utf-8", errors="replace")
