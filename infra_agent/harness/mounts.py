"""What of this machine's files a sandbox sees at all: the operating system's own, devices, and nothing else.

Covered: merged and separate /usr, Nix, the loader's directories, certificates without their private keys, empty home
and temporary directories of bounded size, accelerators with what their drivers read.
Not covered: what a launch needs besides (`harness.visible`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TREES = ("/usr", "/nix/store", "/gnu/store")
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives", "ca-certificates", "crypto-policies", "debian_version", "fonts", "gai.conf", "group", "host.conf",
    "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "lsb-release",
    "magic", "mime.types", "nsswitch.conf", "os-release", "passwd", "protocols", "redhat-release", "rpc", "services",
    "static", "timezone", "xattr.conf",
    "pki/ca-trust/extracted", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf",
    "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
)  # fmt: skip
_ETC_OF_GPUS = ("OpenCL", "glvnd", "nvidia", "vulkan")
_SYS = ("/sys/devices/system", "/sys/kernel/mm")
_SYS_OF_GPUS = ("/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/module")
_OPT_OF_GPUS = ("amdgpu*", "hpcx*", "intel", "nvidia*", "rocm*")
_RUN_OF_GPUS = ("/run/opengl-driver", "/proc/driver/nvidia")
_DEVICES = ("nvidia*", "dri", "kfd", "dxg")
# The machine's own root stays root to the kernel inside a user namespace: without capabilities it may still write every
# setting that root owns, and bubblewrap covers /proc/sys only where the directory itself could be written.
_READ_ONLY_IN_PROC = ("acpi", "asound", "bus", "fs", "irq", "mtrr", "pressure", "scsi", "sys", "sysrq-trigger")
_HIDDEN_IN_PROC = ("kcore", "keys", "key-users", "kmsg", "latency_stats", "sched_debug", "timer_list", "timer_stats")
_SHARE_OF_MEMORY = {"/dev/shm": 0.5, "/tmp": 0.25, "home": 0.1}


def gpu_nodes() -> list[Path]:
    """Device nodes of accelerators on this machine."""
    return sorted(node for pattern in _DEVICES for node in Path("/dev").glob(pattern))


def home_directory() -> Path | None:
    """The user's home, as the kernel names it; None where there is none to hide."""
    try:
        home = Path.home().resolve()
    except (RuntimeError, OSError):
        return None
    return home if home.is_dir() and home != Path("/") else None


def system_paths() -> list[Path]:
    """Existing files and directories of the operating system that every sandbox sees, read-only."""
    found = [Path(path) for path in (*_TREES, *_MERGED, *_SYS)]
    found += [Path("/etc", name) for name in _ETC]
    if gpu_nodes():
        found += [Path(path) for path in (*_SYS_OF_GPUS, *_RUN_OF_GPUS)]
        found += [Path("/etc", name) for name in _ETC_OF_GPUS]
        found += [path for pattern in _OPT_OF_GPUS for path in Path("/opt").glob(pattern)]
    found += [path for path in loader_directories() if not any(path.is_relative_to(tree) for tree in _TREES)]
    existing = [path for path in found if path.exists()]
    return [path for path in existing if not any(parent in existing for parent in path.parents)]


def loader_directories(etc: Path = Path("/etc")) -> list[Path]:
    """Directories in which the dynamic loader is configured to look, those of drivers among them."""
    found = []
    for file in (etc / "ld.so.conf", *sorted(etc.glob("ld.so.conf.d/*.conf"))):
        try:
            lines = file.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        paths = [Path(line.strip()) for line in lines if line.strip().startswith("/")]
        found += [path for path in paths if len(path.parts) > 2 and path.is_dir()]
    return found


def system_arguments() -> list[str]:
    """Bubblewrap's words for the operating system, devices and empty directories."""
    words: list[str] = []
    for path in system_paths():
        if path.is_symlink() and str(path) in _MERGED:
            words += ["--symlink", str(path.readlink()), str(path)]
        elif not path.is_relative_to("/proc"):
            words += ["--ro-bind", str(path), str(path)]
    words += ["--proc", "/proc", *_proc_arguments(), "--dev", "/dev"]
    for node in gpu_nodes():
        words += ["--dev-bind", str(node), str(node)]
    words += _empty("/dev/shm", "/dev/shm", "1777") + ["--remount-ro", "/dev"]
    for path in (path for path in system_paths() if path.is_relative_to("/proc")):
        words += ["--ro-bind", str(path), str(path)]
    words += _empty("/tmp", "/tmp", "1777")
    home = home_directory()
    return words if home is None else words + _empty(str(home), "home", "0700")


def _proc_arguments() -> list[str]:
    """The kernel's settings read-only, its internals hidden."""
    read_only = [Path("/proc", name) for name in _READ_ONLY_IN_PROC]
    hidden = [Path("/proc", name) for name in _HIDDEN_IN_PROC]
    words = [word for path in read_only if path.exists() for word in ("--ro-bind", str(path), str(path))]
    return words + [word for path in hidden if path.exists() for word in ("--ro-bind", "/dev/null", str(path))]


def memory_directories() -> list[str]:
    """The sandbox's writable directories that lie in memory."""
    home = home_directory()
    return ["/dev/shm", "/tmp", *([] if home is None else [str(home)])]


def _empty(path: str, share: str, mode: str) -> list[str]:
    """A writable directory in memory that cannot take all of it."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = max(1 << 20, int(memory * _SHARE_OF_MEMORY[share]))
    return ["--perms", mode, "--size", str(size), "--tmpfs", path]


def never_visible() -> Iterator[Path]:
    """Directories that no argument, variable or stack file makes visible as a whole."""
    home = home_directory()
    yield from () if home is None else (home,)
    yield from (Path("/", name) for name in ("boot", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var"))
