"""`make trace-overhead`: what an attached py-spy costs the demo stack's throughput, in alternating windows.

Each block is two windows of the same load on the same running engine, one with py-spy attached at 100 Hz and one
without, in random order. The ratio is taken within a block. Exit 1 when the cost may be above the goal of 3 %.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from infra_agent.judge.estimate import estimate
from probes.base import Verdict
from probes.events.host import HostWatch
from probes.load.ask import windows
from probes.load.options import ask_of
from probes.load.session import Session
from probes.trace.attach import RATE_HZ, attached

GOAL = 0.03
REQUESTS, MAX_TOKENS, USERS = 12, 32, 4
UP_S = 240.0


def main() -> int:
    """Blocks, then the estimate."""
    parser = argparse.ArgumentParser(prog="python scripts/trace_overhead.py")
    parser.add_argument("--blocks", type=int, choices=range(3, 65), default=8, metavar="N")
    parser.add_argument("--url", help="a running server on this machine instead of the demo stack")
    parser.add_argument("--pausing", action="store_true", help="stop the engine for each sample")
    options = parser.parse_args()
    with demo() if options.url is None else nullcontext(options.url) as url:
        watch = HostWatch(url)
        watch.look()
        pid = next(iter(watch.servers), None)
        if pid is None:
            sys.exit(f"the engine's process cannot be seen: {watch.blind}")
        return measured(url, pid, options.blocks, pausing=options.pausing)


@contextmanager
def demo() -> Iterator[str]:
    """The demo stack, served without walls so that its process can be attached to."""
    command = [
        sys.executable,
        "-m",
        "infra_agent",
        "stack",
        "up",
        "--stack",
        "demo",
        "--stock",
        "--no-sandbox",
        "--json",
    ]
    up = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield str(json.loads(_document(up))["url"])
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(60)


def _document(up: subprocess.Popen[str]) -> str:
    """The JSON document that ends with a bracket at the beginning of a line."""
    assert up.stdout is not None
    held = ""
    for line in up.stdout:
        held += line
        if line.startswith("}"):
            return held
    sys.exit(f"the demo stack did not start: {held[-300:]}")


def measured(url: str, pid: int, blocks: int, *, pausing: bool) -> int:
    """Alternate, estimate, print."""
    way = "stopping it for each sample" if pausing else "without stopping it"
    print(f"py-spy at {RATE_HZ} Hz on process {pid}, {way}; {blocks} blocks of two windows, {REQUESTS} requests each")
    pairs = []
    for block in range(blocks):
        order = [True, False]
        random.Random(block).shuffle(order)
        rates = {spied: throughput(url, pid, block, spied=spied, pausing=pausing) for spied in order}
        pairs.append((rates[False], rates[True]))
        print(f"  block {block + 1}: without {rates[False]:.2f}, with {rates[True]:.2f} output tokens/s")
    found = estimate([math.log(spied / plain) for plain, spied in pairs])
    cost, high = 1 - found.ratio, 1 - found.low
    print(f"ratio {found.ratio:.4f} [{found.low:.4f}, {found.high:.4f}] over {found.n} blocks, {found.method}")
    print(f"cost {cost:.2%}, at most {high:.2%} (goal below {GOAL:.0%})")
    return 0 if high < GOAL else 1


def throughput(url: str, pid: int, seed: int, *, spied: bool, pausing: bool) -> float:
    """Output tokens per second of one window. Windows that the client spoilt are measured again."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "recording.json"
        with attached(pid, out, pausing=pausing) if spied else nullcontext():
            for attempt in range(3):
                said = {
                    "url": url,
                    "concurrency": str(USERS),
                    "requests": REQUESTS,
                    "max_tokens": MAX_TOKENS,
                    "seed": seed,
                }
                session = Session()
                session.run(windows(ask_of(said))[:1], lambda _: lambda _: None)
                seen = session.told[0].observation
                figure = seen.quantity("output_tok_per_s")
                if seen.verdict is Verdict.PASS and figure is not None:
                    return figure.value
                print(f"  window {attempt + 1} is not valid: {seen.summary}", file=sys.stderr)
    sys.exit("three windows in a row were not valid: this machine is too busy to measure on")


if __name__ == "__main__":
    sys.exit(main())
