"""The simulated engine, careless with secrets: it prints them in every form, and its model says them in its answers.

`LEAKS` (a JSON list of texts) stands beside this file's link, where the stack's interpreter finds it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import sys
import urllib.parse
from pathlib import Path

import engine

ENCODED = (
    str,
    lambda s: json.dumps({"key": s}),
    lambda s: json.dumps(json.dumps({"key": s})),
    lambda s: urllib.parse.quote(s, safe=""),
    urllib.parse.quote_plus,
    html.escape,
    repr,
    lambda s: base64.b64encode(s.encode()).decode(),
    lambda s: base64.urlsafe_b64encode(f"user:{s}".encode()).decode(),
    lambda s: s.encode().hex(),
    lambda s: "\x1b[1m".join(s),
    lambda s: "\u200b".join(s),
)
LEAKS: list[str] = []


def leak() -> None:
    """All of it, to both streams, in pieces too."""
    for text in LEAKS:
        for encode in ENCODED:
            sys.stderr.write(f"loading with {encode(text)} done\n")
    for text in LEAKS:
        for char in text:
            sys.stdout.write(char)
            sys.stdout.flush()
        sys.stdout.write("\n")
    for name in ("ENGINE_API_KEY", "SHORT_TOKEN"):
        value = os.environ.get(name, "")
        sys.stderr.write(f"GOT {name} {hashlib.sha256(value.encode()).hexdigest()}\n")
    sys.stderr.write(f"ARGV {sys.argv}\n")
    sys.stderr.flush()


class Handler(engine.Handler):
    def words(self, body: dict) -> list[str]:
        words = super().words(body)
        return [f"my key is {LEAKS[0]}, in base64 {ENCODED[7](LEAKS[-1])} ", *words[1:]] if LEAKS else words


def main() -> None:
    LEAKS.extend(json.loads((Path(sys.argv[0]).parent / "leaks.json").read_text()))
    if "serve" in sys.argv:
        leak()
    engine.Handler = Handler
    engine.main()


if __name__ == "__main__":
    main()
