"""Prompt sets: built in, JSONL and ShareGPT; and the digest that says two windows did the same work.

Covered: `builtin:NAME`, rows of {"prompt": text} or {"messages": [...]}, ShareGPT's first human turn.
Not covered: multimodal content, downloading data sets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from probes.load.types import Endpoint, Message, Prompt

BUILTIN = ("answers", "short-chat")
SEED_POLICY = (
    "prompts in file order, again from the start; nonce per round and arrivals per request drawn from the seed"
)
SHAREGPT_ROLES = {"human": "user", "user": "user", "system": "system"}


def load_prompts(name_or_path: str | Path) -> tuple[Prompt, ...]:
    """Prompts of a built-in set (`short-chat` or `builtin:short-chat`) or of a file.

    Raises ValueError, with the line or entry where one is to blame, for anything that is not a prompt set.
    """
    name = str(name_or_path).removeprefix("builtin:")
    if name in BUILTIN:
        text = resources.files("probes.load").joinpath("data", f"{name}.jsonl").read_text(encoding="utf-8")
        return _from_jsonl(text, name)
    if str(name_or_path).startswith("builtin:"):
        raise ValueError(f"no built-in prompt set {name!r}; there are {' and '.join(BUILTIN)}")
    path = Path(name_or_path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot read prompts from {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start})") from error
    return _from_sharegpt(text, str(path)) if text.lstrip().startswith("[") else _from_jsonl(text, str(path))


def digest(prompts: Sequence[Prompt], max_tokens: int, requests: int, endpoint: Endpoint) -> str:
    """SHA-256 of the work of one window: which prompts in which order, how long, how many, by which seed policy."""
    sent = [prompts[number % len(prompts)] for number in range(requests)]
    document = {
        "endpoint": endpoint,
        "max_tokens": max_tokens,
        "prompts": [[[message.role, message.content] for message in prompt.messages] for prompt in sent],
        "seed_policy": SEED_POLICY,
    }
    return hashlib.sha256(json.dumps(document, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def _from_jsonl(text: str, source: str) -> tuple[Prompt, ...]:
    rows = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        raise ValueError(f"{source} holds no prompts")
    return tuple(_row(line, f"{source}:{number}") for number, line in rows)


def _row(line: str, place: str) -> Prompt:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place}: not JSON: {error}") from error
    if not isinstance(row, dict) or ("prompt" in row) == ("messages" in row):
        raise ValueError(f'{place}: a row is an object with either "prompt" or "messages"')
    if "prompt" in row:
        return Prompt.of(_content(row["prompt"], f"{place}: prompt"))
    messages = row["messages"]
    if not isinstance(messages, list) or not messages:
        raise ValueError(f"{place}: messages must be a list with at least one message")
    return Prompt(tuple(_message(message, f"{place}: message {i}") for i, message in enumerate(messages, 1)))


def _message(message: Any, place: str) -> Message:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ValueError(f'{place} must be an object with "role" and "content"')
    return Message(message["role"], _content(message.get("content"), place))


def _content(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{place} must be text that is not empty")
    return value


def _from_sharegpt(text: str, source: str) -> tuple[Prompt, ...]:
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{source}: not JSON: {error}") from error
    prompts = [_conversation(entry, f"{source}: entry {number}") for number, entry in enumerate(entries, 1)]
    if not prompts:
        raise ValueError(f"{source} holds no prompts")
    return tuple(prompts)


def _conversation(entry: Any, place: str) -> Prompt:
    """The turns up to and including the first human one."""
    turns = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(turns, list):
        raise ValueError(f'{place}: a ShareGPT entry is an object with "conversations"')
    kept: list[Message] = []
    for turn in turns:
        speaker = turn.get("from") if isinstance(turn, dict) else None
        if speaker not in SHAREGPT_ROLES:
            break
        kept.append(Message(SHAREGPT_ROLES[speaker], _content(turn.get("value"), place)))
        if kept[-1].role == "user":
            return Prompt(tuple(kept))
    raise ValueError(f"{place}: the conversation does not begin with a human turn")
