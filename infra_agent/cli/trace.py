"""`infra-agent probe run trace`: where the time of a profile went, or what got slower between two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra_agent.cli.options import JsonFlag
from infra_agent.cli.output import print_json, print_lines
from infra_agent.errors import ExitCode, UsageError

File = Annotated[Path, typer.Argument(help="Chrome, Perfetto, py-spy or cProfile file, plain or packed.")]
Against = Annotated[Path | None, typer.Option(help="A trace of the same work to compare with.")]


def trace(file: File, against: Against = None, as_json: JsonFlag = False) -> int:
    """Break a profile down: time by kernel, idle time and why, overlap. With --against: what got slower, and where.

    Exit 1 when something got slower than in the baseline, or when a profile shows nothing.
    JSON keys: observation.
    """
    from infra_agent.harness.measuring import to_json
    from probes.base import Verdict
    from probes.trace.profile.card import card
    from probes.trace.profile.run import profile, profile_against
    from probes.trace.profile.source import UnreadableTrace

    try:
        observation = profile(file) if against is None else profile_against(against, file)
    except UnreadableTrace as error:
        raise UsageError(str(error), where="probe run trace", hint="infra-agent probe run trace --help") from error
    if as_json:
        print_json({"observation": to_json(observation)})
    else:
        print_lines(card(observation).split("\n"))
    return int(ExitCode.OK if observation.verdict is Verdict.PASS else ExitCode.NOT_MET)
