"""Inside the stack's interpreter: which kernels a real call launches, and with what arguments. No device is needed.

The call runs under Triton's interpreter (`TRITON_INTERPRET=1`, set before triton is imported). An autotuner cannot
measure there, so it takes one configuration; which, and how many there were, is part of the record.
Covered: tensors, numbers, None, types, tuples; grid, warps, stages. Not covered: kernels launched by generated code
(torch.compile), tensor descriptors made on the host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from probes.kernels.inside import Refused, first_line, need_triton

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
ALIGNMENT_BYTES = 16
Seen = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]


def interpreter() -> Any:
    """Triton's interpreter module; refuses when interpretation is not switched on."""
    need_triton()
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise Refused("no-interpreter", "TRITON_INTERPRET=1 must be set before the kernel's module is imported")
    from triton.runtime import interpreter as module

    return module


@contextmanager
def recording(config: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Every launch inside the block is run by the interpreter and appended to the list."""
    module = interpreter()
    launches: list[dict[str, Any]] = []
    autotuned: dict[str, str] = {}
    original = module.GridExecutor.__call__

    def call(executor: Any, *args: Any, **kwargs: Any) -> Any:
        launches.append(describe(executor, args, kwargs, autotuned))
        return original(executor, *args, **kwargs)

    module.GridExecutor.__call__ = call
    try:
        with chosen_config(config, autotuned):
            yield launches
    finally:
        module.GridExecutor.__call__ = original


@contextmanager
def chosen_config(index: int, notes: dict[str, str]) -> Iterator[None]:
    """Autotuners take the configuration of this index (after pruning) instead of timing all of them."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.run

    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        configs = tuner.prune_configs(kwargs)
        if index >= len(configs):
            raise Refused(
                "no-config", f"{tuner.base_fn.__name__} has {len(configs)} configurations; there is no number {index}",
                hint="count from 0",
            )  # fmt: skip
        config = configs[index]
        notes[tuner.base_fn.__name__] = (
            f"autotune: configuration {index} of {len(configs)} ({config}); no device to time"
        )
        if config.pre_hook is not None:
            config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
        return tuner.fn.run(*args, **kwargs, **config.all_kwargs())

    Autotuner.run = run
    try:
        yield
    finally:
        Autotuner.run = original


def describe(executor: Any, args: tuple[Any, ...], kwargs: dict[str, Any], notes: dict[str, str]) -> dict[str, Any]:
    """One launch as plain data: kernel, arguments, grid, options, what the autotuner would have chosen between."""
    import inspect

    function = executor.fn
    known = inspect.getfullargspec(function).args
    bound = inspect.getcallargs(function, *args, **{name: v for name, v in kwargs.items() if name in known})
    meta = {name: getattr(value, "value", value) for name, value in bound.items()}
    grid = executor.grid(meta) if callable(executor.grid) else executor.grid
    name = function.__name__
    return {
        "kernel": f"{function.__globals__.get('__name__', '')}:{name}",
        "arguments": {key: argument(value) for key, value in bound.items()},
        "grid": [int(extent) for extent in grid],
        "options": {key: kwargs[key] for key in OPTIONS if kwargs.get(key) is not None},
        "notes": [notes[name]] if name in notes else [],
    }


def argument(value: Any) -> dict[str, Any]:
    """One argument as plain data, enough to specialise the kernel as a real launch would."""
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        dtype = str(value.dtype).rsplit(".", 1)[-1]
        return {"kind": "tensor", "dtype": dtype, "aligned": value.data_ptr() % ALIGNMENT_BYTES == 0}
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if value is None or isinstance(value, bool | int | float | str):
        return {"kind": "value", "value": value}
    if type(value).__name__ == "dtype":
        return {"kind": "dtype", "name": value.name}
    if isinstance(value, tuple | list):
        return {"kind": "tuple", "items": [argument(item) for item in value]}
    function = getattr(value, "fn", value)
    if callable(function) and hasattr(function, "__module__"):
        return {"kind": "function", "reference": f"{function.__module__}:{function.__name__}"}
    raise Refused("not-traceable", f"an argument of type {type(value).__name__} cannot be described")


def run_call(function: Any) -> None:
    """Call the user's function without arguments; what it raises becomes a refusal that names the cause."""
    try:
        function()
    except Refused:
        raise
    except Exception as error:
        raise translated(error) from error


def translated(error: BaseException) -> Refused:
    """An exception of a traced call in words: a device is asked for, the interpreter lacks something, or a bug."""
    import traceback

    text = f"{type(error).__name__}: {first_line(error)}"
    whole = "".join(traceback.format_exception(error))
    lines = whole.splitlines()[-6:]
    if "0 active drivers" in whole or "CUDA" in text or "cuda" in text:
        return Refused(
            "needs-device", f"the call asks for a graphics card: {text}", lines=lines,
            hint="make the call with CPU tensors; the interpreter runs the kernels",
        )  # fmt: skip
    if "inline_asm" in whole or "extern_elementwise" in whole or "NotImplementedError" in whole:
        return Refused(
            "not-interpretable", f"the kernel uses what the interpreter does not have: {text}", lines=lines,
            hint="the static probe can still compile it: give --set values instead of --call",
        )  # fmt: skip
    return Refused("call-failed", f"the call failed: {text}", lines=lines)
