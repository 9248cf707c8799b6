"""`python -m probes.events`: what binds a running server, from its own metrics, its log and this machine.

Exit codes: 0 a binding limit is named, 1 it cannot be told, 2 usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from probes.base import Observation, Verdict
from probes.clean import clean, one_line, to_json
from probes.events.card import card
from probes.events.client import read_load_file
from probes.events.vocabulary import ENGINES
from probes.events.watch import Watch, watch
from probes.load.hosts import hosts_of

STACK_FILE = Path("infra-agent.toml")


def main(argv: Sequence[str] | None = None) -> int:
    """Watch, show, and return the exit code."""
    options = _parser().parse_args(argv)
    try:
        what = Watch(
            url=options.url,
            seconds=options.seconds,
            interval_s=min(options.interval, options.seconds),
            hosts=_hosts(options.stack),
            log=options.log,
            offered=options.offered,
            limits=tuple(options.limit),
            engine=options.engine,
        )
        beside = read_load_file(options.load) if options.load else []
        observation = watch(what, beside)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        return 2
    sys.stdout.write((json_text(observation) if options.json else clean(card(observation))) + "\n")
    return 0 if observation.verdict is Verdict.PASS else 1


def json_text(observation: Observation) -> str:
    """The observation as JSON."""
    return to_json({"observation": dataclasses.asdict(observation)})


def _hosts(stack: Path | None) -> tuple[str, ...]:
    path = stack or STACK_FILE
    return hosts_of(path) if stack is not None or path.exists() else ()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.events", description="What binds a running server", allow_abbrev=False
    )
    add = parser.add_argument
    add("--url", required=True, help="root of the server, such as http://127.0.0.1:8000")
    add("--seconds", type=float, default=10.0, help="length of the window")
    add("--interval", type=float, default=0.5, help="seconds between two readings")
    add("--log", type=Path, help="the engine's log file")
    add("--load", type=Path, help="result of the load probe (--output) of the same window")
    add("--offered", type=int, help="requests that the client means to keep open")
    add("--limit", action="append", default=[], metavar="NAME=N", help="max_running, token_budget or world_size")
    add("--engine", choices=sorted(ENGINES), help="default: what the page or the command line says")
    add("--stack", type=Path, help="stack file that names the host (default: ./infra-agent.toml if there)")
    add("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
