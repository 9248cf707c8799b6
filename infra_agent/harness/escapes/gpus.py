"""How many accelerators a program sees, by what programs use: the vendors' tools and CUDA itself.

Run once outside and once inside: an engine that finds no GPU inside would use the CPU and say nothing.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping

from infra_agent.harness.escapes.attempt import Attempt, Planted
from infra_agent.harness.mounts import gpu_nodes

_TOOLS: Mapping[str, tuple[list[str], str]] = {
    "nvidia-smi": (["nvidia-smi", "-L"], "GPU "),
    "rocm-smi": (["rocm-smi", "--showid"], "GPU["),
}
_TIMEOUT_S = 20


def counts() -> dict[str, int | str]:
    """Accelerators by tool; a tool that is there and fails is told by its failure."""
    found: dict[str, int | str] = {}
    for name, (command, mark) in _TOOLS.items():
        if shutil.which(command[0]):
            found[name] = _by_tool(command, mark)
    cuda = _by_cuda()
    return found if cuda is None else {**found, "CUDA": cuda}


def _by_tool(command: list[str], mark: str) -> int | str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"failed: {type(error).__name__}"
    if done.returncode:
        return f"failed: exit code {done.returncode}"
    return len({line.split(":")[0] for line in done.stdout.splitlines() if line.startswith(mark)})


def _by_cuda() -> int | str | None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    code = int(cuda.cuInit(0))
    count = ctypes.c_int(0)
    code = code or int(cuda.cuDeviceGetCount(ctypes.byref(count)))
    return f"failed: error {code}" if code else count.value


def _same_nodes(planted: Planted) -> str | None:
    inside = [str(node) for node in gpu_nodes()]
    return None if inside == planted["gpu_nodes"] else f"{inside} inside, {planted['gpu_nodes']} outside"


def _same_counts(planted: Planted) -> str | None:
    inside = counts() if planted["gpu_counts"] else {}
    return None if inside == planted["gpu_counts"] else f"{inside} inside, {planted['gpu_counts']} outside"


ATTEMPTS = (
    Attempt("same accelerators", "compare the device nodes inside and outside", _same_nodes),
    Attempt("same accelerators for programs", "compare nvidia-smi, rocm-smi and CUDA in- and outside", _same_counts),
)

if __name__ == "__main__":
    sys.stdout.write(json.dumps(counts()))
