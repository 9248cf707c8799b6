"""`make events-tests`: four made situations on real engines; the events probe must name the limit of each.

One slot, a tiny token budget, a starved client, a saturated decode: each is one launch of the engine and one load that
makes it so. What was run and what was found is one line each; `--engine` chooses the demo stack, vLLM's CPU build, or
both. Exit 1 when a limit was named wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from scripts.events_tests.engines import EngineUp, install, up

RUN_S = 900
STARVE = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.nice(19); os.execv(sys.argv[2], sys.argv[2:])"
BURN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
BURNERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`launch`: arguments of the engine, by engine. `load`: options of the probe's own load."""

    name: str
    expected: str
    launch: dict[str, tuple[str, ...]]
    load: tuple[str, ...]
    starved: bool = False
    also: tuple[str, ...] = field(default=())
    """Other answers that are right as well."""


BATCHING = ("--continuous-batching",)
SITUATIONS = (
    Situation(
        name="one slot",
        expected="admission cap",
        launch={"demo": (), "vllm": ("--max-num-seqs", "1")},
        load=("--concurrency", "4", "--requests", "12", "--max-tokens", "16"),
    ),
    Situation(
        name="tiny token budget",
        expected="token budget",
        launch={
            "demo": (*BATCHING, "--cb-max-batch-tokens", "16"),
            "vllm": ("--max-num-seqs", "16", "--max-num-batched-tokens", "16"),
        },
        load=("--concurrency", "6", "--requests", "18", "--max-tokens", "8", "--input-tokens", "200"),
    ),
    Situation(
        name="starved client",
        expected="client-bound",
        launch={"demo": BATCHING, "vllm": ()},
        load=("--concurrency", "6", "--requests", "12", "--max-tokens", "16"),
        starved=True,
    ),
    Situation(
        name="saturated decode",
        expected="decode bandwidth",
        launch={"demo": BATCHING, "vllm": ()},
        load=("--concurrency", "16", "--requests", "32", "--max-tokens", "48"),
    ),
)


def main() -> int:
    """All situations on the engines that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m scripts.events_tests")
    parser.add_argument("--engine", choices=("demo", "vllm", "both"), default="both")
    parser.add_argument("--only", help="the name of one situation")
    options = parser.parse_args()
    engines = ("demo", "vllm") if options.engine == "both" else (options.engine,)
    right = asked = 0
    for engine in engines:
        print(f"{engine}: {install(engine)}")
        for situation in SITUATIONS:
            if options.only in (None, situation.name):
                asked += 1
                right += tried(engine, situation)
    print(f"{right} of {asked} situations have the right limit")
    return 0 if right == asked else 1


def tried(engine: str, situation: Situation) -> bool:
    """One launch, one watched load."""
    with up(engine, *situation.launch[engine]) as server:
        found = watched(server, situation)
    signals, named = found["signals"], str(found["signals"]["binding_limit"])
    good = named == situation.expected or named in situation.also
    confidence = signals["limit_confidence"]
    print(f"{'ok  ' if good else 'FAIL'} {situation.name:<19}{named:<18}confidence {confidence:<8}{found['summary']}")
    if not good:
        for finding in found["detail"]["findings"]:
            print(f"       {finding['state']:<13}{finding['limit']:<18}{finding['reason']}")
        print(f"       {json.dumps(signals)}")
    sys.stdout.flush()
    return good


def watched(server: EngineUp, situation: Situation) -> dict[str, Any]:
    """What `infra-agent probe run events` says of the engine under this load."""
    probe = [
        sys.executable,
        "-m",
        "infra_agent",
        "probe",
        "run",
        "events",
        "--url",
        server.url,
        "--log",
        str(server.log),
    ]
    command = [*probe, "--model", server.model, *situation.load, "--interval", "0.25", "--json"]
    core = max(os.sched_getaffinity(0))
    if situation.starved:
        command = [sys.executable, "-c", STARVE, str(core), *command]
    with burning(core if situation.starved else None):
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout)["observation"]
    except (ValueError, KeyError):
        sys.exit(f"the probe said nothing: {done.stdout[-300:]} {done.stderr[-600:]}")
    return found


@contextmanager
def burning(core: int | None) -> Iterator[None]:
    """Programs that use up one core meanwhile."""
    count = BURNERS if core is not None else 0
    burners = [subprocess.Popen([sys.executable, "-c", BURN, str(core)]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


if __name__ == "__main__":
    sys.exit(main())
