"""Worker: runs the `work` function of a file that is not part of this package (a lab's or a stack's own check).

Request: file, request, paths. Answer: what its `work(request)` returns.
"""

from __future__ import annotations

from typing import Any

from probes.kernels.inside import Refused, load_module, serve


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Load the file and run it."""
    module = load_module(str(request["file"]))
    if not hasattr(module, "work"):
        raise Refused("no-worker", f"{request['file']} has no function work(request)")
    answer: dict[str, Any] = module.work(request["request"])
    return answer


if __name__ == "__main__":
    serve(work)
