"""The sections of a pull request's body, made from the report alone, so that its figures are the report's.

Covered: every section that a maintainer asks for; a figure that was not measured is said to be missing.
Not covered: their order and headings in a project's template (`template`), words of the person who submits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra_agent.publish import tables
from infra_agent.publish.pull_request import gain_test
from infra_agent.publish.pull_request.branch import Made
from infra_agent.publish.report import format
from infra_agent.publish.report.facts import is_headline
from infra_agent.publish.report.model import Report
from infra_agent.publish.report.rows import AcceptedRow

HUMAN = "For the person who submits this"
_LEAVE_EMPTY = "<!-- Left empty by the program on purpose: what you checked yourself, in your own words. -->"
_MOST_TRIED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section. `key` is how templates find it; `lines` are Markdown."""

    key: str
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the report does not hold: the commits, words of people, files beside the body, and what differs."""

    commits: tuple[Made, ...] = ()
    base: str = ""
    not_duplicate: str = ""
    human: str = ""
    tests: tuple[str, ...] = ()
    artefacts: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    """Changes that the branch does not hold, in words."""
    differing: tuple[str, ...] = ()


def sections(report: Report, given: Given) -> list[Section]:
    """All sections in the order in which they are read."""
    made = (
        ("purpose", "Purpose", _purpose(report)),
        ("duplicate", "Not a duplicate because", _duplicate(given)),
        ("change", "Change and risk", _change(report, given)),
        ("tests", "Tests", _tests(report, given)),
        ("accuracy", "Accuracy", _accuracy(report)),
        ("micro", "Micro-benchmarks", _micro(report)),
        ("end_to_end", "End to end", _end_to_end(report)),
        ("limits", "Where it does not help", _limits(report)),
        ("environment", "Environment and commands", _environment(report, given)),
        ("ledger", "Evidence", _ledger(report)),
        ("ai", "AI assistance", _assistance(report)),
        ("human", HUMAN, [given.human.strip() or _LEAVE_EMPTY]),
    )
    return [Section(key=key, title=title, lines=tuple(lines)) for key, title, lines in made]


def title_of(report: Report) -> str:
    """One line: class, change, and the gain in the goal's metric."""
    names = ", ".join(" ".join(format.clean(row.title, 80).split()) for row in report.accepted)
    row = next((row for row in report.before_after if row.is_goal), None)
    metric = row.label.lower() if row is not None else report.goal.metric.value
    found = report.final.estimate if report.final is not None else report.accepted[-1].estimate
    gain = (
        f": {format.ratio(found.ratio, format.decimals(found.low, found.high))} {metric}" if found is not None else ""
    )
    return f"[Perf] {names}{gain}"[:200]


def _purpose(report: Report) -> list[str]:
    claims = {claim.candidate: claim for claim in report.claims}
    causes = {row.id: row.cause for row in report.hypotheses}
    lines = [f"{tables.plain(report.goal.target_text)} · {tables.plain(report.goal.load_text)}."]
    for row in report.accepted:
        stated = next((c.hypothesis for c in report.candidates if c.id == row.candidate), "")
        why = tables.plain(causes.get(stated, ""))
        claim = claims.get(row.candidate)
        kind = claim.kind if claim is not None else "not established"
        lines.append(f"- **{row.candidate}** {tables.plain(row.title)}: {why or 'no cause was stated'} ({kind}).")
    return lines


def _duplicate(given: Given) -> list[str]:
    return [
        tables.plain(given.not_duplicate, 2000) or "Not looked up yet: a person has to search before this is opened."
    ]


def _change(report: Report, given: Given) -> list[str]:
    lines: list[str] = []
    commits = {made.candidate: made for made in given.commits}
    for row in report.accepted:
        made = commits.get(row.candidate)
        where = f"commit {made.commit[:12]}" if made is not None else "not in the branch"
        lines.append(f"- **{row.candidate}** {tables.plain(row.title)}: risk class `{row.risk}`, {where}. {_gate(row)}")
        lines += [f"  - {tables.code(format.change(change))}" for change in row.changes]
        if row.patch is not None:
            named = ", ".join(tables.code(file) for file in row.patch.files)
            lines.append(f"  - {named} (+{row.patch.added} -{row.patch.removed})")
        lines.append(f"  - Undo: {tables.plain(row.undo.text)}")
    lines += [f"- Not in the branch: {tables.plain(text)}" for text in given.outside]
    lines += [f"- As a file: {tables.code(name)}" for name in given.artefacts]
    return lines


def _gate(row: AcceptedRow) -> str:
    signed = ", ".join(f"{tables.plain(by.reviewer)} ({tables.code(by.fingerprint)})" for by in row.approvals)
    return f"Approved by {signed}." if signed else f"{tables.plain(row.gate)}."


