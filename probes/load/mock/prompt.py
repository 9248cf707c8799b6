"""How the mock server counts and remembers prompts: one token per word, a prefix cache in blocks of 16 tokens."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any

TEMPLATE_TOKENS = 7
BLOCK_TOKENS = 16
NONCE = re.compile(r"^\[[0-9a-f]+\] ")


def text_of(body: Mapping[str, Any]) -> str:
    """The prompt's text."""
    if isinstance(body.get("prompt"), str):
        return str(body["prompt"])
    messages = body.get("messages")
    turns = messages if isinstance(messages, list) else []
    return "\n".join(_content(turn) for turn in turns if isinstance(turn, dict))


def is_chat(body: Mapping[str, Any]) -> bool:
    """Whether this is a chat."""
    return "messages" in body


def tokens_of(body: Mapping[str, Any]) -> list[str]:
    """The tokens of a prompt: those of the chat template, then its words."""
    return ["<t>"] * (TEMPLATE_TOKENS if is_chat(body) else 0) + text_of(body).split()


def seed_of(text: str) -> int:
    """A number for a prompt's text without its nonce."""
    return zlib.crc32(NONCE.sub("", text).encode())


class PrefixCache:
    """Which blocks of tokens have been seen behind the same blocks."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self.queries = 0
        self.hits = 0

    def look(self, tokens: list[str]) -> int:
        """Cached tokens at the front of this prompt; all of its blocks are kept from now on."""
        cached, chain, hit = 0, 0, True
        for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            chain = hash((chain, tuple(tokens[start : start + BLOCK_TOKENS])))
            hit = hit and chain in self._seen
            cached += BLOCK_TOKENS * hit
            self._seen.add(chain)
        self.queries += len(tokens)
        self.hits += cached
        return cached


def _content(turn: Mapping[str, Any]) -> str:
    content = turn.get("content")
    if isinstance(content, list):  # the parts of a multimodal message
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
