"""Attempts on the kernel's side: settings, mounts, devices, privileges, keys, clocks.

None of them changes anything where it works: the right is asked for, not used.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import termios

from infra_agent.harness.escapes.attempt import Attempt, Planted, call, in_child, system_call

_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/modprobe")
_SYS_SETTINGS = (
    "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/uevent_helper", "/sys/power/state",
    "/sys/devices/system/cpu/cpu1/online", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/debug",
)  # fmt: skip
_OWN_DEVICES = frozenset(
    ("console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout")
    + ("tty", "urandom", "zero")
)
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_EXPIRE = 32, 4096, 16384, 1 << 18, 4
_CLONE_NEWUSER, _CLONE_NEWNS = 0x10000000, 0x00020000
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}
_OPEN_BY_HANDLE = {"x86_64": 304, "aarch64": 265, "riscv64": 265}
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
_KEYCTL_SEARCH, _KEYCTL_READ = 10, 11
_KEYRINGS = (-3, -4, -5)
_MOST_SETTINGS = 5000


def _settings(_: Planted) -> str | None:
    """Every setting is asked for, because the list differs from kernel to kernel; then some are opened."""
    asked = 0
    for folder, _names, files in os.walk("/proc/sys"):
        for file in files:
            asked += 1
            if os.access(f"{folder}/{file}", os.W_OK):
                return f"{folder}/{file} could be written"
        if asked > _MOST_SETTINGS:
            break
    return _opened(_SETTINGS)


def _opened(paths: tuple[str, ...]) -> str | None:
    for path in paths:
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        return f"{path} could be opened for writing"
    return None


def _mount(_: Planted) -> str | None:
    os.mkdir("mount")  # noqa: PTH102
    call("mount", b"none", b"mount", b"tmpfs", ctypes.c_ulong(0), None)
    call("umount2", b"mount", 0)
    return "a file system could be mounted"


def _remount(_: Planted) -> str | None:
    """In a mount space of its own, so that nothing is changed where it works."""

    def change() -> str:
        call("unshare", _CLONE_NEWNS)
        return _make_writable()

    return in_child(change)


def _make_writable() -> str:
    call("mount", None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
    call("mount", b"/usr", b"/usr", None, ctypes.c_ulong(_MS_BIND), None)
    call("mount", None, b"/usr", None, ctypes.c_ulong(_MS_REMOUNT | _MS_BIND), None)
    return "/usr could be made writable" if os.access("/usr", os.W_OK) else ""


def _unmount(_: Planted) -> str | None:
    """Ask for it with the flag that only marks a mount: what may be unmounted says that it is in use."""
    try:
        call("umount2", b"/proc", _MNT_EXPIRE)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EBUSY):
            raise
    return "/proc could be unmounted"


def _other_root(planted: Planted) -> str | None:
    def change() -> str:
        os.chroot(".")
        return "the root directory could be changed"

    nowhere = f"/{planted['mark']}".encode()
    found = in_child(change)
    if found is None:
        try:
            system_call(_PIVOT_ROOT, nowhere, nowhere)
        except FileNotFoundError:
            found = "the root directory could be exchanged"
    return found


def _devices(planted: Planted) -> str | None:
    os.mknod("disk", stat.S_IFBLK | 0o600, planted["root_device"])
    os.unlink("disk")  # noqa: PTH108
    return "a node for the machine's disk could be made"


def _device_list(planted: Planted) -> str | None:
    more = set(os.listdir("/dev")) - _OWN_DEVICES - {os.path.basename(node) for node in planted["gpu_nodes"]}  # noqa: PTH119, PTH208
    return f"/dev holds {', '.join(sorted(more)[:5])}" if more else None


def _file_handle(_: Planted) -> str | None:
    """Open the root directory of the disk by its number, past all mounts."""
    handle = struct.pack("=Ii", 8, 1) + struct.pack("=II", 2, 0)
    directory = os.open(".", os.O_RDONLY)
    try:
        os.close(system_call(_OPEN_BY_HANDLE, directory, handle, os.O_RDONLY))
    finally:
        os.close(directory)
    return "a file could be opened by its number on the disk"


def _capabilities(_: Planted) -> str | None:
    sets = [line.split() for line in _status() if line.startswith("Cap")]
    kept = [f"{name} {value}" for name, value in sets if int(value, 16)]
    return f"capabilities kept: {', '.join(kept)}" if kept else None


def _no_new_privileges(_: Planted) -> str | None:
    held = any(line.split() == ["NoNewPrivs:", "1"] for line in _status())
    return None if held else "a setuid program would gain rights"


def _status() -> list[str]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        return file.read().splitlines()


def _other_user(_: Planted) -> str | None:
    def change() -> str | None:
        for user in {0, 1, 1000, 65534} - {os.getuid()}:
            try:
                os.setuid(user)
            except OSError:
                continue
            return f"user {user} could be taken"
        os.setgroups([0])
        return "another group could be taken"

    return in_child(change)


def _user_space(planted: Planted) -> str | None:
    """In a user namespace of one's own one has all capabilities: over nothing of the machine."""

    def use() -> str | None:
        call("unshare", _CLONE_NEWUSER | _CLONE_NEWNS)
        for attempt in (lambda _: _make_writable(), _unmount, _settings, _devices, _file_handle):
            try:
                found = attempt(planted)
            except OSError:
                continue
            if found:
                return f"in a user namespace of its own: {found}"
        return None

    return in_child(use)


