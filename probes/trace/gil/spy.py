"""Who holds the GIL: py-spy's samples of the thread that has it, native frames and lines included.

Covered: collapsed stacks with thread names; native frames with and without debug information.
Not covered: interpreters that py-spy does not know; the message says so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RATE_HZ = 200
_FRAME = re.compile(r"^(?P<function>.+?) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)$")
_EVALUATION = re.compile(r"^(_Py|Py|_?PyEval|cfunction_|method_vectorcall|vectorcall|object_vacall|builtin_)")
_GLUE = re.compile(r"^(?:const )?(pybind11|nanobind|std|__gnu_cxx|torch::PythonArgParser)::")
_SYSTEM = re.compile(
    r"^(lib(c|m|pthread|stdc\+\+|python|ffi)|ld-linux|python|_ctypes)[.\d-]|^_?ctypes|^(pybind11|nb_\w+)\.(h|cpp)$"
)
_PYTHON_FILE = re.compile(r"(\.py$|^<)")


class CannotSpy(Exception):
    """py-spy could not look; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame: native when its file is not Python's."""

    function: str
    file: str
    line: int | None

    @property
    def native(self) -> bool:
        """C or C++ code."""
        return _PYTHON_FILE.search(self.file) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack of the thread that held the GIL, outermost frame first, and how often it was seen."""

    thread: str
    frames: tuple[Frame, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The place that holds the GIL most: native code below a Python line. `share`: of all samples with a holder."""

    thread: str
    function: str
    file: str
    line: int | None
    caller: str
    share: float
    samples: int
    native: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Spied:
    """What was seen. `taken`: times that was looked; `stacks`: those at which some thread held the GIL."""

    stacks: tuple[Stack, ...]
    taken: int
    seconds: float

    @property
    def held_share(self) -> float:
        """Share of time at which some thread held the GIL."""
        return sum(stack.count for stack in self.stacks) / self.taken if self.taken else 0.0


def record(pid: int, seconds: float, *, rate_hz: int = RATE_HZ, native: bool = True) -> Spied:
    """Sample the holder of the GIL. Raises CannotSpy."""
    program = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
    if not Path(program).exists():
        raise CannotSpy("py-spy is not installed: pip install py-spy")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "stacks"
        argv = [
            program,
            "record",
            "--gil",
            "--threads",
            "--format",
            "raw",
            "--rate",
            str(rate_hz),
            "--duration",
            str(max(1, round(seconds))),
            "--output",
            str(output),
            "--pid",
            str(pid),
            *(["--native"] if native else []),
        ]
        # Without --nonblocking: py-spy stops the program for each sample, which is why it never runs in a timed window.
        done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 60, stdin=subprocess.DEVNULL)
        if done.returncode or not output.exists():
            raise CannotSpy(_why(pid, done.stderr + done.stdout))
        text = output.read_text(encoding="utf-8", errors="replace")
    return Spied(stacks=tuple(parse(text)), taken=max(1, round(seconds)) * rate_hz, seconds=max(1, round(seconds)))


def _why(pid: int, words: str) -> str:
    if not Path(f"/proc/{pid}").exists() or "No such process" in words:
        return f"process {pid} is gone"
    if re.search(r"permission|not permitted|EPERM|root", words, re.IGNORECASE):
        return f"no permission to look into process {pid}: run as its user with ptrace allowed, or as root"
    if re.search(r"python version|Failed to find|interpreter", words, re.IGNORECASE):
        return f"process {pid} runs no Python that py-spy knows (stripped, static or not Python at all)"
    last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "no reason given")
    return f"py-spy failed: {last[:200]}"


def parse(text: str) -> list[Stack]:
    """Collapsed stacks, `frame;frame;… count` a line."""
    found = []
    for line in text.splitlines():
        body, _, count = line.rpartition(" ")
        if not count.isdigit():
            continue
        names = body.split(";")
        thread = "?"
        while names and names[0].startswith(("thread ", "process ")):
            thread = _thread_name(names.pop(0)) or thread
        found.append(Stack(thread=thread, frames=tuple(_frame(name) for name in names), count=int(count)))
    return found


def _thread_name(text: str) -> str:
    name = re.sub(r"^(thread|process) ", "", text)
    match = re.match(r"^\((?:0x[0-9A-Fa-f]+|\d+)\)(?:: )?(.*)$", name)
    return (match[1] or name) if match else name


def _frame(text: str) -> Frame:
    match = _FRAME.match(text)
    if match is None:
        return Frame(function=text, file="", line=None)
    line = int(match["line"]) if match["line"] else None
    return Frame(function=match["function"], file=match["file"], line=line)


def holders(stacks: Sequence[Stack]) -> list[Holder]:
    """Who held it, most often first: the innermost native frame below the innermost Python line, else that line."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    lines: dict[tuple[str, str, str, str], Counter[int | None]] = {}
    native: dict[tuple[str, str, str, str], bool] = {}
    for stack in stacks:
        frame, caller = _place(stack.frames)
        key = (stack.thread, frame.function, frame.file, caller)
        counts[key] += stack.count
        lines.setdefault(key, Counter())[frame.line] += stack.count
        native[key] = frame.native and bool(frame.file)
    total = sum(counts.values())
    return [
        Holder(thread=key[0], function=key[1], file=key[2], line=lines[key].most_common(1)[0][0], caller=key[3],
               share=count / total, samples=count, native=native[key])
        for key, count in counts.most_common()
    ]  # fmt: skip


def _place(frames: Sequence[Frame]) -> tuple[Frame, str]:
    """The frame to name, and the Python line that called it."""
    python = [index for index, frame in enumerate(frames) if not frame.native]
    last = python[-1] if python else -1
    below = [f for f in frames[last + 1 :] if not _EVALUATION.match(f.function) and not f.file.startswith("libpython")]
    caller = f"{frames[last].function} ({Path(frames[last].file).name}:{frames[last].line})" if python else ""
    own = [f for f in below if not _GLUE.match(f.function) and not _SYSTEM.match(Path(f.file).name)]
    named = [f for f in own if f.line is not None]
    # The outermost of the extension's own functions: what it calls may be inlined and changes from sample to sample.
    nothing = Frame(function="?", file="", line=None)
    chosen = next(iter(named or own or below[-1:]), frames[last] if python else nothing)
    return chosen, caller
