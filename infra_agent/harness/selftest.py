"""Try to get through each wall, in a real sandbox, and name the first one that does not hold.

Covered: does bubblewrap start at all (and why not), writing outside the scratch directory, inheriting a secret,
seeing files in home or the machine's processes, capabilities, the same GPU nodes inside as outside, and a daemonised
child outliving its sandbox.
Not covered: escapes through bugs of the kernel or of bubblewrap.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from infra_agent.harness.mounts import gpu_nodes
from infra_agent.harness.sandbox import Walls, outer_env, wrap
from infra_agent.harness.text import clean_lines

_START_TIMEOUT_S = 30.0
_GONE_TIMEOUT_S = 3.0
_TRUNCATED = "the sandbox started, but its self-test gave no answer"

_INSIDE = """
import glob, json, os, sys
token, outside, home_file = sys.argv[1:4]
def can_write(path):
    try:
        with open(path, "w") as file:
            file.write("x")
        return True
    except OSError:
        return False
for path in json.loads(outside):
    can_write(path)
with open("/proc/self/status") as file:
    caps = next(line.split()[1] for line in file if line.startswith("CapEff"))
answer = {
    "writes_inside": can_write("inside.txt"),
    "sees_secret": any(token in value for value in os.environ.values()),
    "sees_home": os.path.exists(home_file),
    "process_space": os.readlink("/proc/self/ns/pid"),
    "capabilities": int(caps, 16),
    "gpus": sorted(p for pattern in ("nvidia*", "dri", "kfd", "dxg") for p in glob.glob("/dev/" + pattern)),
}
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", token + "-child"])
    os._exit(0)
os.wait()
print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenWall:
    """A wall that did not hold: what happened, the evidence, and what to do."""

    message: str
    hint: str = ""
    lines: tuple[str, ...] = ()


def broken_wall(walls: Walls) -> BrokenWall | None:
    """Run the self-test behind these walls; None when every wall held."""
    token = secrets.token_hex(16)
    home = Path.home()
    with (
        tempfile.TemporaryDirectory(prefix="infra-agent-") as name,
        tempfile.TemporaryDirectory(dir=_writable(home)) as h,
    ):
        scratch = Path(name, "scratch")
        scratch.mkdir()
        home_file = Path(h, "secret.txt")
        home_file.write_text(token)
        outside = [Path(name, "escaped.txt"), *(Path(d, f".{token}") for d in ("/var/tmp", "/usr", "/dev/shm"))]
        try:
            done = _run_inside(walls, scratch, token, outside, home_file)
            escaped = [str(path) for path in outside if path.exists()]
        finally:
            for path in outside:
                path.unlink(missing_ok=True)
    if done.returncode != 0:
        return _cannot_start(done)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return BrokenWall(message=_TRUNCATED, lines=clean_lines(done.stdout + done.stderr, 5))
    return _judge(answer, escaped, token, home_hidden=home_file.is_relative_to(home))


def namespace_reason(proc: Path = Path("/proc")) -> BrokenWall | None:
    """Why this kernel refuses user namespaces, as far as its settings tell."""
    if _setting(proc / "sys/user/max_user_namespaces") == "0":
        return BrokenWall(
            message="user namespaces are off (user.max_user_namespaces = 0)",
            hint="sysctl -w user.max_user_namespaces=15000",
        )
    if _setting(proc / "sys/kernel/unprivileged_userns_clone") == "0":
        return BrokenWall(
            message="user namespaces are off for ordinary users (kernel.unprivileged_userns_clone = 0)",
            hint="sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if _setting(proc / "sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return BrokenWall(
            message="AppArmor keeps ordinary programs from creating user namespaces (Ubuntu 23.10 and later)",
            hint="allow this one binary with an AppArmor profile: flags=(unconfined) and the rule `userns,` "
            "(docs/sandbox.md has it in full)",
        )
    return None


def _run_inside(
    walls: Walls, scratch: Path, token: str, outside: list[Path], home_file: Path
) -> subprocess.CompletedProcess[bytes]:
    interpreter = str(Path(sys.executable).resolve())
    program = [interpreter, "-I", "-S", "-c", _INSIDE, token, json.dumps([str(path) for path in outside])]
    # Relative, so that it is not taken for a path that the launch needs to see.
    program.append(os.path.relpath(home_file, scratch))
    argv = wrap(program, walls, writable=[scratch], env={"PATH": os.defpath}, cwd=scratch)
    environment = {**outer_env(), "INFRA_AGENT_SELFTEST": token}
    try:
        return subprocess.run(
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_START_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 1, b"", str(error).encode())


def _cannot_start(done: subprocess.CompletedProcess[bytes]) -> BrokenWall:
    lines = clean_lines(done.stderr, 5)
    known = namespace_reason()
    if known is not None:
        return BrokenWall(message=known.message, hint=known.hint, lines=lines)
    reason = lines[-1] if lines else f"exit code {done.returncode}"
    return BrokenWall(message=f"bubblewrap cannot start here: {reason}", lines=lines)


def _judge(answer: dict[str, Any], escaped: list[str], token: str, *, home_hidden: bool) -> BrokenWall | None:
    gpus_outside = [str(node) for node in gpu_nodes()]
    walls = {
        "the run's scratch directory cannot be written inside the sandbox": not answer["writes_inside"],
        f"a write outside the scratch directory went through: {escaped}": bool(escaped),
        "a variable of the harness's environment is visible inside the sandbox": answer["sees_secret"],
        "files in the home directory can be seen inside the sandbox": home_hidden and answer["sees_home"],
        "the machine's processes can be seen inside the sandbox": answer["process_space"] == _process_space(),
        "the sandbox kept capabilities": answer["capabilities"] != 0,
        f"GPU nodes differ: {answer['gpus']} inside, {gpus_outside} outside": answer["gpus"] != gpus_outside,
        "a daemonised child outlived its sandbox": not _gone(f"{token}-child"),
    }
    return next((BrokenWall(message=message) for message, broken in walls.items() if broken), None)


def _process_space() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _gone(marker: str) -> bool:
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while True:
        left = [process for process in psutil.process_iter(["cmdline"]) if marker in (process.info["cmdline"] or [])]
        if not left:
            return True
        if time.monotonic() > deadline:
            for process in left:
                process.kill()
            return False
        time.sleep(0.02)


def _writable(home: Path) -> Path | None:
    return home if home.is_dir() and os.access(home, os.W_OK) else None


def _setting(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
