"""Checks a whole run from its files: chain, meaning, artifacts, people's decisions, and heads that others hold.

The report beside the ledger is always taken as one of those others; approvals and pull requests are handed in.

Artifacts are found by key: every text under `artifact`, `artifacts` or a key that ends in `_artifact(s)`, at any depth
of an event's data, must be empty or the name of a file in `artifacts/` whose content has that sha256.
Each decision of a person must carry a signature that holds, by a reviewer of the run, for exactly what the ledger says.
The report and every decision file name a head of the ledger that must still be there: a cut tail shows only so.
Not covered: whether the measurements were right (the judge), and a writer who rewrites ledger and report together.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra_agent.errors import ApprovalRefused, LedgerError
from infra_agent.ledger import artifacts
from infra_agent.ledger.anchor import Anchor, missing_anchors
from infra_agent.ledger.chain import Chain, Problem, read_chain
from infra_agent.ledger.consent import consent_fault, consent_of
from infra_agent.ledger.decision_files import read_decisions
from infra_agent.ledger.event import Event
from infra_agent.ledger.fold import fold, step
from infra_agent.ledger.lock import has_writer
from infra_agent.ledger.state import RunState
from infra_agent.review.verify import signer

REPORT_FILE = "report.json"
_ARTIFACT_KEY = re.compile(r"(.*_)?artifacts?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result: number of events read, hash of the last, and every fault, the chain's first."""

    ok: bool
    events: int
    head_hash: str
    problems: tuple[Problem, ...]


def verify(run_dir: Path, anchors: Iterable[Anchor] = ()) -> Verification:
    """Check a run without changing it; may run beside a live writer. `anchors`: heads that others hold."""
    try:
        chain = read_chain(run_dir)
    except LedgerError as error:
        return Verification(ok=False, events=0, head_hash="", problems=(Problem(0, 0, error.message),))
    problems = list(chain.problems) or list(_meaning(chain))
    problems += _tail(run_dir, chain)
    problems += _artifacts(run_dir, chain)
    problems += _report_anchor(run_dir, chain)
    problems += missing_anchors(chain, anchors)
    problems += _consents(chain) if not chain.problems else ()
    problems += _decision_files(run_dir, chain)
    head = chain.events[-1].hash if chain.events else ""
    return Verification(ok=not problems, events=len(chain.events), head_hash=head, problems=tuple(problems))


def evidence_fault(run_dir: Path) -> str | None:
    """The first fault of the run's evidence; None when it is whole.

    Left out: people's decisions, and a torn tail, which says of nothing that was stored that it was changed.
    """
    chain = read_chain(run_dir)
    beside = (_artifacts(run_dir, chain), _report_anchor(run_dir, chain))
    return next((problem.what for problem in itertools.chain(chain.problems, _meaning(chain), *beside)), None)


def _meaning(chain: Chain) -> Iterator[Problem]:
    """The first event that cannot have happened; what follows it has no meaning."""
    if not chain.events:
        yield Problem(1, 1, "no event is stored")
    state: RunState | None = None
    for line, event in chain.records:
        try:
            state = step(state, event)
        except LedgerError as error:
            yield Problem(event.seq, line, error.message)
            return


def _tail(run_dir: Path, chain: Chain) -> Iterator[Problem]:
    # A live writer may be in the middle of an append.
    if chain.tail and not has_writer(run_dir):
        seq = chain.events[-1].seq + 1 if chain.events else 1
        what = f"event {seq} is torn ({len(chain.tail)} bytes); resuming the run cuts it off and keeps it"
        yield Problem(seq, chain.lines + 1, what)


def _artifacts(run_dir: Path, chain: Chain) -> Iterator[Problem]:
    faults: dict[str, str | None] = {}
    for line, event in chain.records:
        for name in sorted(set(_names(event))):
            if name not in faults:
                faults[name] = artifacts.fault(run_dir, name)
            if fault := faults[name]:
                yield Problem(event.seq, line, f"event {event.seq} ({event.kind}): {fault}")


def _names(event: Event) -> Iterator[str]:
    pending: list[tuple[bool, Any]] = [(False, event.data)]
    while pending:
        named, value = pending.pop()
        if isinstance(value, dict):
            pending += [(bool(_ARTIFACT_KEY.fullmatch(key)), child) for key, child in value.items()]
        elif isinstance(value, list):
            pending += [(named, child) for child in value]
        elif named and isinstance(value, str) and value:
            yield value


def _report_anchor(run_dir: Path, chain: Chain) -> Iterator[Problem]:
    """The report's `ledger: {head_seq, head_hash}` must name an event that is there: a cut tail shows here only."""
    path = run_dir / REPORT_FILE
    if not path.exists():
        return
    try:
        report = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        yield Problem(0, 0, f"{REPORT_FILE} cannot be read, so the end of the ledger is not anchored")
        return
    if not isinstance(report, dict) or "ledger" not in report:
        return
    anchor = report["ledger"] if isinstance(report["ledger"], dict) else {}
    seq, head = anchor.get("head_seq"), anchor.get("head_hash")
    if type(seq) is not int or not isinstance(head, str):
        yield Problem(0, 0, f"{REPORT_FILE} names no ledger head that can be checked")
        return
    yield from missing_anchors(chain, [Anchor(seq, head, REPORT_FILE)])


def _consents(chain: Chain) -> Iterator[Problem]:
    """Decisions in the ledger whose signature or binding does not hold."""
    try:
        state = fold(chain.events)
    except LedgerError:
        return  # said already: `_meaning` names the event
    lines = {event.seq: line for line, event in chain.records}
    for id, candidate in state.candidates.items():
        consent = consent_of(candidate)
        fault = consent_fault(state, id)
        if consent is not None and fault is not None:
            seq = next(event.seq for event in state.events if event.data is consent)
            yield Problem(seq, lines[seq], f"event {seq} ({consent.kind}): {fault}")


def _decision_files(run_dir: Path, chain: Chain) -> Iterator[Problem]:
    try:
        found = read_decisions(run_dir)
    except ApprovalRefused as error:
        yield Problem(0, 0, f"{error.what} ({error.where})")
        return
    records = {event.seq: (line, event) for line, event in chain.records}
    for path, decision in found:
        evidence = decision.request.get("evidence")
        named = evidence if isinstance(evidence, dict) else {}
        seq = named.get("seq")
        try:
            signer(decision.signed())
        except ApprovalRefused as error:
            yield Problem(0, 0, f"{path.name}: {error.what}")
            continue
        if type(seq) is not int or not decision.whole:
            yield Problem(0, 0, f"{path.name}: the request in it is not the one that was signed")
        elif seq not in records:
            yield Problem(seq, 0, f"event {seq} is missing: {decision.grant.reviewer} saw it ({path.name})")
        elif records[seq][1].hash != named.get("hash"):
            what = f"event {seq} is not the one that {decision.grant.reviewer} saw ({path.name})"
            yield Problem(seq, records[seq][0], what)
