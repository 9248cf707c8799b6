"""The end card: the report in a few plain lines, for a terminal or a pipe.

Covered: what was kept and how sure, how the rest ended, plain search beside it, the goal, where the report is.
Not covered: colour and width (the command line's work).
"""

from __future__ import annotations

from collections import Counter

from infra_agent.publish.report.format import clean, estimate
from infra_agent.publish.report.model import Honesty, Report
from infra_agent.publish.report.reason_rows import CauseClaim
from infra_agent.publish.report.rows import AcceptedRow, DecisionNeeded

_LABEL_WIDTH = 11
_MOST_DIFF_LINES = 60


def summary_lines(report: Report) -> list[str]:
    """The end card, one line per entry, free of control characters."""
    lines = [_line("Accepted", _accepted(row, report)) for row in report.accepted] or [_line("Accepted", "none")]
    lines += [line for row in report.decisions for line in _decision(row, report)]
    changed: list[AcceptedRow | DecisionNeeded] = [*report.accepted, *report.decisions]
    lines += [line for row in changed for line in _patch(row)]
    lines.append(_line("Rejected", _others(report)))
    lines.append(_line("Goal", report.outcome.sentence))
    lines.append(_line("Report", f"runs/{report.run.id}/report.html"))
    lines.append(_line("Reproduce", f"infra-agent runs show {report.run.id} --commands"))
    return [clean(line) for line in lines]


def _line(label: str, text: str) -> str:
    return f"{label:<{_LABEL_WIDTH}}{' '.join(text.split(chr(10)))}"


def _accepted(row: AcceptedRow, report: Report) -> str:
    blocks = f" over {row.estimate.n} blocks" if row.estimate is not None else ""
    if row.final is not None:
        fresh = f" · fresh seeds {estimate(row.final)}"
    else:
        replaced = report.final is not None
        fresh = "" if replaced else " · not relaunched on fresh seeds"
    by = f" · {row.gate}" if row.approvals else ""
    return f"{row.candidate} {row.title}   {estimate(row.estimate)}{blocks}{fresh}{by}"


def _decision(row: DecisionNeeded, report: Report) -> list[str]:
    """What waits for a person, with the command that shows all of it."""
    missing = [gap.reason if gap.what == "note" else gap.what.replace("_", " ") for gap in report.not_measured]
    blocks = f" over {row.estimate.n} blocks" if row.estimate is not None else ""
    return [
        _line("Waiting", f"for approval: {row.candidate} ({row.risk}): {row.title}"),
        "  " + _line("Claim", row.claim or "no hypothesis was stated"),
        "  " + _line("Cause", _cause(row.candidate, report)),
        "  " + _line("Evidence", f"{estimate(row.estimate)}{blocks}"),
        "  " + _line("Not tested", ", ".join(missing) or "nothing is known to be missing"),
        "  " + _line("Decide", row.command),
    ]


def _cause(candidate: str, report: Report) -> str:
    claim = next((claim for claim in report.claims if claim.candidate == candidate), None)
    if claim is None:
        return "not established"
    if isinstance(claim, CauseClaim):
        return f"{claim.statement}; taking it back undoes it"
    return f"not established, {'; '.join(claim.missing)}"


def _patch(row: AcceptedRow | DecisionNeeded) -> list[str]:
    """The code change of a kept or waiting candidate, and the way back."""
    patch = row.patch
    if patch is None:
        return []
    diff = patch.diff.split("\n")
    shown = [f"{'':{_LABEL_WIDTH}}{line}" for line in diff[:_MOST_DIFF_LINES] if line]
    if len(diff) > _MOST_DIFF_LINES:
        shown.append(f"{'':{_LABEL_WIDTH}}… {len(diff) - _MOST_DIFF_LINES} more lines")
    lines = [_line("Patch", f"{row.candidate} {patch.artifact}"), *shown]
    if patch.apply:
        lines += [_line("  apply", patch.apply), _line("  undo", patch.undo)]
    return lines


def _others(report: Report) -> str:
    ends = Counter(row.end for row in report.candidates if row.lane == "agent")
    parts = [
        str(ends["rejected"]),
        f"Inconclusive {ends['inconclusive']}",
        f"Not engaged {ends['not_engaged']}",
        f"Crashed {ends['crashed']}",
        f"Honesty row: {_honesty(report.honesty_row)}",
    ]
    return "    ".join(parts)


def _honesty(row: Honesty | None) -> str:
    if row is None:
        return "plain search was not run"
    found = estimate(row.estimate) if row.estimate is not None else f"nothing ({row.decision})"
    shared = f", the same as {row.shared_with}" if row.shared_with else ""
    return f"plain search, same time: {found}{shared}"
