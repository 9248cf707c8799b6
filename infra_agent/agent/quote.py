"""Text from outside as data in a prompt: logs, code, answers and skill files stand in a block they cannot leave.

    quote(log, source="log of L3", nonce=nonce, longest=4000)
    inline(reason, 240)

Covered: short text within a line, between marks that it cannot contain; longer text in a block with a delimiter nobody
can guess, whatever the text says; control sequences, invisible and direction-changing characters taken out; look-alikes
of tags made inert (`unquote` turns them back); length capped, with what was cut named.
Not covered: what a model makes of the words themselves. The wall is that no action can approve, widen the scope or
state a result (`agent.actions`, `review`), not this block.
"""

from __future__ import annotations

import re
import secrets

from probes.clean import one_line, strip

NONCE_BYTES = 16
_NONCE = re.compile(r"[0-9a-f]{32,64}")
_LESS = "<\uff1c\ufe64"
"""The sign, and what compatibility normalisation makes it."""
_TAG = re.compile(rf"[{_LESS}](?=[/!?|\w])(?!\d)")
_ENTITY = re.compile(r"&(?=amp;|lt;|#91;)")
_ROLE = re.compile(r"\[(?=\s*/?\s*(?:INST|SYS|SYSTEM|USER|ASSISTANT|TOOL)\b)", re.IGNORECASE)
_SOURCE_CHARACTERS = 120
_HEAD_SHARE = 2 / 3
_MARKS = str.maketrans({"«": "‹", "»": "›", "<": "‹", ">": "›", "`": "'"})


def new_nonce() -> str:
    """A fresh nonce: one per prompt, 128 bits."""
    return secrets.token_hex(NONCE_BYTES)


def quote(text: str, *, source: str, nonce: str, longest: int) -> str:
    """The text as a block of data. At most `longest` characters of it are shown, its beginning and its end.

    `source` says in a few words where it comes from. ValueError for a nonce that could be guessed.
    """
    if not _NONCE.fullmatch(nonce):
        raise ValueError("the nonce must be 32 to 64 hexadecimal digits: use new_nonce()")
    if longest < 1:
        raise ValueError("longest must be at least 1")
    shown, cut_bytes = _cut(strip(text), longest)
    body = _inert(shown, nonce)
    label = _inert(one_line(source, _SOURCE_CHARACTERS), nonce).replace('"', "'")
    size = len(text.encode("utf-8", "surrogatepass"))
    return (
        f'<data-{nonce} source="{label}" bytes="{size}" cut_bytes="{cut_bytes}">\n'
        f"{body}\n"
        f"</data-{nonce}>"
    )  # fmt: skip


def cut(text: str, longest: int) -> str:
    """At most `longest` characters of a line, and how many more there were."""
    return text if len(text) <= longest else f"{text[:longest]} … {len(text) - longest} characters left out"


def inline(text: str, longest: int) -> str:
    """Text within a line: « and » around it, at most `longest` characters of it."""
    flat = " ".join(strip(text).split()).translate(_MARKS)
    return f"«{cut(flat, longest)}»"


def unquote(text: str) -> str:
    """Words that a model copied out of a block, as they were before it."""
    return text.replace("&lt;", "<").replace("&#91;", "[").replace("&amp;", "&")


def _cut(text: str, longest: int) -> tuple[str, int]:
    """Beginning and end of a long text with a line between them, and how many bytes are missing."""
    if len(text) <= longest:
        return text, 0
    head = max(1, round(longest * _HEAD_SHARE))
    tail = longest - head
    missing = text[head : len(text) - tail]
    cut_bytes = len(missing.encode("utf-8", "surrogatepass"))
    end = text[len(text) - tail :] if tail else ""
    return f"{text[:head]}\n… {cut_bytes} bytes cut here …\n{end}", cut_bytes


def _inert(text: str, nonce: str) -> str:
    """No tag, no role mark and no delimiter can be read out of it."""
    without = re.sub(re.escape(nonce), "***", text, flags=re.IGNORECASE)
    return _ROLE.sub("&#91;", _TAG.sub("&lt;", _ENTITY.sub("&amp;", without)))
