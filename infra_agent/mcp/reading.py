"""The tools that only read: runs, reports, ledgers, playbooks, the stack. Open to every client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from infra_agent.ledger.chain import read_chain
from infra_agent.ledger.runs import find_run, list_runs
from infra_agent.library.playbooks import load_playbooks
from infra_agent.mcp.models import (
    EventLine,
    Events,
    ParameterLine,
    PlaybookLine,
    PlaybookList,
    ReportSection,
    RunCard,
    RunLine,
    RunList,
    StackCard,
)
from infra_agent.publish.publish import load_state, report_of
from infra_agent.publish.report.facts import json_safe
from infra_agent.publish.report.text import summary_lines
from infra_agent.stack.engines import engine_of
from infra_agent.stack.files import resolve_stack

RunRef = Annotated[str, Field(max_length=40, description="`last`, a run's id, or the beginning of one")]
Section = Literal[
    "all", "outcome", "goal", "stack", "accepted", "decisions", "candidates", "verdicts", "hypotheses", "predictor",
    "claims", "answers", "noise", "families", "honesty_row", "final", "not_measured", "degraded", "refused_actions",
    "failed_launches", "cost", "llm", "reproduce", "before_after",
]  # fmt: skip
MOST_EVENTS = 200


class Reader:
    """Reads what lies under one directory of runs. Nothing is locked or changed."""

    def __init__(self, runs: Path, stack_ref: str | None, cwd: Path) -> None:
        self._runs = runs
        self._stack_ref = stack_ref
        self._cwd = cwd

    def runs_list(self) -> RunList:
        """All runs, newest first, with what became of them."""
        found = list_runs(self._runs)
        lines = [
            RunLine(
                id=run.id, started=run.started_ts, goal=run.goal_text, status=run.status, outcome=run.outcome,
                best=run.best,
            )
            for run in found
        ]  # fmt: skip
        return RunList(runs=lines)

    def run_show(self, run: RunRef = "last") -> RunCard:
        """One run in short: goal, verdict, what was kept, what waits for a person."""
        run_dir = find_run(self._runs, run)
        report = report_of(load_state(run_dir))
        return RunCard(
            id=report.run.id,
            status=report.run.status,
            brain=report.run.brain,
            goal=report.goal.text,
            met=report.outcome.met,
            outcome=report.outcome.sentence,
            best=report.best.title,
            accepted=[f"{row.candidate} {row.title}" for row in report.accepted],
            waiting=[f"{row.candidate} {row.title} ({row.risk})" for row in report.decisions],
            decide=[row.command for row in report.decisions],
            card=summary_lines(report),
        )

    def run_report(self, run: RunRef = "last", section: Section = "outcome") -> ReportSection:
        """One section of a run's report; `all` is the whole document of docs/report.schema.json."""
        run_dir = find_run(self._runs, run)
        document = report_of(load_state(run_dir)).model_dump(mode="json")
        content = document if section == "all" else document[section]
        return ReportSection(run=run_dir.name, section=section, content=content)

    def run_events(
        self,
        run: RunRef = "last",
        after: Annotated[int, Field(ge=0, description="sequence number to go on from")] = 0,
        kinds: Annotated[tuple[Annotated[str, Field(max_length=40)], ...], Field(max_length=20)] = (),
        limit: Annotated[int, Field(ge=1, le=MOST_EVENTS)] = 50,
    ) -> Events:
        """Events of a run's ledger in order, all kinds or some."""
        run_dir = find_run(self._runs, run)
        events = read_chain(run_dir).events
        wanted = [event for event in events if event.seq > after and (not kinds or event.kind in kinds)]
        lines = [
            EventLine(seq=event.seq, ts=event.ts, kind=event.kind, data=json_safe(dict(event.data)))
            for event in wanted[:limit]
        ]
        head = events[-1].seq if events else 0
        return Events(run=run_dir.name, events=lines, head=head, left_out=len(wanted) - len(lines))

    def playbook_list(self) -> PlaybookList:
        """The playbooks: symptom and lever families."""
        lines = [
            PlaybookLine(name=page.name, rank=page.rank, symptom=page.symptom, families=[x.family for x in page.levers])
            for page in load_playbooks()
        ]
        return PlaybookList(playbooks=lines)

    def stack_show(self) -> StackCard:
        """The stack that this server was started on, and what may change in it."""
        stack, source = resolve_stack(self._stack_ref, self._cwd)
        table = engine_of(stack).parameters()
        lines = [
            ParameterLine(
                name=p.name, title=p.title, type=p.type, default=p.default, values=list(stack.space.get(p.name, ())),
                risk=p.risk.value, family=p.family, evidence=p.evidence,
            )
            for p in table
        ]  # fmt: skip
        return StackCard(
            source=source,
            name=stack.name,
            engine=stack.engine,
            model=stack.served_model or stack.model or stack.url or "",
            workload=stack.workload.model_dump(mode="json"),
            parameters=lines,
        )
