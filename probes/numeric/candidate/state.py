"""What a candidate might change under the judge's or the reference's feet, taken down before and after.

Runs inside the candidate's process; standard library and numpy (torch where it is loaded). A candidate that patches
this module too gains nothing: the judge's clock, comparator and expected values live in another process, and a change
that goes unseen here can only harm the candidate.

Covered: functions of the modules that measure and compare, builtins, floating-point modes of the processor and numpy,
torch's precision and determinism flags, environment, directory, signals, trace hooks, import hooks, limits.
Not covered: changes that are undone before the call returns.
"""

from __future__ import annotations

import builtins
import gc
import json
import math
import os
import resource
import signal
import statistics
import sys
import threading
import time
from typing import Any

_WATCHED = ("time", "statistics", "math", "json", "os", "gc", "threading", "builtins", "numpy", "numpy.linalg",
            "numpy.testing", "torch", "torch.testing", "torch.nn.functional", "torch.cuda")  # fmt: skip
_TORCH_FLAGS = (
    "backends.cuda.matmul.allow_tf32", "backends.cudnn.allow_tf32", "backends.cudnn.benchmark",
    "backends.cudnn.deterministic", "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction", "backends.mkldnn.enabled",
)  # fmt: skip
_TORCH_CALLS = ("get_default_dtype", "get_float32_matmul_precision", "are_deterministic_algorithms_enabled",
                "is_grad_enabled", "get_num_threads")  # fmt: skip
_ENV_PREFIXES = ("NVIDIA_", "CUBLAS_", "CUDA_", "TORCH_", "TRITON_", "MKL_", "OMP_", "OPENBLAS_", "LD_", "PYTHON")
_KEPT = (builtins, gc, json, math, statistics, time)
"""Loaded here, so that the first picture holds them."""


def picture(numpy: Any) -> dict[str, Any]:
    """Everything watched, by name. Values are compared, so functions stand for themselves."""
    found: dict[str, Any] = {}
    for name in _WATCHED:
        module = sys.modules.get(name)
        for key, value in list(vars(module).items()) if module is not None else ():
            if callable(value) and not key.startswith("__"):
                found[f"{name}.{key}"] = value
    found["numpy.errstate"] = numpy.geterr()
    found["denormals"] = float(numpy.float32(1e-38) * numpy.float32(0.01)) != 0.0
    found["rounding mode"] = (1.0 + 2.0**-53, 1.0 - 2.0**-54 * 1.5)
    found["directory"] = os.getcwd()  # noqa: PTH109
    found["trace hooks"] = (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile())
    found["import hooks"] = (list(sys.meta_path), list(sys.path_hooks))
    found["signals"] = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    found["timers"] = [signal.getitimer(kind)[1] for kind in (signal.ITIMER_REAL, signal.ITIMER_PROF)]
    found["memory limit"] = resource.getrlimit(resource.RLIMIT_AS)
    found["recursion limit"] = sys.getrecursionlimit()
    for name, value in os.environ.items():
        if name.startswith(_ENV_PREFIXES):
            found[f"variable {name}"] = value
    found |= _torch_flags(sys.modules.get("torch"))
    return found


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of what is not as it was. New functions in a module are no change; new variables are."""
    gone = [name for name, value in before.items() if name not in after or not _same(value, after[name])]
    return gone + [name for name in after if name not in before and name.startswith("variable ")]


def _same(a: Any, b: Any) -> bool:
    if callable(a):
        return a is b
    return bool(a == b)


def _torch_flags(torch: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if torch is None:
        return found
    for name in _TORCH_FLAGS:
        value = torch
        for part in name.split("."):
            value = getattr(value, part, None)
        found[f"torch.{name}"] = value
    for name in _TORCH_CALLS:
        found[f"torch.{name}()"] = str(getattr(torch, name, lambda: None)())
    return found
