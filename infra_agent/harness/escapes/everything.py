"""Makes every attempt, one after the other, and prints what got through as one line of JSON."""

from __future__ import annotations

import json
import sys

from infra_agent.harness.escapes import files, gpus, kernel, network, processes
from infra_agent.harness.escapes.attempt import Attempt, Planted

ATTEMPTS: tuple[Attempt, ...] = (
    *network.ATTEMPTS,
    *files.ATTEMPTS,
    *processes.ATTEMPTS,
    *kernel.ATTEMPTS,
    *gpus.ATTEMPTS,
)


def make(attempt: Attempt, planted: Planted) -> str:
    """What got through; empty when the wall held."""
    try:
        return attempt.run(planted) or ""
    except OSError:
        return ""
    except Exception as error:
        return f"could not be tried: {type(error).__name__}: {error}"


def main(planted_path: str) -> None:
    """Print {name: what got through} for every attempt."""
    with open(planted_path, encoding="utf-8") as file:  # noqa: PTH123
        planted = json.load(file)
    found = {attempt.name: make(attempt, planted) for attempt in ATTEMPTS}
    sys.stdout.write(planted["mark"] + json.dumps(found) + "\n")
    sys.stdout.flush()
