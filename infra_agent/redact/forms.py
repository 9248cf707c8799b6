"""The forms a secret takes on its way into a log, an address, a JSON text or a page, as one pattern.

Covered: what `masker` names. Letters and digits stay themselves in all of these forms but base64 and hexadecimal, so
the longest run of them is a literal that must be there: texts without it are passed over quickly.
Not covered: letters that were escaped on purpose (`%73%6b`).
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from infra_agent.redact.known import MASK

_LEAST_NEEDLE = 4
_LEAST_BASE64 = 8
_NESTED = "{1,16}"
"""Backslashes before an escaped character: four levels of JSON in JSON."""
_EXPANSION = 24
"""No escape is longer than this many bytes for one byte of the secret."""
_SHORT_ESCAPES = {'"': '"', "'": "'", "/": "/", "\n": "n", "\t": "t", "\r": "r"}
_OTHER_LETTERS = {"+": "-", "/": "_", " ": "+"}
"""Of base64 in addresses, and of a space in a form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """One pattern over all forms of all secrets. A match holds one of `needles`, or else is one of `unmarked`."""

    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    needles_bytes: tuple[bytes, ...]
    unmarked: re.Pattern[str] | None
    longest_bytes: int

    def in_text(self, text: str) -> bool:
        """Whether a secret is in the text."""
        return self._may(text) and self.pattern.search(text) is not None

    def in_bytes(self, data: bytes) -> bool:
        """Whether the bytes may hold a secret."""
        # Every event of a run passes here: a plain loop is the fastest.
        for needle in self.needles_bytes:
            if needle in data:
                return True
        return self.unmarked is not None and self.unmarked.search(data.decode("utf-8", "replace")) is not None

    def mask_text(self, text: str) -> str:
        """The text with every match replaced."""
        return self.pattern.sub(MASK, text) if self._may(text) else text

    def _may(self, text: str) -> bool:
        return self.unmarked is not None or any(needle in text for needle in self.needles)


def forms_of(secrets: Iterable[str]) -> Forms:
    """The forms of these secrets; the longest secret is tried first, so that it is masked whole."""
    ordered = sorted(secrets, key=lambda secret: (-len(secret), secret))
    found = [branch for secret in ordered for branch in _branches(secret)]
    needles = sorted({needle for _, marks in found for needle in marks})
    unmarked = [branch for branch, marks in found if not marks]
    return Forms(
        pattern=_any_of(branch for branch, _ in found),
        needles=tuple(needles),
        needles_bytes=tuple(needle.encode() for needle in needles),
        unmarked=_any_of(unmarked) if unmarked else None,
        longest_bytes=max(len(secret.encode("utf-8", "surrogatepass")) for secret in ordered) * _EXPANSION,
    )


def _any_of(branches: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(dict.fromkeys(branches)))


def _branches(secret: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each form as a pattern, with literals of which one stands in every match of it."""
    yield _spelled(secret), _needle(secret)
    data = secret.encode("utf-8", "surrogatepass")
    for core in _base64_cores(data):
        yield _spelled(core), _needle(core.translate({ord("+"): " ", ord("/"): " "}))
    digits = data.hex()
    yield f"(?i:{digits})", (digits, digits.upper())


def _spelled(text: str) -> str:
    # A run of backslashes counts as one: its length changes with every level of escaping.
    once = re.sub(r"\\+", r"\\", text)
    return "".join(re.escape(char) if _unreserved(char) else _escaped(char) for char in once)


def _unreserved(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "_-.~")


def _escaped(char: str) -> str:
    """A character that some encodings write differently, in all of their ways."""
    data = char.encode("utf-8", "surrogatepass")
    units = char.encode("utf-16-be", "surrogatepass")
    before = rf"\\{_NESTED}"
    ways = [before if char == "\\" else re.escape(char), "".join(f"%{byte:02x}" for byte in data)]
    ways.append("".join(f"{before}u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)))
    ways += ["".join(f"{before}x{byte:02x}" for byte in data), f"&#0{{0,4}}{ord(char)};", f"&#x0{{0,4}}{ord(char):x};"]
    if html.escape(char) != char:
        ways.append(re.escape(html.escape(char)))
    if char in _SHORT_ESCAPES:
        ways.append(before + _SHORT_ESCAPES[char])
    if char == "'":
        ways += [f"'{before}''", "'\"'\"'"]
    if char in _OTHER_LETTERS:
        ways.append(re.escape(_OTHER_LETTERS[char]))
    return f"(?i:{'|'.join(sorted(ways, key=len, reverse=True))})"


def _needle(text: str) -> tuple[str, ...]:
    """The longest run of characters that no encoding changes; nothing when it is too short to tell anything."""
    run = max(re.findall(r"[A-Za-z0-9_.~-]+", text), key=len, default="")
    return (run,) if len(run) >= _LEAST_NEEDLE else ()


def _base64_cores(data: bytes) -> Iterator[str]:
    """The part of the base64 text that does not depend on what stands around the secret, for each alignment."""
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + data).decode()
        begin = (shift * 8 + 5) // 6
        end = (shift + len(data)) * 8 // 6
        if end - begin >= _LEAST_BASE64:
            yield text[begin:end]
