"""A forge's REST interface by httpx: one request, one answer, and each way it can fail as an error with a next step.

The token is sent in a header and stands nowhere else: not in an address, an error or a log. Redirects are not followed,
so it reaches nobody but the host that was named.

Covered: 401, 403, 404, 409, 422, rate limits, other refusals, time-outs, hosts that are not there, broken answers.
Not covered: retries; the user repeats the command, and what stands already is found again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import httpx

from infra_agent.errors import ForgeError

TIMEOUT_S = 30.0
_RATE = ("x-ratelimit-remaining", "ratelimit-remaining")
_RESET = ("x-ratelimit-reset", "ratelimit-reset")
_MOST_LINES = 6
_WORDS = {
    401: ("the token was not accepted", "make a new one, and give it in {token}"),
    403: ("the token may not do this", "it needs the right to write pull requests (and contents) of this repository"),
    404: ("no such repository, or the token may not see it", "check the name, and what the token was given access to"),
    409: ("a request for this branch exists already", "close it, or choose another branch with --branch"),
    422: ("the fields were refused", "what it says above names the field"),
}


class ForgeTimeout(ForgeError):
    """No answer in time: whether the request was carried out is not known."""

    kind = "forge_timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A request on a forge. `draft`: still one; a person may have made it ready."""

    number: int
    url: str
    draft: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is asked of a forge. `head`: branch with the commits; `head_owner`: who has it, for a fork."""

    title: str
    body: str
    head: str
    base: str


class Forge(Protocol):
    """GitHub or GitLab."""

    def check(self) -> str:
        """The repository's default branch. ForgeError when it cannot be reached or written."""
        ...

    def find(self, target: Target) -> Draft | None:
        """The open request for this branch."""
        ...

    def create(self, target: Target) -> Draft:
        """Open a draft."""
        ...

    def update(self, draft: Draft, target: Target) -> Draft:
        """Set title and body anew."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Requests to one forge. `token_name`: the environment variable that errors name."""

    client: httpx.Client
    base_url: str
    token_name: str
    headers: Mapping[str, str] = field(repr=False)

    def ask(self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: object = None) -> Any:
        """The answer's JSON. Raises ForgeError."""
        where = f"{method} {self.base_url}{path}"
        try:
            answer = self.client.request(
                method, f"{self.base_url}{path}", params=dict(query or {}), json=body, headers=dict(self.headers),
                timeout=TIMEOUT_S, follow_redirects=False,
            )  # fmt: skip
        except httpx.TimeoutException:
            raise ForgeTimeout(f"no answer within {TIMEOUT_S:.0f} s", where=where, hint="try again later") from None
        except httpx.HTTPError as error:
            raise ForgeError(f"the host cannot be reached: {error}", where=where, hint="check --api-url") from None
        if not answer.is_success:
            raise self._refusal(answer, where)
        try:
            return answer.json()
        except ValueError:
            raise ForgeError("the answer is not JSON", where=where, hint="check --api-url") from None

    def _refusal(self, answer: httpx.Response, where: str) -> ForgeError:
        lines = _said(answer)
        if _limited(answer):
            return ForgeError("the rate limit is used up", where=where, lines=lines, hint=_when(answer))
        known = _WORDS.get(answer.status_code)
        if known is not None:
            message, hint = known[0], known[1].format(token=self.token_name)
            return ForgeError(f"{message} ({answer.status_code})", where=where, lines=lines, hint=hint)
        if answer.is_redirect:
            hint = "the repository may have moved: give its new name"
            return ForgeError(f"the host answered with a redirect ({answer.status_code})", where=where, hint=hint)
        return ForgeError(f"the host answered {answer.status_code}", where=where, lines=lines, hint="try again later")


def _limited(answer: httpx.Response) -> bool:
    if answer.status_code == 429:
        return True
    spent = any(answer.headers.get(name) == "0" for name in _RATE)
    return answer.status_code == 403 and (spent or "retry-after" in answer.headers)


def _when(answer: httpx.Response) -> str:
    wait = answer.headers.get("retry-after", "")
    if wait.isdecimal():
        return f"try again in {wait} s"
    reset = next((answer.headers[name] for name in _RESET if name in answer.headers), "")
    if reset.isdecimal():
        return f"try again after {datetime.fromtimestamp(int(reset), UTC):%Y-%m-%d %H:%M:%S} UTC"
    return "try again later"


def _said(answer: httpx.Response) -> list[str]:
    """The forge's own words: its message and the fields that it names."""
    try:
        document = answer.json()
    except ValueError:
        return []
    if not isinstance(document, Mapping):
        return []
    found = [document.get(name) for name in ("message", "error", "error_description")]
    errors = document.get("errors")
    found += errors if isinstance(errors, list) else []
    return [_words(each) for each in found if each][:_MOST_LINES]


def _words(said: object) -> str:
    if isinstance(said, Mapping):
        return ", ".join(f"{key}: {_words(value)}" for key, value in said.items())
    return "; ".join(_words(each) for each in said) if isinstance(said, list) else str(said)


def text_of(document: Any, name: str, where: str) -> str:
    """A text of an answer. ForgeError when it is not there."""
    value = document.get(name) if isinstance(document, Mapping) else None
    if not isinstance(value, str):
        raise ForgeError(f"the answer has no {name}", where=where, hint="is this the interface of that forge?")
    return value


def number_of(document: Any, name: str, where: str) -> int:
    """A number of an answer. ForgeError when it is not there."""
    value = document.get(name) if isinstance(document, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ForgeError(f"the answer has no {name}", where=where, hint="is this the interface of that forge?")
    return value
