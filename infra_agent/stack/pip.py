"""pip of a stack's own environment: what it would fetch, and running it with a log that errors can quote.

Covered: resolution without installing, sizes of what would be downloaded, causes of failure in words.
Not covered: what pip already holds in its own cache; the printed size is the most that can be fetched.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from infra_agent.errors import StackSetupError
from infra_agent.redact.known import is_secret
from infra_agent.stack.recipe import Recipe

if TYPE_CHECKING:
    import httpx

LONGEST_S = 2 * 3600.0
"""Of one command: pip is silent while it fetches, so silence says nothing, and a slow line needs its time."""
KILL_S = 30.0
ISOLATED = ("-I", "-m")
"""How a module is run: without -I the directory in which the user stands would come first on its path."""
_LAST_LINES = 8
_GPU_PREFIXES = ("nvidia-", "cuda-")
# Each of these would send packages elsewhere than into the environment that is being built.
_HARMFUL = (
    "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REPORT",
    "__PYVENV_LAUNCHER__",
)  # fmt: skip
_NOISE = re.compile(r"^WARNING: Location 'file:|^\s*$")
_NETWORK = re.compile(
    r"NewConnectionError|Connection refused|Name or service not known|Temporary failure in name resolution"
    r"|Network is unreachable|Read timed out|ConnectTimeout|Could not fetch URL|connection error|ProxyError|SSLError"
    r"|Failed to establish|nodename nor servname|No route to host",
    re.IGNORECASE,
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_ABSENT = re.compile(r"No matching distribution found for (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What pip would install: package names, and the bytes to fetch where the index tells them."""

    names: tuple[str, ...]
    download_bytes: int | None

    @property
    def has_gpu_build(self) -> bool:
        """Whether torch brought its libraries for graphics cards."""
        return any(name.startswith(_GPU_PREFIXES) for name in self.names)


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would lead pip or the interpreter astray, and without secrets.

    pip's own settings pass as they are: an index may need a password.
    """
    source = os.environ if environ is None else environ
    kept = {
        key: value
        for key, value in source.items()
        if key not in _HARMFUL and (key.startswith("PIP_") or not is_secret(key, value))
    }
    return {"PIP_RETRIES": "2", **kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONNOUSERSITE": "1"}


def run_logged(argv: Sequence[str], log: Path, *, doing: str, remove: Path) -> None:
    """Run to the end with all output in `log`. Raises StackSetupError with the last lines and what to do."""
    start = log.stat().st_size if log.exists() else 0
    with log.open("ab") as sink:
        sink.write(f"$ {' '.join(argv)}\n".encode())
        sink.flush()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=child_environment()
        )
        try:
            code = process.wait(timeout=LONGEST_S)
        except BaseException as error:
            process.kill()
            process.wait(timeout=KILL_S)
            if isinstance(error, subprocess.TimeoutExpired):
                hint = "check the network and the disk, then run it again"
                raise StackSetupError(
                    f"{doing} did not end within {LONGEST_S / 3600:g} h", where=str(log), hint=hint
                ) from None
            raise
    if code != 0:
        with log.open("rb") as source:
            source.seek(start)
            output = source.read().decode("utf-8", "replace")
        raise failure(output, code, log, doing=doing, remove=remove)


def failure(output: str, code: int, log: Path, *, doing: str, remove: Path) -> StackSetupError:
    """The error for a failed command, its cause read from what it printed."""
    lines = [line.rstrip() for line in output.splitlines() if not _NOISE.match(line)]
    if _FULL.search(output):
        cause, hint = (
            "the disk is full",
            f"free some space, or set INFRA_AGENT_CACHE to another disk; then retry ({remove})",
        )
    elif _NETWORK.search(output):
        cause, hint = (
            "the package index cannot be reached",
            "check the network, proxy or PIP_INDEX_URL; then run it again",
        )
    elif (absent := _ABSENT.search(output)) is not None and "(from versions: none)" in output:
        # pip says the same whether the index is out of reach or does not know the name.
        cause = f"the package index offered no release of {absent.group(1)}"
        hint = "check the network and PIP_INDEX_URL; or name your own environment in infra-agent.toml"
    elif absent is not None:
        cause = f"the package index has no {absent.group(1)} for this Python and platform"
        hint = "check PIP_INDEX_URL and `python --version`; or name your own environment in infra-agent.toml"
    elif code < 0:
        cause, hint = f"it was killed by signal {-code}", "run it again; if it was out of memory, close other programs"
    else:
        cause, hint = f"it exited with code {code}", f"read the log; to start afresh: rm -r '{remove}'"
    return StackSetupError(f"{doing} failed: {cause}", where=str(log), hint=hint, lines=lines[-_LAST_LINES:])


def choose(
    recipe: Recipe, pip: Sequence[str], report: Path, log: Path, narrate: Callable[[str], None]
) -> tuple[list[str], Resolution]:
    """The install arguments and what they bring; the index without graphics-card builds is preferred."""
    constraints = ["--constraint", str(recipe.constraints)] if recipe.constraints else []
    plain = ["--no-input", "--only-binary=:all:", *constraints, *recipe.requirements]
    first = resolve(pip, plain, report, log)
    if recipe.cpu_index is None or not first.has_gpu_build:
        return plain, first
    lean = ["--extra-index-url", recipe.cpu_index, *plain]
    try:
        second = resolve(pip, lean, report, log)
    except StackSetupError:
        second = first
    if second.has_gpu_build:
        narrate(f"no CPU build can be had from {recipe.cpu_index}; taking the larger default build")
        return plain, first
    return lean, second


def resolve(pip: Sequence[str], arguments: Sequence[str], report: Path, log: Path) -> Resolution:
    """What `pip install` with these arguments would fetch; nothing is installed."""
    command = [*pip, "install", "--dry-run", "--ignore-installed", "--report", str(report), *arguments]
    run_logged(command, log, doing="asking the package index for the environment", remove=log.parent)
    try:
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
        names = tuple(re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower() for item in installs)
        urls = [item["download_info"]["url"] for item in installs]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StackSetupError(f"pip's report cannot be read: {error}", where=str(report)) from None
    return Resolution(names=names, download_bytes=_total_bytes(urls))


def _total_bytes(urls: Sequence[str]) -> int | None:
    """Bytes behind the addresses; None when one of them does not tell."""
    import httpx  # only a first preparation needs it; every start imports this module

    try:
        with httpx.Client(follow_redirects=True, timeout=10) as client, ThreadPoolExecutor(8) as pool:
            return sum(pool.map(lambda url: _bytes_of(client, url), urls))
    except (httpx.HTTPError, OSError, KeyError, ValueError):
        return None


def _bytes_of(client: httpx.Client, url: str) -> int:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path)).stat().st_size
    answer = client.head(url)
    answer.raise_for_status()
    return int(answer.headers["content-length"])
