"""Runs inside the stack's environment: one model in float32 on the CPU, asked over a private pipe.

Started as a plain script (`python -I oracle_worker.py MODEL_DIR`), so it imports the standard library, torch and
transformers, and nothing of this project. Requests arrive on standard input, replies leave on the original standard
output; both are 4-byte big-endian lengths followed by JSON. Whatever a library prints goes to standard error.

Covered: tokenise, gaps at a fork, greedy generation, rounding of a type; it ends at once when its input closes.
Not covered: sampling, batches, devices other than the CPU.
"""

from __future__ import annotations

import json
import math
import os
import queue
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

MAX_FRAME_BYTES = 64 << 20


class Refused(Exception):
    """A request that this model cannot answer."""


def read_frames(stream: BinaryIO, frames: queue.Queue[Any]) -> None:
    """Queue every request; leave the process as soon as the other side is gone, even in mid-computation."""
    while True:
        head = stream.read(4)
        size = struct.unpack(">I", head)[0] if len(head) == 4 else 0
        body = stream.read(size) if 0 < size <= MAX_FRAME_BYTES else b""
        if not body or len(body) < size:
            os._exit(0)
        frames.put(json.loads(body))


def write_frame(fd: int, document: Any) -> None:
    """Send one reply."""
    body = json.dumps(document).encode()
    data = struct.pack(">I", len(body)) + body
    while data:
        data = data[os.write(fd, data) :]


