"""A report as text, JSON and SARIF 2.1.0."""

from __future__ import annotations

from typing import Any

from probes.base import Cost, Observation, Quantity, Rung, Verdict, Where
from probes.static.gil_scan.model import Fault, Finding, Place, Report

NAME = "static.gil-scan"
RULES = {
    Fault.WAIT: "A native function waits while it holds Python's GIL: no other Python thread can run.",
    Fault.PYTHON: "A Python object is used where the GIL has been released.",
    Fault.TINY: "The GIL is given up and taken back for work of a few instructions, many times.",
}


def document(report: Report) -> dict[str, Any]:
    """The JSON document of `--json`."""
    return {
        "findings": [_finding(finding) for finding in report.findings],
        "functions_that_release": list(report.released),
        "files": report.files,
        "exports": len(report.exports),
        "exported_without_source": list(report.unseen),
        "parsed_in_part": list(report.damaged),
        "unreadable": list(report.unreadable),
        "wall_s": round(report.wall_s, 3),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "fault": finding.fault.value,
        "function": finding.function,
        "exported": finding.exported,
        "binding": finding.binding,
        "file": finding.at.file,
        "line": finding.at.line,
        "reason": finding.reason,
        "fix": {
            "form": finding.form,
            "text": finding.fix,
            "guard": finding.guard,
            "at": {**_place(finding.fix_at), "column": finding.fix_column} if finding.fix_at else None,
        },
        "bound_at": _place(finding.bound_at),
        "calls": [_place(place) for place in finding.calls],
        "also_at": [_place(place) for place in finding.more],
    }


def _place(place: Place) -> dict[str, Any]:
    return {"file": place.file, "line": place.line}


def lines(report: Report) -> list[str]:
    """What a person reads."""
    shown = []
    for finding in report.findings:
        shown.append(f"{finding.at}: {finding.fault.value}: {finding.function} (Python name {finding.exported})")
        shown.append(f"    why   {finding.reason}")
        shown += [f"    via   {place}" for place in finding.calls]
        shown.append(f"    fix   {finding.fix}")
    count = len(report.findings)
    shown.append(
        f"{count or 'no'} finding{'s' * (count != 1)} in {len(report.exports)} exported functions "
        f"of {report.files} files ({report.wall_s:.2f} s)"
    )
    if report.unseen:
        shown.append(
            f"not looked into, no source here: {', '.join(report.unseen[:12])}{' …' * (len(report.unseen) > 12)}"
        )
    if report.damaged:
        shown.append(f"parsed in part: {', '.join(report.damaged)}")
    return shown + [f"not read: {why}" for why in report.unreadable]


def sarif(report: Report, version: str) -> dict[str, Any]:
    """SARIF 2.1.0 with one run; file names are relative to the scanned folder."""
    rules = [
        {"id": fault.value, "shortDescription": {"text": text}, "defaultConfiguration": {"level": _level(fault)}}
        for fault, text in RULES.items()
    ]
    driver = {"name": "gil_scan", "version": version, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(finding) for finding in report.findings]}],
    }


def _level(fault: Fault) -> str:
    return "error" if fault is Fault.PYTHON else "warning"


def _result(finding: Finding) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.fault.value,
        "level": _level(finding.fault),
        "message": {"text": f"{finding.function} ({finding.exported}): {finding.reason}. {finding.fix}."},
        "locations": [_location(finding.at)],
        "relatedLocations": [_location(finding.bound_at), *(_location(place) for place in finding.more)],
    }
    if finding.calls:
        steps = [{"location": _location(place)} for place in (*finding.calls, finding.at)]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return result


def _location(place: Place) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": place.file, "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": place.line},
        }
    }


def observe(report: Report) -> Observation:
    """The scan as an observation tied to the first finding's line."""
    first = next(iter(report.findings), None)
    where = Where(file=first.at.file, line=first.at.line) if first is not None else Where(whole_system=True)
    waits = [finding for finding in report.findings if finding.fault is Fault.WAIT]
    blind = bool(report.damaged or report.unreadable or (report.unseen and not report.findings))
    verdict = Verdict.FAIL if report.findings else Verdict.INCONCLUSIVE if blind or not report.exports else Verdict.PASS
    return Observation(
        probe=NAME, rung=Rung.STATIC, verdict=verdict, summary=lines(report)[-1] if first is None else (
            f"{first.function} at {first.at}: {first.reason}"
        ), where=where, cost=Cost(wall_s=report.wall_s),
        quantities=(Quantity(name="waits_with_gil", value=len(waits), unit="functions", n=len(report.exports)),),
        signals={"gil_held_while_waiting": bool(waits), "function": first.function if first else ""},
        detail=document(report),
    )  # fmt: skip