def _host_name(_: Planted) -> str | None:
    socket.sethostname(socket.gethostname())
    return "the host name could be set"


def _clock(_: Planted) -> str | None:
    """Set the time zone that the kernel keeps beside the clock to what it is: the same right, and no step in time."""
    zone = ctypes.create_string_buffer(8)
    call("gettimeofday", None, zone)
    call("settimeofday", None, zone)
    return "the clock could be set"


def _keys(planted: Planted) -> str | None:
    if not planted["key"]:
        return None
    buffer = ctypes.create_string_buffer(128)
    for ring in _KEYRINGS:
        try:
            system_call(KEYCTL, _KEYCTL_SEARCH, ring, b"user", planted["key_name"].encode(), 0)
        except OSError:
            continue
        return "a key of the harness's session was found"
    system_call(KEYCTL, _KEYCTL_READ, planted["key"], buffer, len(buffer))
    return "a key of the harness's session could be read"


def _terminal(_: Planted) -> str | None:
    """Type into the terminal of whoever started the harness."""
    if os.getsid(0) == 0:
        return "it belongs to a session of the machine, and to its terminal"
    for path in ("/dev/tty", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"):
        try:
            terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
        except OSError:
            continue
        try:
            fcntl.ioctl(terminal, termios.TIOCSTI, b"\0")
        except OSError:
            continue
        finally:
            os.close(terminal)
        return f"{path} took typed characters"
    return None


ATTEMPTS = (
    Attempt("kernel settings read-only", "ask for every file below /proc/sys, open core_pattern", _settings),
    Attempt("no SysRq", "open /proc/sysrq-trigger", lambda _: _opened(("/proc/sysrq-trigger",))),
    Attempt("/sys read-only", "open files below /sys for writing", lambda _: _opened(_SYS_SETTINGS)),
    Attempt("no mount", "mount a file system", _mount),
    Attempt("no remount", "remount /usr writable", _remount),
    Attempt("no unmount", "unmount /proc", _unmount),
    Attempt("no other root directory", "call chroot and pivot_root", _other_root),
    Attempt("no device nodes", "make a node for the machine's disk", _devices),
    Attempt("no devices but its own", "list /dev", _device_list),
    Attempt("no files by number", "open the disk's root directory by its handle", _file_handle),
    Attempt("no capabilities", "read all five capability sets", _capabilities),
    Attempt("no new privileges", "read the flag that disarms setuid programs", _no_new_privileges),
    Attempt("no other user", "call setuid and setgroups", _other_user),
    Attempt("no power by user namespaces", "make one and try mounts, settings and devices in it", _user_space),
    Attempt("host name kept", "set the host name", _host_name),
    Attempt("clock kept", "set the clock", _clock),
    Attempt("no keys", "search the session's keyrings for a key of the harness", _keys),
    Attempt("no terminal", "type into the controlling terminal (TIOCSTI)", _terminal),
)
