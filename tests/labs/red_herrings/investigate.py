"""From the log's advice and the settings that go with the trouble to the one that causes it, by experiment.

python tests/labs/red_herrings/investigate.py
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from probes.base import Where  # noqa: E402
from probes.causes import Cause, Suspicion, Trial, Trials, establish  # noqa: E402

SERVICE = Path(__file__).with_name("service.py")
BLOCKS, REQUESTS = 6, 8
CHANGES: dict[str, Any] = {"flush_each": False, "trace_labels": False, "fetch_buffer_kb": 64}
PLACEBO = {"request_tag": "b"}
"""A change of the same kind (one setting of the service) that nothing reads."""


@dataclass(slots=True)
class Found:
    """What came out. `blamed`: the setting that the log advises to change."""

    blamed: str = ""
    told: dict[str, Cause | Suspicion] = field(default_factory=dict)


class Service:
    """The running service."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def waits(self, settings: dict[str, Any]) -> float:
        """Voluntary waits per request under these settings."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"settings": settings, "requests": REQUESTS}) + "\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline())["waits_per_request"])


@contextmanager
def service(log: Path) -> Iterator[Service]:
    """The service, its log in a file."""
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, str(SERVICE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True
        )
        try:
            yield Service(process)
        finally:
            process.communicate(timeout=30)


def investigate(log: Path, seed: int = 0) -> Found:
    """Every suspect in the four arms, blocks in random order."""
    make = random.Random(seed)
    found = Found()
    with service(log) as running:
        running.waits({})
        for name, value in CHANGES.items():
            found.told[name] = _experiment(running, name, value, make)
    advice = re.search(r"raise (\w+)", log.read_text())
    found.blamed = advice[1] if advice else ""
    return found


def _experiment(running: Service, name: str, value: Any, make: random.Random) -> Cause | Suspicion:
    arms: dict[str, dict[str, Any]] = {"base": {}, "intervention": {name: value}, "reversal": {}, "placebo": PLACEBO}
    samples: dict[str, list[float]] = {arm: [] for arm in arms}
    for _ in range(BLOCKS):
        # The reversal comes after the intervention it takes back; the others stand anywhere around them.
        for arm in make.choice((
            ("base", "intervention", "reversal", "placebo"), ("placebo", "base", "intervention", "reversal"),
            ("base", "placebo", "intervention", "reversal"),
        )):  # fmt: skip
            samples[arm].append(running.waits(arms[arm]))
    trials = {arm: Trial(change=json.dumps(arms[arm]), samples=tuple(samples[arm])) for arm in arms}
    return establish(name, Where(parameter=name), Trials(metric="waits_per_request", unit="1", **trials))


def main() -> int:
    """Print what each suspect turned out to be."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = investigate(Path(folder) / "service.log")
    sys.stdout.write(f"log blames  {found.blamed}\n")
    for name, told in found.told.items():
        if isinstance(told, Cause):
            sys.stdout.write(f"cause       {name}: {told.effect:+.0%}, undone when put back, placebo without effect\n")
        else:
            sys.stdout.write(f"{told.verdict:<11} {name}: {told.reason}\n")
    return 0 if [name for name, told in found.told.items() if isinstance(told, Cause)] == ["flush_each"] else 1


if __name__ == "__main__":
    sys.exit(main())
