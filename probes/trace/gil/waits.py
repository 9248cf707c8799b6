"""How long each thread waits for the GIL: entry and return of CPython's own `take_gil`, by perf uprobes.

Covered: interpreters whose symbols are there, perf allowed; probes are removed again, also after an error.
Not covered: stripped interpreters, machines without perf or without the right (the reason says which).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

COMMAND_S = 60.0
_LINE = re.compile(r"^\s*(?P<tid>\d+)\s+(?P<time>\d+\.\d+):\s+(?P<event>\S+?):?\s*(?:\(|$)")


class CannotTrace(Exception):
    """perf could not look; the message says why."""


def record(pid: int, seconds: float) -> dict[int, list[float]]:
    """Seconds of each wait for the GIL, by thread number in the kernel. Raises CannotTrace."""
    if shutil.which("perf") is None:
        raise CannotTrace("perf is not installed (Debian: linux-perf)")
    library = interpreter(pid)
    with _probes(library, f"gil{os.getpid()}") as events, tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        watch = [word for event in events for word in ("-e", event)]
        _perf("record", "-q", *watch, "-p", str(pid), "-o", data, "--", "sleep", str(seconds), timeout_s=seconds + 30)
        text = _perf("script", "-i", data, "-F", "tid,time,event")
    return paired(text)


def interpreter(pid: int) -> Path:
    """The file that holds CPython in this process. Raises CannotTrace when there is none, or it is gone."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
        program = Path(f"/proc/{pid}/exe").resolve()
    except FileNotFoundError:
        raise CannotTrace(f"process {pid} is gone") from None
    except PermissionError:
        raise CannotTrace(f"no permission to look into process {pid}") from None
    library = re.search(r"(/\S*libpython3[^\s/]*\.so\S*)", maps)
    return Path(library[1]) if library else program


@contextmanager
def _probes(library: Path, group: str) -> Iterator[Sequence[str]]:
    try:
        _perf("probe", "-q", "-x", str(library), "--add", f"{group}:take=take_gil")
        # perf wants a fetched argument with a named return probe; `take_gil` returns nothing of interest.
        _perf("probe", "-q", "-x", str(library), "--add", f"{group}:took=take_gil%return $retval")
        yield (f"{group}:take", f"{group}:took__return")
    finally:
        subprocess.run(["perf", "probe", "-q", "-d", f"{group}:*"], capture_output=True, timeout=COMMAND_S)


def _perf(*words: str, timeout_s: float = COMMAND_S) -> str:
    done = subprocess.run(["perf", *words], capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return done.stdout
    said = done.stderr + done.stdout
    if re.search(r"not find|not found|no symbols|Failed to find symbol", said, re.IGNORECASE):
        raise CannotTrace("the interpreter has no symbol take_gil (stripped)")
    if re.search(r"permission|not permitted|EACCES|perf_event_paranoid|Failed to open", said, re.IGNORECASE):
        raise CannotTrace("perf is not allowed here (needs root, or perf_event_paranoid and tracefs opened up)")
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "no reason given")
    raise CannotTrace(f"perf {words[0]} failed: {last[:200]}")


def paired(text: str) -> dict[int, list[float]]:
    """Waits from `perf script` lines: each return belongs to the same thread's last entry."""
    entered: dict[int, float] = {}
    waits: dict[int, list[float]] = defaultdict(list)
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        tid, at_s = int(match["tid"]), float(match["time"])
        if match["event"].rstrip(":").endswith("took__return"):
            if tid in entered:
                waits[tid].append(at_s - entered.pop(tid))
        else:
            entered[tid] = at_s
    return dict(waits)
