"""Inside the stack's interpreter: makes bfloat16 right, and refuses the 8-bit floats that it would get wrong.

Triton's interpreter keeps bfloat16 as uint16 and then adds, multiplies and `tl.dot`s these integers; its float32 to
bfloat16 cast cuts instead of rounding. Here every operation on bfloat16 widens to float32 and rounds to nearest even.
Covered: arithmetic, comparison, unary functions, dot, casts. Not covered: 8-bit float arithmetic (refused by name);
a dot of 8-bit floats is the interpreter's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from probes.kernels.inside import Refused

_COMPARED = "create_fcmp"
_BINARY = (
    "fadd", "fmul", "fdiv", "frem", "fsub", "precise_divf", "minimumf", "minnumf", "maximumf", "maxnumf",
)  # fmt: skip
_UNARY = (
    "fabs", "cos", "exp", "exp2", "floor", "ceil", "log", "log2", "precise_sqrt", "sqrt", "sin", "erf", "rsqrt", "fneg",
)  # fmt: skip
_TERNARY = ("clampf", "fma")


def install(module: Any) -> None:
    """Patch the interpreter's builder once."""
    builder = module.InterpreterBuilder
    if getattr(builder, "widens_bf16", False):
        return
    names = [f"create_{name}" for name in (*_BINARY, *_UNARY, *_TERNARY)]
    names += [name for name in dir(builder) if name.startswith(_COMPARED)]
    for name in names:
        if hasattr(builder, name):
            setattr(builder, name, _widened(module, getattr(builder, name), keep=not name.startswith(_COMPARED)))
    builder.create_dot = _dot(module, builder.create_dot)
    builder.cast_impl = _cast(module, builder.cast_impl)
    builder.create_fp_to_fp = _fp_to_fp(module, builder.create_fp_to_fp)
    builder.widens_bf16 = True


def widen(module: Any, handle: Any) -> Any:
    """A bfloat16 handle as float32; any other as it is."""
    import numpy as np

    if not _is_bf16(module, handle):
        return handle
    data = (np.asarray(handle.data).astype(np.uint32) << 16).view(np.float32)
    return module.TensorHandle(data, module.tl.float32)


def to_bf16_bits(data: Any) -> Any:
    """Float32 to bfloat16 bits, to nearest even; NaN stays NaN."""
    import numpy as np

    wide = np.ascontiguousarray(data, dtype=np.float32)
    bits = wide.view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(wide), np.uint16(0x7FC0), rounded).reshape(np.shape(data))


def _widened(module: Any, operation: Callable[..., Any], *, keep: bool) -> Callable[..., Any]:
    def run(self: Any, *operands: Any, **named: Any) -> Any:
        handles = [one for one in operands if hasattr(one, "dtype")]
        _refuse_fp8(module, handles)
        if not any(_is_bf16(module, one) for one in handles):
            return operation(self, *operands, **named)
        found = operation(self, *[widen(module, one) if hasattr(one, "dtype") else one for one in operands], **named)
        if not keep:
            return found
        return module.TensorHandle(to_bf16_bits(found.data), module.tl.bfloat16)

    return run


def _dot(module: Any, operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, a: Any, b: Any, d: Any, *rest: Any, **named: Any) -> Any:
        bf16_sum = _is_bf16(module, d)
        found = operation(self, widen(module, a), widen(module, b), widen(module, d), *rest, **named)
        return module.TensorHandle(to_bf16_bits(found.data), module.tl.bfloat16) if bf16_sum else found

    return run


def _cast(module: Any, operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, src: Any, dst_type: Any) -> Any:
        if _is_bf16(module, src) and dst_type.scalar != module.tl.bfloat16:
            wide = widen(module, src)
            return wide if dst_type.scalar == module.tl.float32 else operation(self, wide, dst_type)
        if dst_type.scalar == module.tl.bfloat16 and src.dtype.scalar != module.tl.bfloat16:
            return module.TensorHandle(to_bf16_bits(src.data), dst_type.scalar)
        return operation(self, src, dst_type)

    return run


def _fp_to_fp(module: Any, operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, src: Any, dst_type: Any, rounding: Any = None) -> Any:
        if _is_bf16(module, src) or (dst_type.scalar == module.tl.bfloat16 and src.dtype.scalar == module.tl.float32):
            return self.cast_impl(src, dst_type)
        return operation(self, src, dst_type, rounding)

    return run


def _is_bf16(module: Any, handle: Any) -> bool:
    return bool(getattr(getattr(handle, "dtype", None), "scalar", None) == module.tl.bfloat16)


def _refuse_fp8(module: Any, handles: list[Any]) -> None:
    for handle in handles:
        scalar = getattr(handle.dtype, "scalar", None)
        if str(scalar).startswith("fp8"):
            raise Refused(
                "unsupported-dtype", f"the interpreter cannot compute in {scalar}",
                hint="convert to float16 or float32 in the kernel, or test the kernel with those types",
            )  # fmt: skip
