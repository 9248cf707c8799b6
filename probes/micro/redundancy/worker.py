"""Worker: runs a call under the interpreter with everything counted. See `probes.kernels.process`.

Request: call, kernel ("" for all), paths, config, most_programs. Answer: launches[{kernel, grid, constants, ...}].
"""

from __future__ import annotations

import time
from typing import Any

from probes.kernels import bf16
from probes.kernels.inside import Refused, find, need_triton, serve
from probes.kernels.launches import argument, chosen_config, interpreter, run_call
from probes.micro.redundancy import tracker as tracking
from probes.micro.redundancy.summary import summarise
from probes.micro.redundancy.tracker import Tracker

MOST_PROGRAMS = 4096


class Watch:
    """Hangs a tracker on every launch of the kernels that are asked for."""

    def __init__(self, module: Any, kernel: str, most_programs: int) -> None:
        self.module = module
        self.kernel = kernel
        self.most_programs = most_programs
        self.current: Tracker | None = None
        self.launches: list[dict[str, Any]] = []
        self._operands: dict[int, str] = {}

    def install(self) -> None:
        """Patch launch, program start and argument conversion."""
        module, executor = self.module, self.module.GridExecutor
        tracking.install(module, lambda: self.current)
        call, begin, convert = executor.__call__, module.InterpreterBuilder.set_grid_idx, module._implicit_cvt
        prepare = executor._init_args_hst

        def set_grid_idx(builder: Any, x: int, y: int, z: int) -> None:
            begin(builder, x, y, z)
            if self.current is not None:
                self.current.begin((x, y, z))

        def implicit(value: Any) -> Any:
            found = convert(value)
            if hasattr(value, "data_ptr") and hasattr(found, "handle"):
                found.handle._base = value.data_ptr()
            return found

        def init_args(self_: Any, args: Any, kwargs: Any) -> Any:
            found = prepare(self_, args, kwargs)
            if self.current is not None:
                self._name_operands(self_.arg_names, *found)
            return found

        module.InterpreterBuilder.set_grid_idx = set_grid_idx
        module._implicit_cvt = implicit
        executor._init_args_hst = init_args
        executor.__call__ = lambda self_, *args, **kwargs: self._launch(call, self_, args, kwargs)

    def _launch(self, call: Any, executor: Any, args: Any, kwargs: Any) -> Any:
        name = f"{executor.fn.__globals__.get('__name__', '')}:{executor.fn.__name__}"
        if self.kernel and name != self.kernel and not name.endswith(f":{self.kernel}"):
            return call(executor, *args, **kwargs)
        self._operands = {}
        self.current = tracker = Tracker(executor.fn.__code__, {})
        grid = self._grid(executor, args, kwargs)
        start = time.perf_counter()
        try:
            found = call(executor, *args, **kwargs)
        finally:
            self.current = None
        bound = dict(zip(executor.arg_names, args, strict=False)) | kwargs
        constants = {key: argument(value) for key, value in bound.items() if not hasattr(value, "data_ptr")}
        self.launches.append({
            "kernel": name, "grid": grid, "file": executor.fn.__code__.co_filename,
            "wall_s": time.perf_counter() - start,
            "constants": {key: value["value"] for key, value in constants.items() if value["kind"] == "value"},
            **summarise(tracker, self._operands, executor.fn),
        })  # fmt: skip
        return found

    def _grid(self, executor: Any, args: Any, kwargs: Any) -> list[int]:
        grid = executor.grid
        if callable(grid):
            grid = grid(dict(zip(executor.arg_names, args, strict=False)) | kwargs)
        extents = [int(extent) for extent in grid]
        programs = 1
        for extent in extents:
            programs *= extent
        if programs > self.most_programs:
            raise Refused(
                "too-large", f"{executor.fn.__name__} has {programs} programs; at most {self.most_programs} count",
                hint="make the call smaller: redundancy does not depend on the number of blocks",
            )  # fmt: skip
        return extents

    def _name_operands(self, names: list[str], args: Any, kwargs: Any) -> None:
        assert self.current is not None
        for name, value in (dict(zip(names, args, strict=False)) | kwargs).items():
            if not hasattr(value, "data_ptr") or not value.numel():
                continue
            base = value.data_ptr()
            extent = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
            end = base + extent * value.element_size()
            self.current.ranges[base] = max(end, self.current.ranges.get(base, 0))
            self._operands[base] = f"{self._operands[base]}={name}" if base in self._operands else name


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Run the call; every tracked launch is one entry of the answer."""
    module = interpreter()
    bf16.install(module)
    watch = Watch(module, request.get("kernel", ""), int(request.get("most_programs", MOST_PROGRAMS)))
    function = find(str(request["call"]))
    watch.install()
    with chosen_config(int(request.get("config", 0)), {}):
        run_call(function)
    if not watch.launches:
        raise Refused("not-traceable", f"{request['call']} launched no kernel {request.get('kernel', '')}".rstrip())
    return {"launches": watch.launches, "triton": need_triton().__version__}


if __name__ == "__main__":
    serve(work)
