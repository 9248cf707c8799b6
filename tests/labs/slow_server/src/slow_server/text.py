"""Prompts to token ids and back."""

from __future__ import annotations

from typing import Any

from transformers import AutoTokenizer


class Text:
    """The tokenizer of one model directory."""

    def __init__(self, model_dir: str) -> None:
        self._model_dir = model_dir
        self._decoder = AutoTokenizer.from_pretrained(model_dir)

    def encode(self, messages: list[dict[str, str]]) -> list[int]:
        """Token ids of a conversation, ready for the answer."""
        tokenizer = AutoTokenizer.from_pretrained(self._model_dir)
        ids: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return list(ids)

    def decode(self, ids: list[int]) -> str:
        """The text of token ids."""
        return str(self._decoder.decode(ids, skip_special_tokens=True))
