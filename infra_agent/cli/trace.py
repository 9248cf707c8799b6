"""`infra-agent probe run trace`: where the time of a profile went, or what got slower between two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.options import JsonFlag
from infra_agent.cli.output import print_json, print_lines, stderr
from infra_agent.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from probes.base import Observation

PLACE = "probe run trace"

File = Annotated[Path | None, typer.Argument(help="Chrome, Perfetto, py-spy or cProfile file, plain or packed.")]
Against = Annotated[Path | None, typer.Option(help="A trace of the same work to compare with.")]
Pid = Annotated[int | None, typer.Option(help="Record this Python process with py-spy instead of reading a file.")]
Seconds = Annotated[float, typer.Option(min=0.1, max=3600, help="How long to record.")]
Rate = Annotated[int, typer.Option(min=1, max=1000, help="Samples per second.")]
NoPause = Annotated[bool, typer.Option("--no-pause", help="Do not stop the process for a sample; samples may be torn.")]


def trace(
    file: File = None, against: Against = None, pid: Pid = None, seconds: Seconds = 5.0, rate: Rate = 100,
    no_pause: NoPause = False, as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """Break a profile down: time by kernel, idle time and why, overlap. With --against: what got slower, and where.

    With --pid a running process is recorded; that slows it, so it is never done inside a timed window.
    Exit 1 when something got slower than in the baseline, or when a profile shows nothing.
    JSON keys: observation.
    """
    from infra_agent.harness.measuring import to_json
    from probes.base import Verdict
    from probes.trace.profile.card import card

    if (file is None) == (pid is None) or (pid is not None and against is not None):
        raise UsageError("give a file, or --pid; --against belongs to a file", where=PLACE)
    observation = _recorded(pid, seconds, rate, no_pause) if pid is not None else _read(file, against)
    if as_json:
        print_json({"observation": to_json(observation)})
    else:
        print_lines(card(observation).split("\n"))
    return int(ExitCode.OK if observation.verdict is Verdict.PASS else ExitCode.NOT_MET)


def _recorded(pid: int, seconds: float, rate: int, no_pause: bool) -> Observation:
    from probes.trace.attach import AttachFailed, record

    stderr().print(f"recording process {pid} for {seconds:g} s")
    try:
        return record(pid, seconds, rate_hz=rate, pausing=not no_pause)
    except AttachFailed as error:
        raise UsageError(str(error), where=PLACE, hint="infra-agent probe run trace --help") from error


def _read(file: Path | None, against: Path | None) -> Observation:
    from probes.trace.profile.run import profile, profile_against
    from probes.trace.profile.source import UnreadableTrace

    path = file or Path()
    try:
        return profile(path) if against is None else profile_against(against, path)
    except UnreadableTrace as error:
        raise UsageError(str(error), where=PLACE, hint="infra-agent probe run trace --help") from error
