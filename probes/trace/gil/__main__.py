"""`python -m probes.trace.gil`: who holds the GIL of a running program, who waits, and what it is not.

    python -m probes.trace.gil --pid 4711
    python -m probes.trace.gil --seconds 3 -- program.py argument …

A launched program also gets the heartbeat and the experiments that rule alternatives out. It is stopped at the end.
Exit codes: 0 nobody starves, 1 somebody does, 2 usage, 3 cannot tell.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from probes.base import Observation, Verdict
from probes.clean import clean, one_line, to_json
from probes.trace.gil import control
from probes.trace.gil.fuse import observe
from probes.trace.gil.look import look

STOP_S = 5.0
START_S = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    """Look and print."""
    options = _parser().parse_args(argv)
    if (options.pid is None) == (not options.program):
        sys.stderr.write("error: give --pid of a running program, or -- and a program to launch\n")
        return 2
    try:
        if options.pid is not None:
            if not Path(f"/proc/{options.pid}").exists():
                raise ProcessLookupError(f"process {options.pid} is gone")
            signals = look(options.pid, options.seconds)
        else:
            with launched(options.python, options.program) as (process, agent):
                time.sleep(options.after)
                signals = look(process.pid, options.seconds, agent)
    except (OSError, control.AgentGone) as error:
        sys.stderr.write(f"error: {one_line(str(error))}\n")
        return 2
    observation = observe(signals)
    sys.stdout.write((to_json(asdict(observation)) if options.json else clean(card(observation))) + "\n")
    return {Verdict.PASS: 0, Verdict.FAIL: 1}.get(observation.verdict, 3)


@contextmanager
def launched(python: str, program: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], control.Agent]]:
    """The program with the agent in it; told to end at the end. Raises AgentGone when it does not come up."""
    with tempfile.TemporaryDirectory(prefix="gil-") as folder:
        path = Path(folder) / "agent"
        process = subprocess.Popen(control.wrapped(python, path, program), stdin=subprocess.DEVNULL, stdout=sys.stderr)
        try:
            agent = control.Agent(path)
            wait_for(agent, process)
            yield process, agent
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_S)


def wait_for(agent: control.Agent, process: subprocess.Popen[bytes]) -> None:
    """Until the agent answers. Raises AgentGone when the program ends first or nothing answers in time."""
    until_s = time.monotonic() + START_S
    while not agent.path.exists():
        if process.poll() is not None:
            raise control.AgentGone(f"the program ended at once with exit code {process.returncode}")
        if time.monotonic() > until_s:
            raise control.AgentGone("the agent did not come up")
        time.sleep(0.02)


def card(observation: Observation) -> str:
    """What a person reads."""
    detail = observation.detail
    lines = [f"{observation.verdict.value}: {observation.summary}"]
    lines.append(f"confidence  {observation.signals['confidence']}: " + ", ".join(
        f"{name} {'agrees' if yes else 'does not'}" for name, yes in detail["signals_agree"].items()
    ))  # fmt: skip
    for ruled in detail["rule_outs"]:
        word = {True: "not", False: "PERHAPS", None: "cannot tell"}[ruled["ruled_out"]]
        lines.append(f"{word:<12}{ruled['alternative']}: {ruled['sentence']} ({ruled['experiment']})")
    lines += [f"no {name}: {why}" for name, why in detail["not_available"].items()]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.trace.gil",
        allow_abbrev=False,
        description="Who holds Python's GIL, and who waits for it",
    )
    parser.add_argument("--pid", type=int, help="a running program")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each signal and experiment")
    parser.add_argument("--after", type=float, default=2.0, help="seconds to wait after a launch")
    parser.add_argument("--python", default=sys.executable, help="interpreter of a launched program")
    parser.add_argument("--json", action="store_true", help="the observation as JSON")
    parser.add_argument("program", nargs="*", help="after --: program.py and its arguments")
    return parser


if __name__ == "__main__":
    sys.exit(main())
