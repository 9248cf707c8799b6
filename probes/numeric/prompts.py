"""Prompts of the answer check: the built-in set, a file of one's own, and enough of them to fill a load.

Covered: `builtin:answers`, JSONL files of {"prompt": text, "id": optional}, repetition up to a concurrency.
Not covered: prompts of the load probe.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from probes.numeric.types import AnswerFileError, AnswerPrompt

BUILTIN = "builtin:answers"
_BUILTIN_TEXTS = (
    "Explain how a bicycle stays upright.",
    "Write about rivers in Europe.",
    "List ideas for a garden.",
    "What is a compiler?",
    "Tell me about the moon.",
    "How do vaccines work?",
    "Describe a busy market.",
    "Why is the sky blue?",
)


def load_prompts(source: str) -> tuple[AnswerPrompt, ...]:
    """The prompts named by `builtin:answers` or a JSONL path. AnswerFileError names file and line; OSError passes."""
    if source == BUILTIN:
        return tuple(AnswerPrompt(id=f"p{at}", text=text) for at, text in enumerate(_BUILTIN_TEXTS, start=1))
    if source.startswith("builtin:"):
        raise AnswerFileError(f"no built-in prompts {source!r}; known: {BUILTIN}")
    prompts = []
    for number, line in enumerate(Path(source).read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            prompts.append(_prompt(line, f"{source}:{number}", f"line{number}"))
    if not prompts:
        raise AnswerFileError(f"{source} holds no prompts")
    return tuple(prompts)


def filled(prompts: Sequence[AnswerPrompt], at_least: int) -> tuple[AnswerPrompt, ...]:
    """The prompts, repeated under new ids until there are `at_least` many, so that a load can be reached."""
    if not prompts:
        raise ValueError("no prompts to repeat")
    rounds = -(-at_least // len(prompts))
    extra = [
        AnswerPrompt(id=f"{prompt.id}#{turn}", text=prompt.text) for turn in range(2, rounds + 1) for prompt in prompts
    ]
    return (*prompts, *extra)[: max(at_least, len(prompts))]


def _prompt(line: str, place: str, default_id: str) -> AnswerPrompt:
    try:
        entry = json.loads(line)
        text, name = entry["prompt"], entry.get("id", default_id)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnswerFileError(f"{place}: expected an object with the key prompt") from error
    if not isinstance(text, str) or not isinstance(name, str) or not text.strip():
        raise AnswerFileError(f"{place}: prompt must be text that is not empty, and id text")
    return AnswerPrompt(id=name, text=text)
