"""bfloat16 in Triton's interpreter: conversions to nearest even, and arithmetic on numbers instead of on their bits.

Covered: conversions from and to float32 and other types; unary, binary and ternary operations and comparisons.
Not covered: operations that never see numbers (loads, stores, reshapes, bit operations on integers): they need nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from probes.numeric.triton.formats import from_bf16, to_bf16


def bfloat16_patches(interpreter: Any) -> dict[tuple[Any, str], Callable[..., Any]]:
    """(owner, attribute) → replacement, for a module that is Triton's interpreter."""
    builder = interpreter.InterpreterBuilder
    names = ("unary_op", "binary_op", "ternary_op", "create_fma")
    found: dict[tuple[Any, str], Callable[..., Any]] = {
        (builder, name): _on_numbers(getattr(builder, name), interpreter) for name in names
    }
    found[builder, "cast_impl"] = _cast(builder.cast_impl, interpreter)
    found[builder, "create_fp_to_fp"] = _convert(builder.create_fp_to_fp, interpreter)
    found[builder, "get_bf16"] = _constant(interpreter)
    return found


def _constant(interpreter: Any) -> Callable[..., Any]:
    """A number in a kernel's source that meets a bfloat16: stock has no such constant and fails."""

    def get_bf16(self: Any, value: float) -> Any:
        return interpreter.TensorHandle(to_bf16(np.array([value], dtype=np.float32)), interpreter.tl.bfloat16)

    return get_bf16


def _is_bf16(value: Any, interpreter: Any) -> bool:
    return isinstance(value, interpreter.TensorHandle) and value.dtype.scalar == interpreter.tl.bfloat16


def _widen(value: Any, interpreter: Any) -> Any:
    """The same numbers as float32; anything else as it is (results of comparisons carry their operands' type)."""
    if not _is_bf16(value, interpreter) or value.data.dtype != np.uint16:
        return value
    return interpreter.TensorHandle(from_bf16(value.data), interpreter.tl.float32)


def _narrow(value: Any, interpreter: Any) -> Any:
    """A float32 result as bfloat16; truth values keep their data and get the type that the stock operation gives."""
    data = to_bf16(value.data) if value.data.dtype == np.float32 else value.data
    return interpreter.TensorHandle(data, interpreter.tl.bfloat16)


def _on_numbers(stock: Callable[..., Any], interpreter: Any) -> Callable[..., Any]:
    def operation(self: Any, *operands: Any) -> Any:
        if not any(_is_bf16(value, interpreter) for value in operands):
            return stock(self, *operands)
        return _narrow(stock(self, *(_widen(value, interpreter) for value in operands)), interpreter)

    return operation


def _cast(stock: Callable[..., Any], interpreter: Any) -> Callable[..., Any]:
    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        scalar, bfloat16 = dst_type.scalar, interpreter.tl.bfloat16
        if src.dtype.scalar == bfloat16:
            return src if scalar == bfloat16 else stock(self, _widen(src, interpreter), dst_type)
        if scalar == bfloat16:
            return interpreter.TensorHandle(to_bf16(src.data), scalar)
        return stock(self, src, dst_type)

    return cast_impl


def _convert(stock: Callable[..., Any], interpreter: Any) -> Callable[..., Any]:
    """A conversion with a rounding mode: only "towards zero" is left to the stock code."""

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        towards_zero = rounding_mode is not None and getattr(rounding_mode, "name", "") == "RTZ"
        plain = {interpreter.tl.bfloat16, interpreter.tl.float16, interpreter.tl.float32, interpreter.tl.float64}
        involved = {src.dtype.scalar, dst_type.scalar}
        if interpreter.tl.bfloat16 not in involved or towards_zero or not involved <= plain:
            return stock(self, src, dst_type, rounding_mode)
        return self.cast_impl(src, dst_type)

    return create_fp_to_fp