class Worker:
    """The loaded model and the four things it can be asked."""

    def __init__(self, model: str) -> None:
        import torch
        import transformers

        self.torch = torch
        self.stored_dtype = str(transformers.AutoConfig.from_pretrained(model, local_files_only=True).dtype)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model, local_files_only=True)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            model, dtype=torch.float32, attn_implementation="eager", local_files_only=True
        ).eval()
        self.copies = {"float32": self.model}
        self.ends = self._ends()
        self.facts = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "parameters": sum(weight.numel() for weight in self.model.parameters()),
            "stored_dtype": self.stored_dtype.removeprefix("torch."),
            "chat_template": bool(self.tokenizer.chat_template),
        }

    def _ends(self) -> list[int]:
        found = getattr(self.model.generation_config, "eos_token_id", None)
        found = self.tokenizer.eos_token_id if found is None else found
        if found is None:
            raise Refused("the model names no end-of-text token")
        return list(found) if isinstance(found, (list, tuple)) else [int(found)]

    def prompt_ids(self, prompt: str, endpoint: str) -> list[int]:
        """The prompt as the server feeds it."""
        if endpoint == "completions":
            return list(self.tokenizer(prompt)["input_ids"])
        if not self.tokenizer.chat_template:
            raise Refused("the model has no chat template: use the completions endpoint")
        rendered = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=True, return_dict=True
        )
        return list(rendered["input_ids"])

    def decode(self, ids: list[int], skip_special: bool = False) -> str:
        """Text of these tokens."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=skip_special, clean_up_tokenization_spaces=False))

    def tokenise(self, texts: list[str]) -> list[dict[str, Any]]:
        """Tokens of each text. A replacement character means that bytes were lost: such a text is not faithful."""
        answers = []
        for text in texts:
            ids = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
            faithful = self.decode(ids) == text and "\ufffd" not in text
            answers.append({"ids": ids, "pieces": [self.decode([one]) for one in ids], "faithful": faithful})
        return answers

    def gaps(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Each fork: log-probabilities of both tokens, the best one, and the worst deficit behind the fork."""
        return [self._gap(**request) for request in requests]

    def _gap(
        self, prompt: str, endpoint: str, path: list[int | None], position: int, other: int | None
    ) -> dict[str, Any]:
        start = self.prompt_ids(prompt, endpoint)
        tokens = [token for token in path if token is not None]
        if not 0 <= position < len(path) or None in path[:-1]:
            raise Refused("a fork lies inside the path, and end-of-text can only be its last token")
        with self.torch.inference_mode():
            logits = self.model(self.torch.tensor([start + tokens]), use_cache=False).logits[0, len(start) - 1 :]
        table = self.torch.log_softmax(logits.double(), dim=-1)
        best_logp, best_id = table[position].max(dim=-1)
        reply = {
            "path_logp": self._logp(table[position], path[position]),
            "other_logp": self._logp(table[position], other),
            "best_logp": float(best_logp),
            "step_nat": self._step(float(logits[position].max())),
            "best_token": "" if int(best_id) in self.ends else self.decode([int(best_id)]),
        }
        rest = [(float(table[at].max()) - self._logp(table[at], path[at]), at) for at in range(position + 1, len(path))]
        if rest:
            reply["rest_deficit_nat"], reply["rest_position"] = max(rest, key=lambda pair: (pair[0], -pair[1]))
        return reply

    def _logp(self, row: Any, token: int | None) -> float:
        """Greedy decoding stops at whichever end token is largest, hence the maximum over them."""
        return float(row[token]) if token is not None else max(float(row[end]) for end in self.ends)

    def _step(self, logit: float) -> float | None:
        """Distance between neighbouring numbers of the weights' own 16-bit type, at this logit's size."""
        bits = {"torch.bfloat16": 7, "torch.float16": 10}.get(self.stored_dtype)
        return None if bits is None or logit == 0 else math.ldexp(1.0, math.frexp(abs(logit))[1] - 1 - bits)

    def copy_in(self, dtype: str) -> Any:
        """The same weights in another type; kept once made."""
        if dtype not in ("float32", "bfloat16", "float16"):
            raise Refused(f"no dtype {dtype!r}; known: float32, bfloat16, float16")
        if dtype not in self.copies:
            import copy

            self.copies[dtype] = copy.deepcopy(self.model).to(getattr(self.torch, dtype))
        return self.copies[dtype]

    def rounding(self, answers: list[dict[str, str]], dtype: str) -> dict[str, Any]:
        """How far this type alone moves the distance between the two best tokens, over all positions of the answers."""
        moves = [move for answer in answers for move in self._moves(dtype=dtype, **answer)]
        if not moves:
            raise Refused("the answers hold no tokens")
        table = self.torch.tensor(moves, dtype=self.torch.float64)
        low, middle, high = (float(table.quantile(share)) for share in (0.5, 0.99, 1.0))
        return {"dtype": dtype, "positions": len(moves), "median_nat": low, "p99_nat": middle, "max_nat": high}

    def _moves(self, prompt: str, endpoint: str, text: str, dtype: str) -> list[float]:
        start = self.prompt_ids(prompt, endpoint)
        tokens = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        path = self.torch.tensor([start + tokens])
        with self.torch.inference_mode():
            exact = self.model(path, use_cache=False).logits[0, len(start) - 1 : -1].double()
            served = self.copy_in(dtype)(path, use_cache=False).logits[0, len(start) - 1 : -1].double()
        best = exact.topk(2, dim=-1).indices
        apart = [rows.gather(1, best[:, :1]) - rows.gather(1, best[:, 1:]) for rows in (exact, served)]
        return [float(move) for move in (apart[0] - apart[1]).abs().flatten()]

    def greedy(self, prompt: str, endpoint: str, max_tokens: int, dtype: str) -> dict[str, Any]:
        """Greedy answer of the model in this dtype, computed step by step with a cache."""
        model = self.copy_in(dtype)
        ids, chosen, cache = self.prompt_ids(prompt, endpoint), [], None
        with self.torch.inference_mode():
            for _ in range(max_tokens):
                out = model(self.torch.tensor([ids]), past_key_values=cache, use_cache=True)
                cache, token = out.past_key_values, int(out.logits[0, -1].argmax())
                chosen.append(token)
                if token in self.ends:
                    break
                ids = [token]
        stopped = bool(chosen) and chosen[-1] in self.ends
        text = self.decode(chosen, skip_special=True)
        return {"text": text, "output_tokens": len(chosen), "finish_reason": "stop" if stopped else "length"}


def failure(error: Exception) -> dict[str, Any]:
    """An error as a reply."""
    return {"error": {"type": type(error).__name__, "message": str(error)[:2000]}}


def main(model: str) -> None:
    """Serve requests until standard input closes."""
    reply_fd = os.dup(1)
    os.dup2(2, 1)
    frames: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=read_frames, args=(sys.stdin.buffer, frames), daemon=True).start()
    try:
        worker = Worker(model)
    except Exception as error:
        write_frame(reply_fd, failure(error))
        raise SystemExit(1) from error
    write_frame(reply_fd, {"result": worker.facts})
    operations: dict[str, Callable[..., Any]] = {
        "tokenise": worker.tokenise,
        "gaps": worker.gaps,
        "greedy": worker.greedy,
        "rounding": worker.rounding,
    }
    while True:
        request = frames.get()
        try:
            write_frame(reply_fd, {"result": operations[request["op"]](**request["args"])})
        except Exception as error:
            write_frame(reply_fd, failure(error))


if __name__ == "__main__":
    main(sys.argv[1])
