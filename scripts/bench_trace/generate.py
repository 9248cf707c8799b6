"""Writes a trace as the PyTorch profiler does, of any size, with a slower interval where it is asked for.

Each operation is a CPU operator, its launch, a flow arrow and a kernel, on one host thread and three streams (compute,
communication, copies). Steps are annotated. All from one seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

EVENTS_PER_OPERATION = 5
OPERATIONS_PER_STEP = 400
KERNELS = (
    ("aten::mm", "void gemm_bf16_128x128_tn(float const*, float*)", 42.0),
    ("aten::add", "void at::native::elementwise_kernel<128, 2, add>(int, add)", 6.0),
    ("aten::_softmax", "void softmax_warp_forward<float, float, float, 10>(float*)", 11.0),
    ("aten::layer_norm", "void at::native::layer_norm_kernel<float>(int, float)", 9.0),
    ("aten::scaled_dot_product_attention", "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64>>", 65.0),
)
COMMUNICATION = ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", 80.0)
COPY = ("aten::copy_", "Memcpy HtoD (Pinned -> Device)", 18.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slower:
    """Kernels of one kind last `factor` times as long from one part of the trace to another."""

    kernel: str = KERNELS[2][1]
    factor: float = 3.0
    begin: float = 0.55
    end: float = 0.62


def write_trace(path: Path, events: int, seed: int = 0, slower: Slower | None = None) -> tuple[float, float] | None:
    """Write about `events` events; the slower interval in seconds after the first event, when there is one."""
    with path.open("w", encoding="utf-8") as file:
        return _write(file, events, random.Random(seed), slower)


def _write(file: TextIO, events: int, rng: random.Random, slower: Slower | None) -> tuple[float, float] | None:
    operations = events // EVENTS_PER_OPERATION
    host_us, device_us, planted = 1_000_000.0, 1_000_020.0, [0.0, 0.0]
    file.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "generated"}],\n')
    file.write('  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},\n  "traceEvents": [\n')
    file.write(_metadata())
    step_began_us = host_us
    for number in range(operations):
        name, kernel, mean_us, stream = _pick(number)
        inside = slower is not None and slower.begin <= number / operations < slower.end
        length_us = mean_us * rng.uniform(0.97, 1.03)
        if slower is not None and inside and kernel == slower.kernel:
            length_us *= slower.factor
        launch_us = host_us + 3.0
        begin_us = max(device_us + 1.2, launch_us + 4.0)
        file.writelines(_operation(number, name, kernel, host_us, launch_us, begin_us, length_us, stream))
        if inside:
            planted = [planted[0] or begin_us, begin_us + length_us]
        device_us = begin_us + (length_us if stream == 7 else 2.0)
        host_us = max(host_us + rng.uniform(11.0, 13.0), device_us - 300.0)
        if number % OPERATIONS_PER_STEP == OPERATIONS_PER_STEP - 1:
            host_us += 400.0  # the host prepares the next step and the device runs dry
            file.write(_step(number // OPERATIONS_PER_STEP, step_began_us, host_us))
            step_began_us = host_us
    file.write('  {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1}\n  ],\n')
    file.write('  "traceName": "generated", "displayTimeUnit": "ms"\n}\n')
    if slower is None:
        return None
    return (planted[0] - 1_000_000.0) / 1e6, (planted[1] - 1_000_000.0) / 1e6


def _pick(number: int) -> tuple[str, str, float, int]:
    if number % 40 == 39:
        return (*COMMUNICATION, 20)
    if number % 50 == 24:
        return (*COPY, 24)
    return (*KERNELS[number % len(KERNELS)], 7)


def _operation(
    number: int,
    name: str,
    kernel: str,
    host_us: float,
    launch_us: float,
    begin_us: float,
    length_us: float,
    stream: int,
) -> Iterator[str]:
    copy = stream == 24
    ids = f'"External id": {number + 1}, "correlation": {number + 1}'
    yield (
        f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 100, "tid": 100,\n'
        f'    "ts": {host_us:.3f}, "dur": 9.500,\n    "args": {{\n'
        f'      "External id": {number + 1},"Record function id": {number}, "Ev Idx": {number}\n    }}\n  }},\n'
    )
    call = "cudaMemcpyAsync" if copy else "cudaLaunchKernel"
    yield (
        f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "{call}", "pid": 100, "tid": 100,\n'
        f'    "ts": {launch_us:.3f}, "dur": 3.100,\n    "args": {{\n      {ids}, "cbid": 211\n    }}\n  }},\n'
    )
    for phase, at_us, lane in (("s", launch_us, 100), ("f", begin_us, stream)):
        yield (
            f'  {{\n    "ph": "{phase}", "id": {number + 1}, "pid": {100 if phase == "s" else 0}, "tid": {lane},'
            f' "ts": {at_us:.3f},\n    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }},\n'
        )
    category = "gpu_memcpy" if copy else "kernel"
    yield (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": "{kernel}", "pid": 0, "tid": {stream},\n'
        f'    "ts": {begin_us:.3f}, "dur": {length_us:.3f},\n    "args": {{\n      {ids}, "device": 0, "context": 1,'
        f' "stream": {stream}, "queued": 0, "registers per thread": 32, "grid": [64, 1, 1], "block": [128, 1, 1],'
        f' "bytes": 4096\n    }}\n  }},\n'
    )


def _step(number: int, begin_us: float, end_us: float) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", "pid": 100, "tid": 100,\n'
        f'    "ts": {begin_us:.3f}, "dur": {end_us - begin_us:.3f}, "args": {{}}\n  }},\n'
    )


def _metadata() -> str:
    rows = (("python", 100, "CPU"), ("python", 0, "GPU 0"))
    text = ""
    for name, pid, label in rows:
        text += (
            f'  {{"name": "process_name", "ph": "M", "ts": 0, "pid": {pid}, "tid": 0, "args": {{"name": "{name}"}}}},\n'
        )
        text += (
            f'  {{"name": "process_labels", "ph": "M", "ts": 0, "pid": {pid}, "tid": 0,'
            f' "args": {{"labels": "{label}"}}}},\n'
        )
    return text
