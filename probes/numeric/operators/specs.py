"""What goes in and out of each operator.

Covered: small sizes with ranges; the kinds of inputs that make sense.
Not covered: the sizes of any model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from probes.numeric.judge.spec import Kind, Result, Spec, Tensor
from probes.numeric.operators import functions as f

_Dimensions = tuple[int | str, ...]


def _spec(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Result, ...], *, history: str | None = None,
          sum_over: tuple[str, ...] = (), sizes: Mapping[str, int]) -> Spec:  # fmt: skip
    """Two sizes: the one named and about half of it."""
    half = {key: value if value < 5 else value // 2 + value // 2 % 2 for key, value in sizes.items()}
    held = {key: (2, value) for key, value in sizes.items() if value >= 5 and key in ("rows", "time")}
    return Spec(
        name=name, inputs=inputs, outputs=outputs, sizes=(dict(sizes), half), held_out=held, history=history,
        reduction=sum_over,
    )  # fmt: skip


def _in(name: str, *shape: int | str, kind: Kind = "normal", **more: Any) -> Tensor:
    return Tensor(name=name, shape=shape, kind=kind, **more)


def _out(name: str, *shape: int | str, **more: Any) -> Result:
    return Result(name=name, shape=shape, **more)


_TABLE: _Dimensions = ("rows", "columns")
_ROWS = {"rows": 6, "columns": 96}
_TIME = {"time": 64, "width": 8}
_X, _Y = _in("x", *_TABLE), _out("y", *_TABLE)


def _one(name: str, function: Callable[..., Any]) -> tuple[Spec, Callable[..., Any]]:
    return _spec(name, (_X,), (_Y,), sum_over=("columns",), sizes=_ROWS), function


OPERATORS: tuple[tuple[Spec, Callable[..., Any]], ...] = (
    _one("softmax", f.softmax),
    (_spec("logsumexp", (_X,), (_out("y", "rows"),), sizes=_ROWS), f.logsumexp),
    (_spec("layernorm", (_X, _in("weight", "columns"), _in("bias", "columns")), (_Y,), sizes=_ROWS), f.layernorm),
    (_spec("rmsnorm", (_X, _in("weight", "columns")), (_Y,), sizes=_ROWS), f.rmsnorm),
    (_spec("groupnorm", (_in("x", "rows", 8, "columns"),), (_out("y", "rows", 8, "columns"),),
           sizes=dict(rows=3, columns=24)),
     f.groupnorm),
    _one("gelu", f.gelu),
    _one("silu", f.silu),
    (_spec("swiglu", (_X, _in("gate", *_TABLE)), (_Y,), sizes=_ROWS), f.swiglu),
    _one("softplus", f.softplus),
    (_spec("rope", (_in("x", "time", 3, 16),), (_out("y", "time", 3, 16),), sizes=dict(time=48)), f.rope),
    (_spec("matmul", (_in("a", "m", "k"), _in("b", "k", "n")), (_out("c", "m", "n"),), sum_over=("k",),
           sizes=dict(m=9, k=80, n=12)), f.matmul),
    (_spec("attention", (_in("q", "rows", 16), _in("k", "keys", 16), _in("v", "keys", 16)), (_out("y", "rows", 16),),
           sizes=dict(rows=6, keys=40)), f.attention),
    (_spec("decode_attention", (_in("q", 3, 16), _in("k", "time", 3, 16), _in("v", "time", 3, 16)),
           (_out("y", 3, 16),), history="time", sizes=dict(time=64)), f.decode_attention),
    _one("cumsum", f.cumsum),
    (_spec("conv1d", (_in("x", "time", "width"), _in("weight", 4, "width")), (_out("y", "time", "width"),),
           sizes=_TIME), f.conv1d),
    (_spec("topk_gate", (_X,), (_out("weights", "rows", 2), _out("places", "rows", 2, dtype="int64")),
           sizes=dict(rows=12, columns=16)), f.topk_gate),
    (_spec("cross_entropy", (_X, _in("target", "rows", kind="index", dtype="int64", below="columns")),
           (_out("loss", "rows"),), sizes=dict(rows=12, columns=64)), f.cross_entropy),
    (_spec("embedding", (_in("table", 50, 8), _in("tokens", "rows", kind="index", dtype="int64", below=50)),
           (_out("y", "rows", 8),), sizes=dict(rows=12)), f.embedding),
    (_spec("linear_recurrence", (_in("x", "time", "width"), _in("gate", "time", "width", kind="gate")),
           (_out("y", "time", "width"),), history="time", sizes=_TIME), f.linear_recurrence),
    (_spec("delta_rule", (_in("q", "time", 8), _in("k", "time", 8), _in("v", "time", 8),
                          _in("gate", "time", kind="gate"), _in("beta", "time", kind="strength")),
           (_out("y", "time", 8), _out("state", 8, 8)), history="time", sizes=dict(time=40)), f.delta_rule),
    (_spec("ragged_sum", (_in("x", "time", "width"), _in("borders", 6, kind="lengths", dtype="int64", below="time")),
           (_out("y", 5, "width"),), sizes=_TIME), f.ragged_sum),
    (_spec("int8_rows", (_X,), (_out("q", *_TABLE, dtype="int8"), _out("scale", "rows")), sizes=_ROWS), f.int8_rows),
)  # fmt: skip
