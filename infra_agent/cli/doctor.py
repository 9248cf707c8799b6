"""`infra-agent doctor`: can a run be done here, and with what noise?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra_agent.cli.narrator import TerminalNarrator
from infra_agent.cli.options import JsonFlag, NoSandbox, StackRef
from infra_agent.cli.output import print_json, print_lines, stderr
from infra_agent.errors import ExitCode, UsageError


def doctor(
    stack: StackRef = None,
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Also launch stock against itself: what can be proved here, how fast."),
    ] = False,
    goal: Annotated[
        str | None, typer.Option("--goal", help="With --noise: the goal whose load and metric are calibrated.")
    ] = None,
    no_sandbox: NoSandbox = False,
    as_json: JsonFlag = False,
) -> int:
    """Check sandbox, stack file, paths, engine and machine; every finding has a fix. Try to get through every wall.

    The exit code is 0 when every check is ok, else that of the worst finding: 6 stack, 5 sandbox, 2 configuration,
    1 only something that disturbs a measurement.
    JSON keys: checks[{name, ok, found, fix}], walls[{name, held, tried, seen}], and with --noise: metric, launches,
    blocks, sd_log, sd_block_log, drift_sd_log, mde_ratio, mde_blocks, block_s, stalled, measured_at, stored,
    effects[{ratio, blocks, minutes}].
    """
    from infra_agent.agent.checkup import check_machine
    from infra_agent.agent.noise import measure_noise, noise_lines
    from infra_agent.cli.run import read_goal
    from infra_agent.stack.files import resolve_stack

    if goal is not None and not noise:
        raise UsageError("--goal says what --noise calibrates", where="--goal", hint="doctor --noise --goal ...")
    wanted = read_goal(goal, None, resolve_stack(stack, Path.cwd())[0].metrics)[0] if goal is not None else None

    checkup = check_machine(stack, Path.cwd(), no_sandbox)
    document: dict[str, object] = {
        "checks": [{"name": c.name, "ok": c.ok, "found": c.found, "fix": c.fix} for c in checkup.findings],
        "walls": [{"name": w.name, "held": w.held, "tried": w.tried, "seen": w.seen} for w in checkup.walls],
    }
    if not as_json:
        print_lines(checkup.lines())
    failed = [check for check in checkup.findings if not check.ok]
    if noise and all(check.exit_code is ExitCode.NOT_MET for check in failed):
        with TerminalNarrator(stderr(), quiet=False) as narrator:
            found = measure_noise(stack, Path.cwd(), no_sandbox, narrator, wanted)
        document |= found
        if not as_json:
            print_lines(["", *noise_lines(found)])
    if as_json:
        print_json(document)
    return int(max((check.exit_code for check in failed), default=ExitCode.OK))
