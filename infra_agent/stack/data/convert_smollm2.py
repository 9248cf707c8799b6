"""Turns a GGUF file of a Llama model into a directory of bf16 safetensors with its tokenizer.

Usage: python convert_smollm2.py GGUF OUT
Run by the interpreter of the stack's environment; needs torch, transformers, gguf and accelerate, nothing else.
The weights are dequantised once here, so that every later start loads plain tensors. Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def plain_config(config: Any) -> Any:
    """The same architecture without a trace of the quantisation, which would make saving impossible."""
    from transformers import LlamaConfig

    fields = config.to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        fields.pop(key, None)
    return LlamaConfig(**fields)


def convert(gguf: Path, out: Path) -> int:
    """Write the model to `out`; returns the number of parameters."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    source = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = LlamaForCausalLM(plain_config(source.config))
    model.load_state_dict(source.state_dict(), strict=True)
    for name, tensor in model.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"tensor {name} holds a value that is not finite")
    model = model.to(torch.bfloat16)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return sum(parameter.numel() for parameter in model.parameters())


def main(arguments: list[str]) -> int:
    """Command line: GGUF file, output directory."""
    if len(arguments) != 2:
        sys.stderr.write("usage: convert_smollm2.py GGUF OUT\n")
        return 2
    gguf, out = Path(arguments[0]), Path(arguments[1])
    count = convert(gguf, out)
    sys.stdout.write(json.dumps({"parameters": count, "out": str(out)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
