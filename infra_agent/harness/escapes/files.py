"""Attempts on files: reading what the harness planted outside, and writing beside the launch's own directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from infra_agent.harness.escapes.attempt import Attempt, Planted

_SECRET_FILES = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_ed25519_key", "/etc/krb5.keytab")
_SECRET_DIRECTORIES = ("/etc/ssl/private", "/var/log", "/var/lib", "/var/spool", "/run/dbus", "/run/user", "/run/log")


def _read(path: str, planted: Planted) -> str | None:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return f"{path} could be read" if planted["token"] in file.read(4096) else None


def _write(path: str) -> str | None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("x")
    os.unlink(path)  # noqa: PTH108
    return f"{path} could be written"


def _try_each(action: Callable[[str], str | None], paths: Iterable[str]) -> str | None:
    for path in paths:
        try:
            found = action(path)
        except OSError:
            continue
        if found:
            return found
    return None


def _secret(place: str) -> Callable[[Planted], str | None]:
    return lambda planted: _read(planted["secrets"][place], planted)


def _system_secrets(_: Planted) -> str | None:
    def read(path: str) -> str:
        with open(path, "rb") as file:  # noqa: PTH123
            file.read(1)
        return f"{path} could be read"

    return _try_each(read, _SECRET_FILES)


def _system_directories(_: Planted) -> str | None:
    return _try_each(lambda path: f"{path} could be listed" if os.listdir(path) else None, _SECRET_DIRECTORIES)  # noqa: PTH208


def _own_directory(planted: Planted) -> str | None:
    """The one thing that must work: a launch that cannot write its scratch directory measures nothing."""
    try:
        with open("inside.txt", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(planted["token"])
    except OSError as error:
        return f"its own directory cannot be written: {error.strerror}"
    return None


def _beside(planted: Planted) -> str | None:
    """Beside it lies an empty directory in memory. Whether a file arrived outside is seen there."""
    for path in planted["outside"]["beside"]:
        try:
            with open(path, "w", encoding="ascii") as file:  # noqa: PTH123
                file.write("x")
        except OSError:
            continue
    return None


def _system(planted: Planted) -> str | None:
    return _try_each(_write, planted["outside"]["system"])


def _shared_memory(planted: Planted) -> str | None:
    """Writing works, in a directory of its own: whether it arrived outside is seen there."""
    with open(planted["outside"]["shared memory"][0], "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("x")
    return _read(planted["secrets"]["shared memory"], planted)


def _links(planted: Planted) -> str | None:
    """A link is made inside and leads where the sandbox sees, never where the harness sees."""
    elsewhere = planted["secrets"]["elsewhere"]
    for name, target in (("read.link", elsewhere), ("write.link", planted["outside"]["links"][0])):
        os.symlink(target, name)  # noqa: PTH211
    found = _try_each(lambda path: _read(path, planted), ["read.link"])
    return found or _try_each(_write, ["write.link"])


def _hard_link(planted: Planted) -> str | None:
    os.link(planted["secrets"]["elsewhere"], "hard.link")
    return "a hard link to a file outside could be made"


def _other_roots(planted: Planted) -> str | None:
    elsewhere = planted["secrets"]["elsewhere"]
    roots = ["/proc/1/root", "/proc/self/root", "/proc/1/cwd/../../../..", "/proc/self/cwd/../../../..", "/../.."]
    return _try_each(lambda path: _read(path, planted), [root + elsewhere for root in roots])


ATTEMPTS = (
    Attempt("own directory writable", "write a file into the launch's directory", _own_directory),
    Attempt("home hidden", "read a file planted in the home directory", _secret("home")),
    Attempt("/tmp hidden", "read a file planted in /tmp", _secret("tmp")),
    Attempt("other files hidden", "read a file planted in /var/tmp", _secret("elsewhere")),
    Attempt("system secrets hidden", f"read {', '.join(_SECRET_FILES[:3])} and the like", _system_secrets),
    Attempt("/var and /run hidden", f"list {', '.join(_SECRET_DIRECTORIES[:4])} and the like", _system_directories),
    Attempt("nothing written beside it", "write beside the launch's directory and to /var/tmp", _beside),
    Attempt("system read-only", "write to /, /usr, /usr/bin, /etc and /dev", _system),
    Attempt("own shared memory", "write to and read from /dev/shm", _shared_memory),
    Attempt("links lead nowhere", "read and write through symbolic links made in the launch's directory", _links),
    Attempt("no hard links out", "make a hard link to a file in /var/tmp", _hard_link),
    Attempt("no other root", "read a file in /var/tmp through /proc/1/root, /proc/1/cwd and /../..", _other_roots),
)
