"""One chat completion of an OpenAI-compatible endpoint, streamed or whole, with a deadline that holds.

Covered: base URL, key and extra headers; errors sorted into those worth another try and those that are not; an answer
that never ends, a stream that trickles, a stream that is cut. The client's own retries are off: there is one retry
layer, and it is the caller's. Not covered: choosing what to ask, and paying for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from infra_agent.agent.brains.llm.assemble import MAX_ANSWER_CHARACTERS, Assembly
from infra_agent.agent.brains.llm.types import Answer, Credentials, LlmSettings
from infra_agent.errors import EndpointError

if TYPE_CHECKING:
    import openai

CONNECT_S = 20.0
NO_KEY = "none"
"""Sent when no key is set: local servers take any."""
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses that may pass by themselves."""
REFUSES = frozenset({401, 403})
"""Statuses that say no to this key: asking again is of no use."""
_ENDLESS = f"endless: more than {MAX_ANSWER_CHARACTERS} characters"


class Endpoint:
    """A chat completions endpoint."""

    def __init__(self, settings: LlmSettings, credentials: Credentials, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._credentials = credentials
        self._clock = clock
        self._client: openai.OpenAI | None = None

    def chat(self, body: Mapping[str, Any], stream: bool, timeout_s: float) -> Answer:
        """The answer to one body. EndpointError when there is none; a broken-off answer says so in `cut`."""
        with self._errors():
            return self._streamed(body, timeout_s) if stream else self._whole(body, timeout_s)

    def models(self, timeout_s: float = 30.0) -> list[Mapping[str, Any]]:
        """The models that the endpoint lists; EndpointError when it does not list any."""
        with self._errors():
            found = self._open().get("/models", cast_to=object, options={"timeout": timeout_s})
        data = found.get("data") if isinstance(found, Mapping) else None
        return [entry for entry in data if isinstance(entry, Mapping)] if isinstance(data, list) else []

    def close(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            self._client.close()

    def _open(self) -> openai.OpenAI:
        # Imported when it is needed: a run without a language model does not pay the second that it takes.
        import openai

        if self._client is None:
            self._client = openai.OpenAI(
                api_key=self._credentials.api_key or NO_KEY,
                base_url=self._settings.base_url,
                max_retries=0,
                timeout=self._settings.timeout_s,
                default_headers=dict(self._credentials.headers),
            )
        return self._client

    def _whole(self, body: Mapping[str, Any], timeout_s: float) -> Answer:
        import openai

        timeout = openai.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        assembly = Assembly()
        assembly.add(
            self._open().post("/chat/completions", cast_to=object, body=dict(body), options={"timeout": timeout})
        )
        return assembly.answer(_ENDLESS if assembly.characters > MAX_ANSWER_CHARACTERS else "")

    def _streamed(self, body: Mapping[str, Any], timeout_s: float) -> Answer:
        import openai

        timeout = openai.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        started_s = self._clock()
        stream = self._open().post(
            "/chat/completions",
            cast_to=object,
            body={**body, "stream": True},
            options={"timeout": timeout},
            stream=True,
            stream_cls=openai.Stream[object],
        )
        # Comments that keep a connection alive never reach the loop below: only closing it from outside ends them.
        watchdog = threading.Timer(timeout_s, stream.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            return self._collect(stream, lambda: self._clock() - started_s > timeout_s, timeout_s)
        finally:
            watchdog.cancel()
            stream.close()

    def _collect(self, stream: Iterator[object], late: Callable[[], bool], timeout_s: float) -> Answer:
        import openai

        assembly = Assembly()
        too_late = f"endless: not done after {timeout_s:.0f} s"
        try:
            for chunk in stream:
                assembly.add(chunk)
                if assembly.characters > MAX_ANSWER_CHARACTERS:
                    return assembly.answer(_ENDLESS)
                if late():
                    return assembly.answer(too_late)
        except openai.APIStatusError:
            raise
        except (openai.APIError, ValueError, OSError, RuntimeError) as error:
            if late():
                return assembly.answer(too_late)
            return assembly.answer(f"the stream broke: {_said(error)}")
        except Exception as error:
            # The transport's own errors are no part of the client's promise; a closed stream raises one of them.
            if not _of_transport(error):
                raise
            return assembly.answer(too_late if late() else f"the stream broke: {_said(error)}")
        if late():
            return assembly.answer(too_late)
        return assembly.answer("" if assembly.ended else "the stream ended before the answer did")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Every failure as an EndpointError that says whether another try may help."""
        import openai

        where = self._settings.base_url
        try:
            yield
        except openai.APIStatusError as error:
            raise _refused(error, where) from error
        except openai.APITimeoutError as error:
            raise EndpointError("the endpoint did not answer in time", where=where, again=True, billed=True) from error
        except openai.APIConnectionError as error:
            cause = _said(error.__cause__ or error)
            raise EndpointError(f"the endpoint cannot be reached: {cause}", where=where, again=True) from error
        except openai.APIError as error:
            raise EndpointError(f"the endpoint reports an error: {_said(error)}", where=where, again=True) from error
        except ValueError as error:
            raise EndpointError(f"the endpoint does not speak JSON: {_said(error)}", where=where) from error
        except openai.OpenAIError as error:
            raise EndpointError(_said(error), where=where) from error


def _refused(error: openai.APIStatusError, where: str) -> EndpointError:
    status = error.status_code
    hint = "set OPENAI_API_KEY, or --header" if status in REFUSES else ""
    return EndpointError(
        f"the endpoint answered {status}: {_reason(error)}",
        where=where,
        hint=hint,
        status=status,
        again=status in AGAIN,
        retry_after=error.response.headers.get("retry-after", ""),
    )


def _reason(error: openai.APIStatusError) -> str:
    """The server's own words: the message of its error document, else the beginning of what it sent."""
    body = error.body
    if isinstance(body, Mapping) and isinstance(body.get("message"), str):
        words = str(body["message"])
    else:
        words = error.response.text if error.response.is_closed else ""
    return _short(words) or _said(error)


def _said(error: BaseException) -> str:
    return _short(str(error)) or type(error).__name__


def _short(words: str) -> str:
    """Something that can be stored and shown: one line, whole characters."""
    return " ".join(words.split())[:300].encode("utf-8", "replace").decode()


def _of_transport(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "ssl")
