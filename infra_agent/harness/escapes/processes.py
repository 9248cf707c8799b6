"""Attempts on other processes, on what this one inherited, and on living longer than allowed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from infra_agent.harness.escapes.attempt import Attempt, Planted, call, in_child

_PTRACE_SEIZE = 0x4206
_SPACES = ("pid", "ipc", "uts", "mnt")
_SLEEP = "import time; time.sleep(60)"


def _spaces(planted: Planted) -> str | None:
    names = [*_SPACES, *(["user"] if planted["own_user_space"] else [])]
    shared = [name for name in names if os.readlink(f"/proc/self/ns/{name}") == planted["spaces"][name]]  # noqa: PTH115
    return f"shared with the machine: {', '.join(shared)}" if shared else None


def _in_proc(name: str, text: str) -> str | None:
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123
                if pid != str(os.getpid()) and text.encode() in file.read():
                    return f"/proc/{pid}/{name} shows it"
        except OSError:
            continue
    return None


def _other_processes(planted: Planted) -> str | None:
    return _in_proc("cmdline", planted["victim_mark"])


def _other_environments(planted: Planted) -> str | None:
    return _in_proc("environ", planted["token"])


def _signal(planted: Planted) -> str | None:
    """Whether it arrived is seen outside: a process of the sandbox may have the same number."""
    os.kill(planted["victim"], signal.SIGUSR1)
    return None


def _trace(planted: Planted) -> str | None:
    """In a child: its end lets the traced process go again."""

    def seize() -> str:
        call("ptrace", ctypes.c_long(_PTRACE_SEIZE), ctypes.c_long(planted["victim"]), None, None)
        return "a process of the machine could be traced"

    return in_child(seize)


def _memory(planted: Planted) -> str | None:
    class _Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    buffer = ctypes.create_string_buffer(16)
    here = _Vector(ctypes.cast(buffer, ctypes.c_void_p), 16)
    there = _Vector(planted["victim_address"], 16)
    call("process_vm_readv", planted["victim"], ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return "memory of a process of the machine could be read"


def _shared_segment(planted: Planted) -> str | None:
    if planted["segment_key"] is None:
        return None
    call("shmget", planted["segment_key"], 0, 0)
    return "a shared memory segment of the harness was found"


def _descriptors(_: Planted) -> str | None:
    names = set(os.listdir("/proc/self/fd")) - {"0", "1", "2"}  # noqa: PTH208
    kept = [f"{name} → {os.readlink(f'/proc/self/fd/{name}')}" for name in names if _is_open(int(name))]  # noqa: PTH115
    return f"inherited: {', '.join(kept)}" if kept else None


def _is_open(descriptor: int) -> bool:
    """The listing itself had one open, which is closed again."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _environment(planted: Planted) -> str | None:
    names = [name for name, value in os.environ.items() if planted["inherited"] in value]
    return f"{', '.join(names)} is set" if names else None


def _daemon(planted: Planted) -> str | None:
    """A child in a session of its own that outlives its parent. Whether it outlives the sandbox is seen outside."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):
                os.dup2(null, standard)
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", _SLEEP, planted["daemon"]])
        os._exit(0)
    os.wait()
    return None


def _large_file(planted: Planted) -> str | None:
    with open("large", "wb") as file:  # noqa: PTH123
        os.truncate(file.fileno(), planted["file_bytes"] + 1)
    return f"a file of more than {planted['file_bytes']} bytes could be made"


ATTEMPTS = (
    Attempt("own process, IPC, host-name and mount spaces", "compare the namespaces with the machine's", _spaces),
    Attempt("other processes hidden", "look for a process of the harness", _other_processes),
    Attempt("other environments hidden", "read /proc/*/environ", _other_environments),
    Attempt("no tracing out", "attach to a process of the harness (ptrace)", _trace),
    Attempt("no memory read out", "read memory of a process of the harness (process_vm_readv)", _memory),
    Attempt("no signals out", "send a signal to a process of the harness", _signal),
    Attempt("no shared segments", "open a System V segment of the harness", _shared_segment),
    Attempt("no inherited descriptors", "list /proc/self/fd", _descriptors),
    Attempt("no inherited secrets", "look through the environment for a secret of the harness", _environment),
    Attempt("nothing outlives it", "leave a daemon behind", _daemon),
    Attempt("file size bounded", "make a file above the limit", _large_file),
)  # fmt: skip
