"""What `probe run numeric` does: one function against its reference, behind the walls."""

from __future__ import annotations

import sys
from pathlib import Path

from infra_agent.cli.output import print_json, print_lines
from infra_agent.errors import ExitCode, UsageError

EXAMPLE = "infra-agent probe run numeric --candidate fast.py:softmax --reference plain.py:softmax --spec softmax.toml"


def measure(
    candidate: str | None,
    command: str | None,
    reference: str | None,
    spec: Path | None,
    python: str | None,
    fresh: bool,
    no_sandbox: bool,
    as_json: bool,
) -> int:
    """Judge and show. Exit 1 for every verdict but `pass`. JSON keys: observation."""
    from infra_agent.harness.numeric_runner import SandboxRunner
    from infra_agent.harness.sandbox import hold_walls
    from probes.numeric.judge.card import card
    from probes.numeric.judge.faults import JudgeFailure
    from probes.numeric.judge.verdict import Ask, judge

    if reference is None or spec is None:
        raise UsageError("a numeric probe needs --reference and --spec", where="probe run numeric", hint=EXAMPLE)
    ask = Ask(
        reference=reference, spec=spec, candidate=candidate, command=command, python=python or sys.executable,
        use_cache=not fresh,
    )  # fmt: skip
    try:
        document = judge(ask, SandboxRunner(lambda: hold_walls(no_sandbox), no_sandbox=no_sandbox))
    except JudgeFailure as error:
        raise UsageError(str(error), where="probe run numeric", hint=EXAMPLE) from error
    if as_json:
        print_json({"observation": document})
    else:
        print_lines(card(document))
    return int(ExitCode.OK if document["verdict"] == "pass" else ExitCode.NOT_MET)
