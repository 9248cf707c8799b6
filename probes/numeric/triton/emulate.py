"""Triton's interpreter with the arithmetic of a matrix unit, and a log of every dot.

The interpreter of Triton 3.7 multiplies in float32 whatever `input_precision` says, and takes the 16 bits of a bfloat16
for an integer. Inside `emulated(policy)` it does neither, for every kernel of the process.

Covered: `tl.dot` of all types; bfloat16 in conversions (to nearest even), arithmetic and comparisons; autotuned kernels
(the first configuration that they allow, nothing is timed); loop variables; kernels that call device functions.
Not covered: `tl.dot_scaled`; reductions and scans over bfloat16 other than those that Triton widens; several threads at
once (the interpreter's state is global).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from typing import Any
from unittest import mock

import numpy as np

from probes.numeric.triton.arithmetic import dot
from probes.numeric.triton.bfloat16 import bfloat16_patches
from probes.numeric.triton.devices import Device, standing_in
from probes.numeric.triton.formats import from_bf16
from probes.numeric.triton.loops import with_loop_scalars
from probes.numeric.triton.memory import LaunchMemory
from probes.numeric.triton.policy import Policy
from probes.numeric.triton.sites import Dot, DotLog, calling

PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
"""Every `input_precision` that some backend of Triton takes."""


@contextmanager
def emulated(policy: Policy, device: Device | None = None, memory: LaunchMemory | None = None) -> Iterator[DotLog]:
    """All kernels launched inside use this policy; the log fills as they run.

    `device`: only precisions that its compiler takes are accepted, a dot that asks for nothing gets the device's
    default, and a kernel that asks for the current target sees it.
    `memory`: launches that it knows are not computed again.
    Raises RuntimeError when the kernels are compiled instead of interpreted (TRITON_INTERPRET=1 must be set before
    Triton is imported).
    """
    from triton import knobs
    from triton.runtime import autotuner, interpreter

    if not knobs.runtime.interpret:
        raise RuntimeError("set TRITON_INTERPRET=1 before the kernels are imported")
    emulation = _Emulation(policy, device, memory)
    builder, interpreted = interpreter.InterpreterBuilder, interpreter.InterpretedFunction
    patches = {
        (interpreter.interpreter_builder, "options"): _options(interpreter, device),
        (builder, "create_dot"): emulation.product(builder.create_dot),
        (interpreted, "run"): emulation.launch(interpreted.run),
        (interpreted, "rewrite"): lambda kernel: _rewritten(kernel.rewriter),
        (interpreter.FunctionRewriter, "ast_transformer"): with_loop_scalars(interpreter.ASTTransformer),
        (autotuner.Autotuner, "run"): _first_configuration,
        **bfloat16_patches(interpreter),
    }
    with ExitStack() as stack:
        for (owner, name), replacement in patches.items():
            stack.enter_context(mock.patch.object(owner, name, replacement, create=name == "get_bf16"))
        yield emulation.log


def _options(interpreter: Any, device: Device | None) -> Any:
    allowed = PRECISIONS if device is None else device.precisions()
    default = "tf32" if "tf32" in allowed else "ieee"
    return interpreter.InterpreterOptions(allowed_dot_input_precisions=allowed, default_dot_input_precision=default)


class _Emulation:
    """What the replaced functions share: the policy, the log, and the kernel that runs."""

    def __init__(self, policy: Policy, device: Device | None, memory: LaunchMemory | None) -> None:
        self.policy, self.device, self.memory, self.log = policy, device, memory, DotLog()
        self._kernel = "?"
        self._dots: Counter[Dot] = Counter()

    def launch(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        """A kernel's launch: named in the log, and remembered if there is a memory."""

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
            def compute() -> Counter[Dot]:
                self._kernel, self._dots = kernel.fn.__name__, Counter()
                with nullcontext() if self.device is None else standing_in(self.device):
                    stock(kernel, *args, grid=grid, warmup=warmup, **kwargs)
                return self._dots

            if self.memory is None or warmup:
                self.log.counts += compute()
                return
            arguments = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
            size = grid(arguments) if callable(grid) else grid
            self.log.counts += self.memory.launch(kernel.fn, {**arguments, "grid": size}, self.policy, compute)

        return run

    def product(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        """The product of two blocks, after which the log has one dot more."""

        def create_dot(builder: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
            call, precision = calling(), input_precision.name.lower()
            both = (a.dtype.scalar, b.dtype.scalar)
            is_float32 = all(dtype.is_fp32() for dtype in both)
            arithmetic = self.policy.arithmetic(precision, call.site) if is_float32 else None
            dot_done = Dot(
                site=call.site, function=call.function, kernel=self._kernel, dtype=str(both[0]), asked=call.asked,
                precision=precision, arithmetic=str(arithmetic or "exact"), shape=(*a.data.shape, b.data.shape[-1]),
            )  # fmt: skip
            self._dots[dot_done] += 1
            if arithmetic is not None:
                summed = dot(a.data, b.data, d.data.astype(np.float32, copy=False), arithmetic)
                return type(a)(summed.astype(d.data.dtype, copy=False), d.dtype.scalar)
            if all(dtype.is_bf16() for dtype in both):
                widened = np.matmul(from_bf16(a.data), from_bf16(b.data))
                return type(a)((widened + d.data).astype(d.data.dtype), d.dtype.scalar)
            return stock(builder, a, b, d, input_precision, max_num_imprecise_acc)

        return create_dot


@lru_cache(maxsize=256)
def _rewritten(rewriter: Any) -> Any:
    """A kernel's source, rewritten once for all runs: reading and compiling it takes longer than a small launch."""
    return rewriter.rewrite_ast()


def _first_configuration(self: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of timing all configurations, which needs a device."""
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    config = self.prune_configs(kwargs)[0]
    if config.pre_hook is not None:
        config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
    try:
        return self.fn.run(*args, **kwargs, **config.all_kwargs())
    finally:
        self.nargs = None
