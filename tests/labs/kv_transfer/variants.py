"""Engines under test, each from its own build of the binding: blocks of prefill alone and prefill with transfer.

Covered: one engine process per variant, commands with a deadline, what it said on stderr when it died.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from build import build  # noqa: E402  (the lab is used from several places, without installation)

from probes.trace.gil import control  # noqa: E402
from probes.trace.gil.look import Signals, look  # noqa: E402

SOURCE = HERE / "native" / "wire.cpp"
ANSWER_S = 180.0
STOP_S = 10.0


class EngineDied(Exception):
    """The engine ended or did not answer; the message carries its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How engines are started."""

    python: Path
    cache: Path
    compute: str = "torch"
    route: str = "intranode"
    rounds: int = 0
    seed: int = 0


@dataclass(slots=True)
class Variant:
    """A running engine. `gaps`: per block, one minus the ratio of prefill speed with transfer to prefill alone."""

    name: str
    source: Path
    process: subprocess.Popen[str]
    agent: control.Agent
    about: dict[str, Any]
    words: list[str]
    alone: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    bytes_moved: int = 0
    bytes_correct: bool = True

    @property
    def gaps(self) -> list[float]:
        """Share of prefill speed lost to the transfer, per block."""
        return [1.0 - both / alone for alone, both in zip(self.alone, self.together, strict=True)]

    def ask(self, **command: Any) -> dict[str, Any]:
        """One window. Raises EngineDied."""
        self.start(**command)
        return self.answer()

    def start(self, **command: Any) -> None:
        """Begin a window without waiting for its end."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise self._died() from None

    def answer(self) -> dict[str, Any]:
        """The result of the window under way. Raises EngineDied."""
        found: list[str] = []
        assert self.process.stdout is not None
        reader = threading.Thread(target=lambda: found.append(self.process.stdout.readline()), daemon=True)
        reader.start()
        reader.join(ANSWER_S)
        if not found or not found[0]:
            raise self._died()
        answer: dict[str, Any] = json.loads(found[0])
        return answer

    def block(self, layers: int, order: Sequence[bool]) -> None:
        """One block: alone and with transfer, in the given order."""
        for transfer in order:
            answer = self.ask(layers=layers, transfer=transfer)
            (self.together if transfer else self.alone).append(answer["tokens_per_s"])
            self.bytes_moved += answer["bytes"]
            self.bytes_correct &= answer["bytes_correct"]

    def _died(self) -> EngineDied:
        said = " | ".join(line.strip() for line in self.words[-3:])
        return EngineDied(f"the engine ({self.name}) ended or did not answer: {said or 'it said nothing'}")


@contextmanager
def engine(name: str, source: Path, settings: Settings) -> Iterator[Variant]:
    """An engine built from a source. Raises BuildError, EngineDied."""
    extension = build(source, settings.python, settings.cache / "build")
    with tempfile.TemporaryDirectory(prefix="kv-agent-") as folder:
        path = Path(folder) / "agent"
        program = [str(HERE / "engine.py"), "--extension", str(extension), "--compute", settings.compute,
                   "--route", settings.route, "--seed", str(settings.seed),
                   "--rounds", str(settings.rounds)]  # fmt: skip
        argv = control.wrapped(str(settings.python), path, program)
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        variant = Variant(name, source, process, control.Agent(path), {}, [])
        listener = threading.Thread(target=_listen, args=(process, variant.words), daemon=True)
        listener.start()
        try:
            variant.about = variant.answer()
            yield variant
        finally:
            _stop(process)
            listener.join(STOP_S)
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


def _listen(process: subprocess.Popen[str], words: list[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        words.append(line)
        del words[:-50]


def _stop(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def engines(sources: dict[str, Path], settings: Settings) -> Iterator[dict[str, Variant]]:
    """Several engines with the same work per layer: the first one's size holds for all."""
    with ExitStack() as stack:
        found: dict[str, Variant] = {}
        for name, source in sources.items():
            found[name] = stack.enter_context(engine(name, source, settings))
            settings = replace(settings, rounds=int(found[name].about["rounds"]))
        yield found


def interleave(variants: Sequence[Variant], blocks: int, layers: int, seed: int) -> None:
    """Blocks of all variants in random order, both arms of each block in random order; one warm-up each first."""
    make = random.Random(seed)
    for variant in variants:
        variant.ask(layers=max(4, layers // 8), transfer=True)
    for _ in range(blocks):
        for variant in make.sample(list(variants), len(variants)):
            variant.block(layers, make.sample([False, True], 2))


def looked(variant: Variant, seconds: float) -> Signals:
    """The probe on a loaded engine, outside of every measured window."""
    variant.start(seconds=seconds * 14 + 10, transfer=True)
    time.sleep(1)
    signals = look(variant.process.pid, seconds, variant.agent)
    variant.answer()
    return signals


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
