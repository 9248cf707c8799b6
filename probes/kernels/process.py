"""Starts a kernel worker in the stack's interpreter and gets its one answer, or a typed reason why there is none.

    reply = ask(python, "probes.static.triton_compile.worker", request, timeout_s=60)

The worker is a module of this package run with `-I`: it sees the standard library, what the stack has installed, and
`probes` (nothing else of this side's environment). Request: JSON on standard input. Answer: one length-prefixed JSON
frame on a private descriptor; whatever a kernel's module prints goes elsewhere.
Covered: start, deadline, death, refusals of the worker, its last lines. Not covered: walls (the `start` seam's work).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import probes
from probes.base import Json
from probes.numeric import frames

PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "CUDA_HOME")
STOP_TIMEOUT_S = 5.0
LAST_LINES = 8
Start = Callable[[Sequence[str], Mapping[str, str], int, IO[bytes], IO[bytes]], "subprocess.Popen[bytes]"]
_BOOT = """\
import importlib.util, runpy, sys
root, module = sys.argv[1], sys.argv[2]
spec = importlib.util.spec_from_file_location("probes", root + "/__init__.py", submodule_search_locations=[root])
package = importlib.util.module_from_spec(spec)
sys.modules["probes"] = package
spec.loader.exec_module(package)
sys.argv = sys.argv[2:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


class KernelProbeError(Exception):
    """No answer about a kernel. `kind` is one word for programs; `hint` says what to do; `lines` is the evidence."""

    def __init__(self, kind: str, message: str, *, hint: str = "", lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.lines = tuple(lines)


def launched_name(kernel: str) -> str:
    """How a launch names the kernel that a caller calls FILE.py:NAME: by its name; MODULE:NAME stays as it is."""
    module, _, name = kernel.rpartition(":")
    return name if module.endswith(".py") else kernel


def folders(*references: str) -> list[str]:
    """Folders of files among MODULE:NAME and FILE.py:NAME, so that another worker finds what was loaded from them."""
    files = [Path(one.rpartition(":")[0] or one) for one in references]
    return [str(file.resolve().parent) for file in files if file.suffix == ".py"]


def start_process(
    argv: Sequence[str], env: Mapping[str, str], answer_fd: int, stdin: IO[bytes], output: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start argv in a session of its own that keeps `answer_fd` open."""
    return subprocess.Popen(
        list(argv), env=dict(env), stdin=stdin, stdout=output, stderr=output, pass_fds=(answer_fd,),
        start_new_session=True,
    )  # fmt: skip


def ask(
    python: str,
    module: str,
    request: Mapping[str, Json],
    *,
    timeout_s: float = 120.0,
    extra_env: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    start: Start = start_process,
) -> dict[str, Json]:
    """The worker's answer. Raises KernelProbeError: cannot start, died, too slow, or what the worker itself refused."""
    source = os.environ if environ is None else environ
    env = {name: source[name] for name in PASSED_ON if name in source} | dict(extra_env or {})
    read_fd, write_fd = os.pipe()
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as output:
        stdin.write(json.dumps(request).encode())
        stdin.seek(0)
        argv = [python, "-I", "-B", "-c", _BOOT, str(Path(probes.__file__).parent), module, str(write_fd)]
        try:
            process = start(argv, env, write_fd, stdin, output)
        except OSError as error:
            os.close(read_fd)
            raise KernelProbeError(
                "no-interpreter", f"the stack's interpreter {python!r} cannot be started: {error.strerror}",
                hint="name an interpreter that has triton: --python PATH",
            ) from error  # fmt: skip
        finally:
            os.close(write_fd)
        try:
            reply = frames.receive(read_fd, timeout_s=timeout_s)
        except frames.FrameError as error:
            raise _no_answer(process, output, timeout_s, str(error)) from error
        finally:
            os.close(read_fd)
            _end(process)
    return _answer(reply)


def _answer(reply: Json) -> dict[str, Json]:
    if not isinstance(reply, dict):
        raise KernelProbeError("no-answer", "the worker's answer is not an object")
    refusal = reply.get("refused")
    if isinstance(refusal, dict):
        raise KernelProbeError(
            str(refusal.get("kind", "refused")), str(refusal.get("message", "")), hint=str(refusal.get("hint", "")),
            lines=[str(line) for line in refusal.get("lines", ())],
        )  # fmt: skip
    return reply


def _no_answer(process: subprocess.Popen[bytes], output: IO[bytes], timeout_s: float, reason: str) -> KernelProbeError:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.2 if reason == "no reply in time" else STOP_TIMEOUT_S)
    code = process.poll()
    output.seek(0)
    lines = output.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
    if code is None:
        return KernelProbeError("timeout", f"the worker did not answer within {timeout_s:g} s", lines=lines)
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return KernelProbeError("died", f"the worker ended with {how} and no answer", lines=lines)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=STOP_TIMEOUT_S)
