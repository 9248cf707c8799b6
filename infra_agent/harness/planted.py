"""What the self-test puts outside the sandbox to be found: files, sockets, a process, a memory segment, a key.

Covered: everything is taken away again, also after an error; what only the harness can see is told afterwards
(`arrived`): a datagram, a signal, a written file, a daemon that outlived its sandbox.
Not covered: machines that refuse a segment or a key; what is not planted is not looked for.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from infra_agent.harness.escapes import gpus
from infra_agent.harness.escapes.attempt import system_call
from infra_agent.harness.escapes.kernel import KEYCTL
from infra_agent.harness.mounts import gpu_nodes, home_directory

_GONE_TIMEOUT_S = 3.0
_KILL_S = 5.0
_GPU_TIMEOUT_S = 60.0
_PATH = "/usr/local/bin:/usr/bin:/bin"
_SLEEP = "import time; time.sleep(600)"
_SPACES = ("net", "pid", "ipc", "uts", "mnt", "user")
_ADD_KEY = {"x86_64": 248, "aarch64": 217, "riscv64": 217}
_KEYCTL_UNLINK, _SESSION_KEYRING = 9, -3
_IPC_CREAT, _IPC_RMID = 0o1000, 0
_PLACES = {"beside": (), "system": ("/", "/usr", "/usr/bin", "/etc", "/dev"), "links": ("/var/tmp",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bait:
    """`facts` is what the attempts are told. `arrived` says what they reached that only the harness can see."""

    facts: Mapping[str, Any]
    victim: subprocess.Popen[bytes]
    datagrams: socket.socket

    def arrived(self) -> dict[str, str]:
        """By name of the attempt; to be asked once the sandbox has ended."""
        written = {place: [p for p in paths if Path(p).exists()] for place, paths in self.facts["outside"].items()}
        found = {
            "nothing written beside it": ", ".join(written["beside"]),
            "system read-only": ", ".join(written["system"]),
            "links lead nowhere": ", ".join(written["links"]),
            "own shared memory": ", ".join(written["shared memory"]),
            "no UDP to the host": "the datagram arrived" if _has_datagram(self.datagrams) else "",
            "no signals out": "the signal arrived" if self.victim.poll() is not None else "",
            "nothing outlives it": "" if _gone(self.facts["daemon"]) else "the daemon was still there",
        }
        return {name: seen for name, seen in found.items() if seen}


@contextmanager
def planted(folder: Path, file_bytes: int, own_user_space: bool) -> Iterator[Bait]:
    """Plant everything. `folder` is a directory in /tmp outside the scratch; `file_bytes` the largest file inside."""
    token = secrets.token_hex(16)
    with ExitStack() as cleanup:
        files = _files(cleanup, folder, token)
        sockets, datagrams = _sockets(cleanup, token)
        victim = cleanup.enter_context(_victim(f"{token}-victim", token))
        key_name = f"infra-agent-{secrets.token_hex(8)}"
        facts = {
            "token": token,
            "inherited": secrets.token_hex(16),
            "daemon": f"{token}-daemon",
            **files,
            **sockets,
            "victim": victim.pid,
            "victim_mark": f"{token}-victim",
            "victim_address": _first_address(victim.pid),
            "segment_key": cleanup.enter_context(_segment()),
            "key": cleanup.enter_context(_key(key_name, token)),
            "key_name": key_name,
            "spaces": {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in _SPACES},
            "own_user_space": own_user_space,
            "nameservers": _nameservers(),
            "root_device": Path("/").stat().st_dev,
            "file_bytes": file_bytes,
            "gpu_nodes": [str(node) for node in gpu_nodes()],
            "gpu_counts": _gpu_counts(),
        }
        yield Bait(facts=facts, victim=victim, datagrams=datagrams)


def _files(cleanup: ExitStack, folder: Path, token: str) -> dict[str, Any]:
    """Secrets to be read, and names of files that must not come to be."""
    home = home_directory()
    places = {"tmp": folder, "elsewhere": Path("/var/tmp"), "shared memory": Path("/dev/shm")}
    places["home"] = folder if home is None else home
    found = {}
    for name, place in places.items():
        descriptor, path = tempfile.mkstemp(prefix=".infra-agent-", dir=place if os.access(place, os.W_OK) else folder)
        cleanup.callback(Path(path).unlink, missing_ok=True)
        with os.fdopen(descriptor, "w") as file:
            file.write(token)
        found[name] = path
    outside = {name: [f"{place.rstrip('/')}/.{token}-{name}" for place in places] for name, places in _PLACES.items()}
    outside["beside"] = [f"{folder}/{token}", f"/var/tmp/.{token}"]
    outside["shared memory"] = [f"/dev/shm/{token}"]
    for path in (path for paths in outside.values() for path in paths):
        cleanup.callback(_remove, Path(path))
    return {"secrets": found, "outside": outside}


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _sockets(cleanup: ExitStack, token: str) -> tuple[dict[str, Any], socket.socket]:
    tcp = cleanup.enter_context(socket.create_server(("127.0.0.1", 0)))
    udp = cleanup.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    udp.setblocking(False)
    abstract = cleanup.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    abstract.bind(f"\0infra-agent-{token}")
    abstract.listen()
    service = cleanup.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    path = Path("/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir(), f".{token}.sock")
    service.bind(str(path))
    cleanup.callback(path.unlink, missing_ok=True)
    service.listen()
    facts = {
        "tcp_port": tcp.getsockname()[1],
        "udp_port": udp.getsockname()[1],
        "abstract": f"infra-agent-{token}",
        "socket_path": str(path),
    }
    return facts, udp


@contextmanager
def _victim(mark: str, token: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the machine that has a secret in its environment and dies of any signal."""
    victim = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _SLEEP, mark],
        env={"PATH": os.defpath, "SECRET": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield victim
    finally:
        victim.kill()
        victim.wait(_KILL_S)


def _first_address(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/maps").read_text().partition("-")[0], 16)
    return 0


@contextmanager
def _segment() -> Iterator[int | None]:
    """A System V shared memory segment; None where none can be made."""
    library, key = ctypes.CDLL(None), secrets.randbelow(2**31 - 1) + 1
    segment = library.shmget(key, 4096, _IPC_CREAT | 0o600)
    try:
        yield key if segment >= 0 else None
    finally:
        if segment >= 0:
            library.shmctl(segment, _IPC_RMID, None)


@contextmanager
def _key(name: str, content: str) -> Iterator[int | None]:
    """A key in this session's keyring; None where the kernel gives none."""
    data = content.encode()
    try:
        key = system_call(_ADD_KEY, b"user", name.encode(), data, len(data), _SESSION_KEYRING)
    except OSError:
        yield None
        return
    try:
        yield key
    finally:
        with contextlib.suppress(OSError):
            system_call(KEYCTL, _KEYCTL_UNLINK, key, _SESSION_KEYRING)


def _nameservers() -> list[str]:
    try:
        lines = Path("/etc/resolv.conf").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = [line.split()[1] for line in lines if line.startswith("nameserver ") and len(line.split()) > 1]
    return [server.partition("%")[0] for server in named][:3] + ["192.0.2.53"]


def _gpu_counts() -> dict[str, int | str]:
    """What programs see outside, asked of a process of its own: CUDA cannot be shut down again in this one."""
    if not gpu_nodes():
        return {}
    root = str(Path(__file__).parents[2])
    module = repr(gpus.__name__)
    program = f"import runpy, sys; sys.path[:0] = [{root!r}]; runpy.run_module({module}, run_name='__main__')"
    argv = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(argv, env={"PATH": _PATH}, capture_output=True, check=False, timeout=_GPU_TIMEOUT_S)
    found: dict[str, int | str] = json.loads(done.stdout) if done.returncode == 0 else {"count": "failed outside"}
    return found


def _has_datagram(udp: socket.socket) -> bool:
    try:
        return bool(udp.recv(64))
    except OSError:
        return False


def _gone(mark: str) -> bool:
    """Whether no process carries the mark any more; one that stays is killed."""
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while True:
        left = [process for process in psutil.process_iter(["cmdline"]) if mark in (process.info["cmdline"] or [])]
        if not left:
            return True
        if time.monotonic() > deadline:
            for process in left:
                process.kill()
            return False
        time.sleep(0.02)
