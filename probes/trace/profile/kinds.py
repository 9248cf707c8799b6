"""What each event is: work of the device (compute, communication, copy), a launch, a wait of the host, or host work.

Decided by category, and by the event's name where a category does not say. Names and categories are texts kept once,
so each is judged once however many events there are.
Covered: PyTorch profiles of CUDA, ROCm, XPU and CPU; traces whose processes are named after a device (JAX, Ascend).
Not covered: telling tensor-core kernels from others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from probes.trace.profile.columns import Flags, Trace

_COMMUNICATION = re.compile(
    r"nccl|rccl|hccl|oneccl|msccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast_?kernel"
    r"|deep_ep|(?:intra|inter)node_(?:dispatch|combine)|sendrecv|(?:one|two)_shot",
    re.IGNORECASE,
)
_COPY = re.compile(r"^mem(?:cpy|set)|\bmemcpy\b|\bmemset\b|copy_engine|MEMCPY_ASYNC", re.IGNORECASE)
_WAIT = re.compile(r"synchroni[sz]e|StreamWaitEvent|aten::item$|aten::_local_scalar_dense|EventQuery", re.IGNORECASE)
_LAUNCH = re.compile(r"launch|memcpy(?!.*sync\b)|memset|GraphLaunch", re.IGNORECASE)
_DEVICE_PROCESS = re.compile(r"\bGPU \d|/device:|\bNPU\b|Ascend Hardware|\bXPU \d|\bTPU\b", re.IGNORECASE)
_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "concurrent_kernel"})
_RUNTIME = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "privateuse1_runtime", "runtime"})
_NOTES = frozenset({"user_annotation", "gpu_user_annotation", "Trace", "overhead", "fwdbwd", "ac2g", "python_function"})
_PROFILER = re.compile(r"^(?:PyTorch Profiler|Iteration Start|Record Window|Activity Buffer Request|Buffer Flush)")
STEP = re.compile(r"^(?:ProfilerStep#|step[_ #]|iteration[_ #]|forward[_ #]|decode[_ #]|prefill[_ #])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """A flag for each event. `compute`, `communication` and `copy` are parts of `device`."""

    device: Flags
    compute: Flags
    communication: Flags
    copy: Flags
    launch: Flags
    wait: Flags
    host: Flags
    """Operators and other work of the host, without calls into the runtime and annotations."""
    annotation: Flags
    python: Flags
    step: Flags


def kinds_of(trace: Trace) -> Kinds:
    """Judge all events."""
    names, categories = np.asarray(trace.names, dtype=object), np.asarray(trace.categories, dtype=object)
    by_category = {
        "device": np.asarray([each in _DEVICE for each in categories], dtype=bool),
        "runtime": np.asarray(
            [each.lower() in _RUNTIME or each.endswith("_runtime") for each in categories], dtype=bool
        ),
        "note": np.asarray([each in _NOTES for each in categories], dtype=bool),
        "python": np.asarray([each == "python_function" for each in categories], dtype=bool),
    }
    ids = trace.category_ids
    annotation = by_category["note"][ids] | _named(_PROFILER, names)[trace.name_ids]
    runtime = by_category["runtime"][ids]
    device = (by_category["device"][ids] | _in_device_process(trace)) & ~annotation & ~runtime
    communication = device & _named(_COMMUNICATION, names)[trace.name_ids]
    copies = np.asarray([each in ("gpu_memcpy", "gpu_memset") for each in categories], dtype=bool)
    copy = device & ~communication & (copies[ids] | _named(_COPY, names)[trace.name_ids])
    wait = ~device & _named(_WAIT, names)[trace.name_ids]
    return Kinds(
        device=device,
        compute=device & ~communication & ~copy,
        communication=communication,
        copy=copy,
        launch=runtime & _named(_LAUNCH, names)[trace.name_ids] & ~wait,
        wait=wait,
        host=~device & ~runtime & ~annotation,
        annotation=annotation & ~by_category["python"][ids],
        python=by_category["python"][ids],
        step=annotation & _named(STEP, names)[trace.name_ids],
    )


def _named(pattern: re.Pattern[str], names: np.ndarray[tuple[int], np.dtype[np.object_]]) -> Flags:
    return np.asarray([pattern.search(str(name)) is not None for name in names], dtype=bool)


def _in_device_process(trace: Trace) -> Flags:
    """Events of a process that is named after a device."""
    lanes = np.asarray(
        [_DEVICE_PROCESS.search(trace.process_names.get(process, process)) is not None for process, _ in trace.lanes],
        dtype=bool,
    )
    inside = lanes[trace.lane_ids] if len(lanes) else np.zeros(len(trace), dtype=bool)
    return np.asarray(inside, dtype=bool)
