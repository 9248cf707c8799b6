"""The environment of a child: an allow-list of the harness's own variables, plus what the launch plan sets.

Covered: secrets of the harness never reach an engine or a tool, HOME points into the run's scratch directory, a model
cache in the user's home stays readable without the login token beside it, the paths that a stack names, engines are
told to send no usage reports.
Not covered: what the stack file itself puts into the launch environment is passed on as written (secrets among it are
masked in everything that the harness writes: `redact`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra_agent.redact.known import address_secrets, is_secret_name
from infra_agent.stack.model import Stack

_ALLOWED = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"}
    | {"TRANSFORMERS_OFFLINE", "HF_HUB_CACHE"}
)
_ALLOWED_PREFIXES = ("LC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_")
_NO_REPORTS = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_COMPILE_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


def child_env(
    parent: Mapping[str, str], plan_env: Mapping[str, str], scratch: Path, compile_cache: Path | None = None
) -> dict[str, str]:
    """The complete environment of an engine. The plan's values win over inherited ones.

    `compile_cache` keeps compiled kernels from launch to launch; without it every launch compiles anew.
    """
    env = tool_env(parent) | _NO_REPORTS
    cache = _model_cache(parent)
    if cache is not None:
        env.setdefault("HF_HUB_CACHE", str(cache))
    env.update({"HOME": str(scratch), "PYTHONUNBUFFERED": "1"})
    if compile_cache is not None:
        env |= {name: str(compile_cache / folder) for name, folder in _COMPILE_CACHES.items()}
    env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    env.update(plan_env)
    return env


def named_paths(stack: Stack) -> list[Path]:
    """What the stack names and an engine may look for by itself: model, patchable sources, files of an experiment."""
    return [
        Path(name).absolute()
        for name in (stack.model, *stack.sources, *stack.experiment.needs)
        if name and Path(name).exists()
    ]


def tool_env(parent: Mapping[str, str]) -> dict[str, str]:
    """The environment of a short-lived helper: what is on the allow-list, nothing that is or holds a secret."""
    return {name: value for name, value in parent.items() if _may_pass(name, value)}


def _may_pass(name: str, value: str) -> bool:
    allowed = name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
    return allowed and not is_secret_name(name) and not any(address_secrets(value))


def _model_cache(parent: Mapping[str, str]) -> Path | None:
    if "HF_HOME" in parent:
        cache = Path(parent["HF_HOME"]) / "hub"
    elif "HOME" in parent:
        cache = Path(parent["HOME"]) / ".cache" / "huggingface" / "hub"
    else:
        return None
    return cache if cache.is_dir() else None
