"""What a launch uses beside time: bytes on disk, and accelerators.

Covered: files of its own (log, kept copy, scratch); NVIDIA devices that its environment lets it see.
Not covered: how busy a device was; a launch that may use two GPUs for 10 s is charged 20 GPU seconds.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from infra_agent.harness.logfile import HEAD_BYTES, TAIL_BYTES
from infra_agent.stack.sizes import tree_bytes

LAUNCH_DISK_BYTES = 2 * (HEAD_BYTES + TAIL_BYTES)
"""Set aside for one launch: its log at full length, and the copy that is kept."""
_NVIDIA = re.compile(r"nvidia\d+")


def bytes_of(paths: Iterable[Path]) -> int:
    """Size of files and of everything below directories; what is missing counts nothing."""
    total = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            total += tree_bytes(path) if path.is_dir() else path.lstat().st_size
    return total


def gpus_used(nodes: Iterable[Path], env: Mapping[str, str], device: object = None) -> int:
    """How many GPUs a launch may use: those the machine has, narrowed by its environment and its device setting."""
    if str(device).startswith("cpu"):
        return 0
    present = sum(_NVIDIA.fullmatch(node.name) is not None for node in nodes)
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    # CUDA itself reads the list up to the first entry that is no device.
    named = 0
    for entry in visible.split(","):
        if not entry.strip() or entry.strip().startswith("-"):
            break
        named += 1
    return min(named, present)
