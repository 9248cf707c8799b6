"""Worker: runs a call under the interpreter and answers with the launches it made. See `probes.kernels.process`."""

from __future__ import annotations

from typing import Any

from probes.kernels import bf16
from probes.kernels.inside import Refused, find, need_triton, serve
from probes.kernels.launches import interpreter, recording, run_call


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Request: call, config, paths. Answer: launches, triton."""
    bf16.install(interpreter())
    function = find(str(request["call"]))
    if not callable(function):
        raise Refused("not-traceable", f"{request['call']} is not a function", hint="a function without arguments")
    with recording(int(request.get("config", 0))) as launches:
        run_call(function)
    if not launches:
        raise Refused("not-traceable", f"{request['call']} launched no Triton kernel", hint="call the kernel in it")
    return {"launches": launches, "triton": need_triton().__version__}


if __name__ == "__main__":
    serve(work)