def _tests(report: Report, given: Given) -> list[str]:
    lines = [
        f"- {tables.code('python ' + gain_test.FILE)} (in the evidence) passes with the change and "
        f"{tables.code('python ' + gain_test.FILE + ' --before')} fails without it: wanted is "
        f"{format.ratio(gain_test.wanted_ratio(report), 3)}."
    ]
    lines += [f"- {text}" for text in given.tests]
    blocks = report.final.blocks if report.final is not None else []
    held = [
        block for block in blocks if block.valid and block.base_value is not None and block.candidate_value is not None
    ]
    if held:
        higher = report.goal.direction.value == "maximise"
        better = sum(1 for b in held if ((b.candidate_value or 0) > (b.base_value or 0)) is higher)
        lines.append(f"- Measured so {len(held)} times on fresh seeds, both orders: better in {better} of {len(held)}.")
    return lines


def _accuracy(report: Report) -> list[str]:
    found = report.answers
    counted = ""
    if found.same is not None:
        counted = f": {found.same} answers the same, {found.near_ties} near-ties, {found.changed} changed"
    lines = [
        f"Answer check of {found.candidate}: **{found.verdict.replace('_', ' ')}**{counted} "
        f"({', '.join(found.sources)})."
    ]
    if found.detail:
        lines.append(f"{tables.plain(found.detail)}.")
    lines += [
        f"Not checked: {tables.plain(g.reason)}." for g in report.not_measured if g.what in ("logprobs", "answers")
    ]
    return lines


def _micro(report: Report) -> list[str]:
    found = tables.micro(report, [row.candidate for row in report.accepted])
    return found or ["No micro-benchmark was part of this run; the change was measured end to end."]


def _end_to_end(report: Report) -> list[str]:
    if not report.before_after:
        return ["No metric was measured in both configurations."]
    windows = "the final relaunch on fresh seeds" if report.before_after[0].windows == "final" else "the search"
    shown = [row for row in report.before_after if row.is_goal or is_headline(row.name)]
    lines = [*tables.before_after(shown or report.before_after), ""]
    lines.append(f"Windows of {windows}; brackets are 95 % intervals over fresh launches, n counts launches.")
    if report.final is not None:
        e = report.final.estimate
        lines.append(
            f"Judged over {e.n} paired blocks: {format.estimate(e)} "
            f"({e.confidence * 100:g} %, {tables.plain(e.method)})."
        )
    if report.noise is not None:
        gain, blocks = format.percent_above(report.noise.mde_ratio), report.noise.blocks
        lines.append(f"Smallest gain that this machine can prove in {blocks} blocks: {gain} ({report.noise.source}).")
    return lines


def _limits(report: Report) -> list[str]:
    lines = [
        f"- Worse: {tables.plain(row.label)} ({tables.ratio(row.change)})"
        for row in report.before_after
        if row.better is False
    ]
    same = [tables.plain(row.label) for row in report.before_after if row.better is None]
    lines += [f"- No difference shown: {'; '.join(same)}"] if same else []
    lines += [f"- Not measured: {tables.plain(g.reason)}" for g in report.not_measured]
    tried = tables.tried(report)
    if tried:
        lines += ["", "Tried beside it and not part of it:", "", *tried[: _MOST_TRIED + 2]]
        if len(tried) > _MOST_TRIED + 2:
            lines.append(f"{len(tried) - _MOST_TRIED - 2} more in the evidence.")
    return lines or ["Nothing was found where it does not help; other loads and machines were not measured."]


def _environment(report: Report, given: Given) -> list[str]:
    facts = ", ".join(f"{tables.plain(key)} {tables.plain(value)}" for key, value in report.environment.items())
    workload = ", ".join(f"{key} {format.setting(value)}" for key, value in report.stack.workload.items())
    lines = [
        f"{tables.plain(report.stack.engine)} serving {tables.code(report.stack.served_model)}; "
        f"{facts or 'not recorded'}.",
        f"Workload: {tables.plain(workload)}.",
    ]
    if given.base:
        lines.append(f"On commit {tables.code(given.base)}.")
    if given.differing:
        lines.append(
            f"Measured beside {len(given.differing)} other files that differ from that commit: see the evidence."
        )
    return [*lines, "", *tables.block("\n".join(report.reproduce), "sh")]


def _ledger(report: Report) -> list[str]:
    head = f"{report.ledger.head_seq}:{report.ledger.head_hash}"
    return [
        f"Run {tables.code(report.run.id)}, {report.ledger.events} events, hash-chained; head {tables.code(head)}.",
        "Check it with `infra-agent runs verify RUN --anchor HEAD`; every figure above stands in `report.json` there.",
    ]


def _assistance(report: Report) -> list[str]:
    people = sorted({by.reviewer for row in report.accepted for by in row.approvals if by.decision == "approve"})
    reviewed = (
        f"Approved by {', '.join(tables.plain(name) for name in people)} with signed decisions."
        if people
        else "No person had to approve it: its class of risk needs none."
    )
    return [
        f"AI assistance was used: the change was found, measured and described by infra-agent {report.run.version}, "
        f"brain {tables.plain(report.run.brain)}{_note(report)}. {reviewed}"
    ]


def _note(report: Report) -> str:
    return f" ({tables.plain(report.run.brain_note)})" if report.run.brain_note else ""


def all_text(found: Sequence[Section]) -> str:
    """All sections under their own headings."""
    return "\n\n".join("\n".join([f"## {section.title}", "", *section.lines]) for section in found) + "\n"
