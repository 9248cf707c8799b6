"""An estimate of how many tokens a text is, on the high side, without a model's tokenizer.

Covered: Latin text, JSON, identifiers and figures. Measured on the prompts of this project against the SmolLM2
tokenizer: docs/brain.md. Not covered: the exact count; the endpoint's own is used for everything that is charged.
"""

from __future__ import annotations

import json
import math
from typing import Any

BYTES_PER_TOKEN = 2.7


def estimate_tokens(text: str) -> int:
    """Tokens of a text, rounded up."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def estimate_document(document: Any) -> int:
    """Tokens of a JSON document as it is sent."""
    return estimate_tokens(json.dumps(document, ensure_ascii=False))
