"""Worker: which graphics card the stack's torch sees, or a refusal that says there is none."""

from __future__ import annotations

from typing import Any

from probes.kernels.inside import Refused, serve


def work(_request: dict[str, Any]) -> dict[str, Any]:
    """Name, memory and multiprocessors of the first card."""
    try:
        import torch
    except ImportError as error:
        raise Refused("no-torch", "torch is not installed in the stack's interpreter") from error
    if not torch.cuda.is_available():
        raise Refused("no-device", "no GPU here", hint="run it where a card is")
    found = torch.cuda.get_device_properties(0)
    return {"name": found.name, "memory_bytes": found.total_memory, "multiprocessors": found.multi_processor_count}


if __name__ == "__main__":
    serve(work)
