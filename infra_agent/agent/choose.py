"""Which brain a run has, and why: asked for, or chosen by what is configured.

Covered: the model's name and window as the endpoint lists them, keys and headers from environment and command line.
An endpoint that was named only by the environment and cannot be used leaves the run to the playbooks, and the header
says so; one that was asked for is an error before anything is spent. Not covered: asking the model anything.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from infra_agent.agent.brains.llm.client import REFUSES, Endpoint
from infra_agent.agent.brains.llm.types import Credentials, LlmSettings
from infra_agent.errors import EndpointError, UsageError
from infra_agent.harness.budget.prices import DEFAULT_URL
from infra_agent.ledger import kinds as k
from infra_agent.redact.known import is_secret_name

ASKS_NO_MODEL = frozenset({"playbook", "search", "script"})
"""Brains that spend neither tokens nor money."""
BRAIN_NAMES = (*sorted(ASKS_NO_MODEL), "llm")
URL_VARIABLE, KEY_VARIABLE, MODEL_VARIABLE = "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"
NO_LLM = f"no LLM configured; set {URL_VARIABLE} and {KEY_VARIABLE}, or --model"
WINDOW_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx", "n_ctx_train")
"""Names under which servers tell the length of their context: vLLM, OpenRouter and others, llama.cpp."""
SHOWN_MODELS = 8
LONG_VALUE = 16
"""Characters of a header's value that may be a key, whatever the header is called."""
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+)=([^\r\n\0]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmFlags:
    """What the command line says about the model. None: not given."""

    model: str | None = None
    base_url: str | None = None
    timeout_s: float | None = None
    window_tokens: int | None = None
    headers: tuple[str, ...] = ()

    @property
    def names_one(self) -> bool:
        """Whether an endpoint or a model was asked for."""
        return self.model is not None or self.base_url is not None

    @property
    def secrets(self) -> frozenset[str]:
        """Values of headers that must not be shown."""
        return _header_secrets(dict(map(_header, self.headers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A brain with the reason for it. `llm` and `credentials` are set for the brain `llm` only."""

    name: str
    note: str
    script: Path | None = None
    llm: LlmSettings | None = None
    credentials: Credentials = Credentials()

    @property
    def secrets(self) -> frozenset[str]:
        """Values of headers that must not be written anywhere; keys are found in the environment."""
        return _header_secrets(self.credentials.headers)

    def settings(self) -> dict[str, str | int | float | bool]:
        """What the ledger keeps: no key, and of headers only the names."""
        if self.llm is None:
            return {}
        names = ", ".join(sorted(self.credentials.headers))
        return {
            "model": self.llm.model,
            "base_url": self.llm.base_url,
            "timeout_s": self.llm.timeout_s,
            "window_tokens": self.llm.window_tokens,
            "answer_tokens": self.llm.answer_tokens,
            "corrections": self.llm.corrections,
            "headers": names,
            "key": bool(self.credentials.api_key),
        }


def choose_brain(name: str | None, script: Path | None, flags: LlmFlags, environ: Mapping[str, str]) -> Choice:
    """The brain to use. UsageError for one that does not exist, EndpointError for a model that cannot be asked."""
    if name is not None and name not in BRAIN_NAMES:
        raise UsageError(f"no brain {name!r}", hint=f"known: {', '.join(BRAIN_NAMES)}")
    if name not in (None, "llm") and flags.names_one:
        raise UsageError(f"the brain {name} asks no model", where="--model, --base-url", hint="--brain llm")
    if name is not None and name != "llm":
        return Choice(name=name, note="no LLM is used by this brain", script=script)
    why = _why(name, flags, environ)
    if not why:
        return Choice(name="playbook", note=NO_LLM)
    try:
        return _llm(flags, environ, why)
    except EndpointError as error:
        if name == "llm" or flags.names_one:
            raise
        return Choice(name="playbook", note=f"{why}, but {error.message}")


def wanted_brain(name: str | None, flags: LlmFlags, environ: Mapping[str, str]) -> str:
    """The brain that `choose_brain` would try first; no endpoint is asked."""
    return name or ("llm" if _why(None, flags, environ) else "playbook")


def resumed_choice(started: k.RunStarted, script: Path, flags: LlmFlags, environ: Mapping[str, str]) -> Choice:
    """The brain that the run began with; keys and header values come from outside again."""
    if started.brain != "llm":
        return Choice(name=started.brain, note=started.brain_note, script=script)
    kept = started.brain_settings
    settings = LlmSettings(
        model=str(kept["model"]),
        base_url=str(kept["base_url"]),
        timeout_s=flags.timeout_s or float(kept["timeout_s"]),
        window_tokens=int(kept["window_tokens"]),
        answer_tokens=int(kept["answer_tokens"]),
        corrections=int(kept["corrections"]),
    )
    credentials = _credentials(flags, environ)
    missing = sorted(set(filter(None, str(kept["headers"]).split(", "))) - credentials.headers.keys())
    if missing:
        raise UsageError(f"the run was begun with the header {missing[0]}", hint=f"--header {missing[0]}=VALUE")
    return Choice(name="llm", note=started.brain_note, llm=settings, credentials=credentials)


def _why(name: str | None, flags: LlmFlags, environ: Mapping[str, str]) -> str:
    if name == "llm":
        return "--brain llm"
    given = {"--base-url": flags.base_url, "--model": flags.model}
    given |= {f"{variable} is set": environ.get(variable) for variable in (URL_VARIABLE, KEY_VARIABLE)}
    return next((words for words, value in given.items() if value), "")


def _llm(flags: LlmFlags, environ: Mapping[str, str], why: str) -> Choice:
    base_url = flags.base_url or environ.get(URL_VARIABLE) or DEFAULT_URL
    _require_url(base_url)
    credentials = _credentials(flags, environ)
    if base_url == DEFAULT_URL and not credentials.api_key and not credentials.headers:
        raise EndpointError(
            "no key for the model's endpoint", where=base_url, hint=f"set {KEY_VARIABLE}, or {URL_VARIABLE}"
        )
    settings = LlmSettings(model=flags.model or environ.get(MODEL_VARIABLE, ""), base_url=base_url)
    if flags.timeout_s is not None:
        settings = replace(settings, timeout_s=flags.timeout_s)
    settings = _completed(settings, flags, credentials)
    return Choice(name="llm", note=f"{settings.model} at {base_url}; {why}", llm=settings, credentials=credentials)


def _require_url(text: str) -> None:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"not an http address: {text!r}", where="--base-url", hint="e.g. http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise UsageError("a key in the address would be kept in the ledger", where="--base-url", hint=KEY_VARIABLE)


def _credentials(flags: LlmFlags, environ: Mapping[str, str]) -> Credentials:
    return Credentials(api_key=environ.get(KEY_VARIABLE, ""), headers=dict(map(_header, flags.headers)))


def _header_secrets(headers: Mapping[str, str]) -> frozenset[str]:
    """Values of headers with a secret's name, and long ones under any name; of `Bearer X` the X too."""
    values = [value for name, value in headers.items() if is_secret_name(name) or len(value) >= LONG_VALUE]
    return frozenset(part for value in values for part in (value, value.rpartition(" ")[2]))


def _header(text: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(text)
    if match is None:
        raise UsageError("a header is NAME=VALUE in one line", where="--header")
    return match[1], match[2]


def _completed(settings: LlmSettings, flags: LlmFlags, credentials: Credentials) -> LlmSettings:
    """Name and window filled in from the endpoint's list of models; a server without a list needs a name."""
    endpoint = Endpoint(settings, credentials, time.monotonic)
    try:
        listed: Sequence[Mapping[str, Any]] = endpoint.models()
    except EndpointError as error:
        if not error.status or error.status in REFUSES:
            raise
        listed = ()
    finally:
        endpoint.close()
    model = settings.model or _only(listed, settings.base_url)
    entry = next((entry for entry in listed if entry.get("id") == model), {})
    window = flags.window_tokens or _window(entry) or settings.window_tokens
    return replace(settings, model=model, window_tokens=window)


def _only(listed: Sequence[Mapping[str, Any]], where: str) -> str:
    names = [entry["id"] for entry in listed if isinstance(entry.get("id"), str)]
    if len(names) == 1:
        return str(names[0])
    shown = ", ".join(names[:SHOWN_MODELS]) + (" …" if len(names) > SHOWN_MODELS else "")
    what = f"the endpoint lists {len(names)} models: {shown}" if names else "the endpoint lists no model"
    raise EndpointError(f"{what}; none was named", where=where, hint=f"--model NAME, or {MODEL_VARIABLE}")


def _window(entry: Mapping[str, Any]) -> int | None:
    places = [place for place in (entry, entry.get("meta"), entry.get("top_provider")) if isinstance(place, Mapping)]
    values = (place.get(key) for place in places for key in WINDOW_KEYS)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), None)
