"""The failing-before test of a package: a script that fails on the code as it was and passes with the change.

It launches both arms as they were measured, in turn, with the run's own load and the run's own client, and asks for a
ratio half way (on the log scale) between nothing and the lower end of the proved interval. Where a change carries test
files of its own, those are named beside it.

Covered: figures of the load client, either direction. Not covered: goals whose metric the client does not report.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence

from infra_agent.goal.model import Direction
from infra_agent.publish.commands import load_argv, stack_up
from infra_agent.publish.report.model import Report
from infra_agent.publish.report.rows import Configuration

FILE = "gain_test.py"
_TEMPLATE = '''\
"""Fails on the code as it was, passes with the change: `python {file}`; `python {file} --before` must fail.

Both arms are launched {rounds} times in turn and measured with the load of run {run}. Needs infra-agent (its load
client) in this Python, and the engine where the commands name it; --base and --changed give other command lines, in
which {{port}} stands for a free port. --base-url and --changed-url measure servers that run already.
Exit codes: 0 the gain is there, 1 it is not, 2 it could not be measured.
"""

import argparse
import json
import math
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request

METRIC = {metric}
HIGHER_IS_BETTER = {higher}
WANTED_RATIO = {wanted}
BASE = {base}
CHANGED = {changed}
LOAD = {load}
HEALTH = {health}
START_S = {start_s}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def give_up(why):
    print(f"cannot tell: {{why}}")
    sys.exit(2)


def measure(url):
    command = [sys.executable, "-m", "probes.load", "--url", url, *LOAD, "--json"]
    for _ in range({windows}):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if not done.returncode:
            break
    if done.returncode:
        give_up("the window is not valid: " + " ".join(done.stdout.split("{{")[0].split())[:300])
    found = json.loads(done.stdout.splitlines()[-1])
    values = [row["value"] for row in found["quantities"] if row["name"] == METRIC]
    return values[0] if values else give_up(f"no {{METRIC}} was measured")


def launched(command):
    port = free_port()
    server = subprocess.Popen(shlex.split(command.replace("{{port}}", str(port))), start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{{port}}{{HEALTH}}", timeout=5).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    give_up("the server did not come up")
                time.sleep(0.2)
        return measure(f"http://127.0.0.1:{{port}}")
    finally:
        try:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", action="store_true", help="put the code as it was in place of the change")
    for name, default in (("base", BASE), ("changed", CHANGED)):
        parser.add_argument(f"--{{name}}", default=default, help="command line; {{port}} is a free port")
        parser.add_argument(f"--{{name}}-url", help="a server that runs already")
    given = parser.parse_args()
    arms = [(given.base, given.base_url), (given.changed, given.changed_url)]
    arms = [arms[0], arms[0]] if given.before else arms
    if not all(url or command for command, url in arms):
        give_up("no command line is known: name both servers with --base-url and --changed-url")
    logs = []
    for turn in range({rounds}):
        values = {{}}
        for arm in (0, 1) if turn % 2 == 0 else (1, 0):
            command, url = arms[arm]
            values[arm] = measure(url) if url else launched(command)
        ratio = values[1] / values[0] if HIGHER_IS_BETTER else values[0] / values[1]
        logs.append(math.log(ratio))
    found = math.exp(sum(logs) / len(logs))
    print(f"{{METRIC}}: x{{found:.2f}} of the code as it was, wanted at least x{{WANTED_RATIO:.2f}}")
    sys.exit(0 if found >= WANTED_RATIO else 1)


if __name__ == "__main__":
    main()
'''
_ROUNDS = 2
_WINDOWS = 3
"""Of one launch, until one is valid: a busy machine spoils some."""
_START_S = 300.0


def gain_test(report: Report, metric: str) -> str:
    """The script for a run. `metric`: the goal's quantity as the load client names it."""
    base, changed = _commands(report)
    return _TEMPLATE.format(
        file=FILE,
        run=report.run.id,
        rounds=_ROUNDS,
        windows=_WINDOWS,
        metric=json.dumps(metric),
        higher=repr(report.goal.direction is Direction.MAXIMISE),
        wanted=repr(round(wanted_ratio(report), 4)),
        base=json.dumps(base),
        changed=json.dumps(changed),
        load=json.dumps(load_argv(report)),
        health=json.dumps(report.stack.health_path),
        start_s=_START_S,
    )


def _commands(report: Report) -> tuple[str, str]:
    """How stock and best are started. With a patch the run's own trees are mounted, which `stack up` does."""
    best = next((row for row in report.candidates if row.id == report.best.candidate), None)
    if best is not None and best.patches:
        base, changed = (shlex.join(stack_up(report, *which)) for which in (("--stock",), ("--run", report.run.id)))
        return f"{base} --port {{port}}", f"{changed} --port {{port}}"
    return _command(report.baseline), _command(report.best)


def wanted_ratio(report: Report) -> float:
    """Half way, on the log scale, between no gain and the lower end of what was proved; at least a hair above 1."""
    low = lower_end(report)
    return max(1.001, math.exp(math.log(low) / 2)) if low is not None and low > 1 else 1.001


def lower_end(report: Report) -> float | None:
    """Lower end of the gain of best over stock: of the final relaunch, or of the product of accepted steps."""
    if report.final is not None:
        return report.final.estimate.low
    lows = [row.estimate.low for row in report.accepted if row.estimate is not None]
    known = [low for low in lows if low is not None]
    return math.prod(known) if known and len(known) == len(lows) else None


def _command(configuration: Configuration) -> str:
    """The command line as it was started, its port left open; empty where it was never launched."""
    launch = configuration.launch
    if launch is None:
        return ""
    environment = [shlex.quote(f"{name}={value}") for name, value in sorted(launch.env.items())]
    return " ".join(["env", *environment, *_port(launch.argv)])


def _port(argv: Sequence[str]) -> list[str]:
    words = list(argv)
    for index, word in enumerate(words):
        if word == "--port" and index + 1 < len(words):
            words[index + 1] = "{port}"
        elif word.startswith("--port="):
            words[index] = "--port={port}"
    return [word if word.endswith("{port}") else shlex.quote(word) for word in words]
