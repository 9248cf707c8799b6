"""Tries to get through every wall, in real sandboxes, and tells of each whether it held and how it was tried.

Covered: whether bubblewrap starts at all (and why not), the attempts of `harness.escapes` in one sandbox, and the
bombs of `harness.bombs` in three more beside it.
Not covered: escapes through bugs of the kernel or of bubblewrap.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra_agent.harness import escapes, mounts
from infra_agent.harness.bombs import BOMBS, throw_bombs
from infra_agent.harness.escapes.everything import ATTEMPTS
from infra_agent.harness.handover import hand_over
from infra_agent.harness.limits import Limits
from infra_agent.harness.planted import planted
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.sandbox import Walls, outer_env

_TIMEOUT_S = 60.0
_STOP_S = 3.0
_FILE_BYTES = 1 << 30
_LOG_TAIL = 5
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class WallCheck:
    """One wall: whether it held, how it was tried, and what got through if something did."""

    name: str
    held: bool
    tried: str
    seen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotStart:
    """No sandbox could be started: why, what to do, and the last lines that were printed."""

    message: str
    hint: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The outcome of a self-test. `limits_held`: how each limit is held here, by kind."""

    checks: tuple[WallCheck, ...]
    limits_held: Mapping[str, str]

    @property
    def broken(self) -> tuple[WallCheck, ...]:
        """The walls that did not hold."""
        return tuple(check for check in self.checks if not check.held)


def try_walls(walls: Walls, limits: Limits) -> Tried | CannotStart:
    """Make every attempt behind these walls. `limits.place` says where control groups can be made."""
    try:
        with _folder() as folder, ThreadPoolExecutor(1) as beside:
            bombs = folder / "bombs"
            bombs.mkdir()
            thrown = beside.submit(throw_bombs, walls, bombs, limits)
            answer = _attempts(walls, folder)
            burst, held = thrown.result()
    except OSError as error:
        return CannotStart(message=f"the walls cannot be tried here: {error}")
    if isinstance(answer, CannotStart):
        return answer
    checks = [_check(each.name, each.tried, answer.get(each.name, "no answer")) for each in ATTEMPTS]
    checks += [_check(each.name, each.tried, burst[each.name]) for each in BOMBS]
    return Tried(checks=tuple(checks), limits_held=held)


def untried(reason: str) -> tuple[WallCheck, ...]:
    """All walls, none of them tried."""
    names = [each.name for each in ATTEMPTS] + [each.name for each in BOMBS]
    return tuple(WallCheck(name=name, held=False, tried=f"not tried: {reason}") for name in names)


def namespace_reason(proc: Path = Path("/proc")) -> CannotStart | None:
    """Why this kernel refuses user namespaces, as far as its settings tell."""
    if _setting(proc / "sys/user/max_user_namespaces") == "0":
        return CannotStart(
            message="user namespaces are off (user.max_user_namespaces = 0)",
            hint="sysctl -w user.max_user_namespaces=15000",
        )
    if _setting(proc / "sys/kernel/unprivileged_userns_clone") == "0":
        return CannotStart(
            message="user namespaces are off for ordinary users (kernel.unprivileged_userns_clone = 0)",
            hint="sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if _setting(proc / "sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return CannotStart(
            message="AppArmor keeps ordinary programs from creating user namespaces (Ubuntu 23.10 and later)",
            hint="allow this one binary with an AppArmor profile: flags=(unconfined) and the rule `userns,` "
            "(docs/sandbox.md has it in full)",
        )
    return None


@contextmanager
def _folder() -> Iterator[Path]:
    """In /tmp, because that a launch sees nothing of it but its own directory is among what is tried."""
    with tempfile.TemporaryDirectory(prefix="infra-agent-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _check(name: str, tried: str, seen: str) -> WallCheck:
    return WallCheck(name=name, held=not seen, tried=tried, seen=seen)


def _attempts(walls: Walls, folder: Path) -> dict[str, str] | CannotStart:
    """{attempt: what got through}, from inside and from what arrived outside."""
    scratch = folder / "scratch"
    scratch.mkdir()
    mark = secrets.token_hex(8)
    with ExitStack() as cleanup:
        own_user_space = "--unshare-user" in walls.user_space
        bait = cleanup.enter_context(planted(folder, _FILE_BYTES, own_user_space))
        (scratch / "planted.json").write_text(json.dumps({**bait.facts, "mark": mark}))
        process = ManagedProcess.start(
            _program(),
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
            cwd=scratch,
            log_path=folder / "attempts.log",
            walls=walls,
            writable=[scratch],
            readable=_sources(),
            hand_over=cleanup.enter_context(hand_over()),
            limits=Limits(file_bytes=_FILE_BYTES),
            outer={**outer_env(), "INFRA_AGENT_SELFTEST": bait.facts["inherited"]},
        )
        deadline = time.monotonic() + _TIMEOUT_S
        while process.alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        code = process.returncode
        process.stop(_STOP_S)
        answer = _answer((folder / "attempts.log").read_bytes(), mark)
        if answer is None:
            return _cannot_start(code, process.tail(_LOG_TAIL))
        return answer | bait.arrived()


def _program() -> list[str]:
    code = (
        f"import sys; sys.path[:0] = [{str(_ROOT)!r}]; "
        "from infra_agent.harness.escapes.everything import main; main('planted.json')"
    )
    return [str(Path(sys.executable).resolve()), "-I", "-S", "-c", code]


def _sources() -> list[Path]:
    """The attempts and what they import of this program."""
    packages = [_ROOT / "infra_agent/__init__.py", _ROOT / "infra_agent/harness/__init__.py"]
    return [*packages, Path(mounts.__file__), Path(escapes.__file__).parent]


def _answer(log: bytes, mark: str) -> dict[str, str] | None:
    for line in log.decode("utf-8", "replace").splitlines():
        if line.startswith(mark):
            found = json.loads(line.removeprefix(mark))
            return {str(name): str(seen) for name, seen in found.items()}
    return None


def _cannot_start(code: int | None, lines: tuple[str, ...]) -> CannotStart:
    known = namespace_reason()
    if known is not None:
        return CannotStart(message=known.message, hint=known.hint, lines=lines)
    if code == 0:
        return CannotStart(message="the sandbox started, but its self-test gave no answer", lines=lines)
    reason = lines[-1] if lines else f"exit code {code}"
    return CannotStart(message=f"bubblewrap cannot start here: {reason}", lines=lines)


def _setting(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
