"""Greedy decoding of one model, shared by all requests step by step."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import torch
from transformers import AutoModelForCausalLM


class Generator:
    """One model. Steps of several requests take turns."""

    def __init__(self, model_dir: str) -> None:
        self._model: Any = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
        self._turn = threading.Lock()
        self._end = self._model.generation_config.eos_token_id

    def tokens(self, prompt: list[int], limit: int) -> Iterator[int]:
        """The ids of the answer, one after the other, until its end or the limit."""
        ids = list(prompt)
        for _ in range(limit):
            token = self._step(ids)
            if token == self._end:
                return
            ids.append(token)
            yield token

    @torch.inference_mode()
    def _step(self, ids: list[int]) -> int:
        """The most likely next token."""
        with self._turn:
            output = self._model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=1)
        return int(output.logits[0, -1].argmax())
