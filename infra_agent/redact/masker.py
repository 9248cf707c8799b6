"""Masks secret values wherever they stand, as they are or encoded, in text, bytes and JSON trees.

Covered: the value itself; base64 of it inside longer base64, both alphabets; hexadecimal; percent and form encoding;
JSON, Python, shell and HTML escapes, also nested ones; a value cut up by control sequences or invisible characters; the
single lines of a value of several lines.
Not covered: values shorter than `SHORTEST` (they would mask ordinary text), other encodings, compressed data, a value
spread over several texts.

A Masker is passed along, never global. Without secrets it costs nothing; with secrets a text that holds none is
searched for a few literal strings only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from infra_agent.redact.forms import Forms, forms_of
from infra_agent.redact.known import MASK as MASK
from probes.clean import strip, suspicious

SHORTEST = 8
_SHORTEST_LINE = 16
_CONTROL = bytes([*range(9), 11, 12, *range(14, 32), 127])
_ESCAPED_CONTROL = (b"\\u00", b"\\b", b"\\f", b"\\r")
"""How JSON writes what a later clean-up would take out from between the halves of a secret."""


class Masker:
    """Replaces what it knows by `***`. Immutable; `adding` makes a larger one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(_parts(secrets))
        self._forms: Forms | None = forms_of(self._secrets) if self._secrets else None

    def adding(self, secrets: Iterable[str]) -> Masker:
        """A masker of these secrets too."""
        more = frozenset(_parts(secrets))
        return self if more <= self._secrets else Masker(self._secrets | more)

    def __bool__(self) -> bool:
        return self._forms is not None

    def __repr__(self) -> str:
        return f"Masker({len(self._secrets)} secrets)"

    @property
    def longest_bytes(self) -> int:
        """No form of a secret is longer, nested escapes left aside."""
        return self._forms.longest_bytes if self._forms else 0

    def text(self, text: str) -> str:
        """The text with every secret masked. One that was cut up by invisible characters loses those as well."""
        forms = self._forms
        if forms is None:
            return text
        masked = forms.mask_text(text)
        if suspicious(masked) and forms.in_text(bare := strip(masked)):
            return forms.mask_text(bare)
        return masked

    def data(self, data: bytes) -> bytes:
        """The bytes with every secret masked; what is no UTF-8 stays as it is."""
        if not self.suspects(data):
            return data
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def value(self, value: Any) -> Any:
        """A JSON tree with every text in it masked, keys too. Numbers and booleans stay."""
        if self._forms is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return tuple(self.value(item) for item in value) if isinstance(value, tuple) else value

    def _mapping(self, value: dict[Any, Any]) -> dict[Any, Any]:
        masked: dict[Any, Any] = {}
        for key, item in value.items():
            name = self.value(key)
            # Two secrets as keys must not become one.
            masked[f"{name}{len(masked)}" if name in masked else name] = self.value(item)
        return masked

    def suspects(self, data: bytes) -> bool:
        """Whether the bytes may hold a secret; False is certain. JSON text may be asked as well."""
        forms = self._forms
        if forms is None:
            return False
        if forms.in_bytes(data) or any(mark in data for mark in _ESCAPED_CONTROL):
            return True
        if data.isascii():
            return len(data.translate(None, _CONTROL)) < len(data)
        return suspicious(data.decode("utf-8", "replace"))


def _parts(secrets: Iterable[str]) -> Iterable[str]:
    """Each secret without white space around it, and the lines of those that have several."""
    for secret in secrets:
        whole = secret.strip()
        if len(whole) >= SHORTEST:
            yield whole
        lines = whole.splitlines()
        if len(lines) > 1:
            yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE)


NO_SECRETS = Masker()
