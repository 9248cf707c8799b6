"""Writes what a run leaves behind for people: report.html and report.json, both from the ledger's fold."""

from __future__ import annotations

import json
from pathlib import Path

from infra_agent.errors import LedgerError
from infra_agent.ledger.chain import read_chain
from infra_agent.ledger.disk import disk_error
from infra_agent.ledger.fold import fold
from infra_agent.ledger.state import RunState
from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.html import write_report
from infra_agent.publish.report.model import Report
from infra_agent.redact.masker import NO_SECRETS, Masker
from infra_agent.stack.engines import engine_of

RATES = Path(__file__).with_name("data") / "judge_error_rates.json"


def report_of(state: RunState) -> Report:
    """The report of a state."""
    table = tuple(engine_of(state.started.stack).parameters())
    return build_report(state, {"parameters": table, "judge_error_rates": judge_error_rates()})


def judge_error_rates() -> dict[str, float]:
    """Simulated error rates of the judge as last calibrated; empty when they were never measured."""
    if not RATES.is_file():
        return {}
    document = json.loads(RATES.read_text(encoding="utf-8"))
    names = {"false_accept": "useless changes accepted", "false_worse": "useless changes called worse"}
    return {f"{names[name]}, worst world ({document['date']})": rate for name, rate in document["rates"].items()}


def publish(run_dir: Path, state: RunState, masker: Masker = NO_SECRETS) -> tuple[Path, Path]:
    """Write both files; returns their paths (HTML, JSON). UsageError when the disk refuses: the ledger has it all.

    A ledger holds no secrets known when it was written; `masker` adds those known now.
    """
    try:
        return write_report(run_dir, report_of(state), masker)
    except OSError as error:
        lost = "the run has ended and is recorded, its report is not written"
        raise disk_error(error, run_dir, run_dir.name, lost=lost, then="report") from error


def load_state(run_dir: Path) -> RunState:
    """The state of any run, read without taking its lock. Raises LedgerError for a damaged one."""
    chain = read_chain(run_dir)
    if chain.problems:
        first = chain.problems[0]
        raise LedgerError(
            f"event {first.seq} of run {run_dir.name} is damaged: {first.what}",
            where=f"{run_dir}, line {first.line}",
            hint=f"infra-agent runs verify {run_dir.name}",
        )
    return fold(chain.events)
