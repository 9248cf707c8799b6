"""`make harness-tests`: every requirement of the harness, and what the tests that prove it said just now.

    python scripts/requirements.py [ID ...] [--workers 2]

A test names what it proves with `@pytest.mark.requirement("E1")`. Prints one line per requirement and a sum:

    E1 pass  every command runs behind the walls and leaves nothing  (34 tests)
    ...
    19 passed, 0 failed

Exit code 1 when any of its tests fails or is skipped, when a requirement has no test, and when a test names an unknown
one. A skipped check never counts as passed.
Covered: ids, titles and results. Not covered: whether a test proves enough; that is for the reader of the test.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = {
    "E1": "every command runs behind the walls, and nothing outlives it",
    "E2": "output is bounded, and one deadline covers start, run, drain and kill",
    "E3": "memory, processes and disk are limited; how is printed",
    "E4": "the walls are tried at start; a missing one ends the command, degraded modes are recorded",
    "E5": "evaluator, reference and timers are out of the candidate's reach",
    "A1": "a request for approval is canonical: what it covers is hashed, prose is not",
    "A2": "a grant is signed, single use, bound and re-checked at the edge of execution",
    "A3": "denied by default; no terminal, no prompt; no approval from inside the sandbox",
    "A4": "every tool declares its effects, and a new one without them fails",
    "A5": "pending approvals survive a crash",
    "L1": "one append-only chained ledger with one writer; torn tails and unknown kinds survive",
    "L2": "chain, count and outside anchors are verified",
    "L3": "state is the fold of events; intents are stored first, and an open one is never just repeated",
    "L4": "run ids never collide; a run without a writer and an end is resumable",
    "L5": "nothing that is read can become code",
    "L6": "killed at any event, on full, failing or lying machines, a run resumes to the same end",
    "B1": "budgets are reserved before a call and charged for every billed answer",
    "B2": "one retry layer, bounded, drawing from the budget",
    "B3": "a run without progress stops with a reason",
    "S1": "secrets stay out of children and are masked in every artefact",
    "S2": "what tools say is data, never an order",
    "S3": "nothing untrusted steers a terminal",
    "P1": "patches stay inside their scope, whatever their paths say",
}


class Outcome(NamedTuple):
    """One test: what it proves and how it ended (`passed`, `failed`, `error` or `skipped`)."""

    name: str
    requirements: tuple[str, ...]
    result: str


def main() -> int:
    """Run the marked tests and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("ids", nargs="*", help="only these requirements (default: all)")
    parser.add_argument("--workers", default="2", help="test processes at once")
    options = parser.parse_args()
    wanted = {id_: title for id_, title in REQUIREMENTS.items() if not options.ids or id_ in options.ids}
    unknown = set(options.ids) - set(REQUIREMENTS)
    if unknown:
        parser.error(f"no requirement {', '.join(sorted(unknown))}; there are {', '.join(REQUIREMENTS)}")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        code, output = run_tests(report, options.workers)
        outcomes = read(report) if report.is_file() else []
    lines, failed = table(wanted, outcomes)
    stray = sorted({id_ for outcome in outcomes for id_ in outcome.requirements} - set(REQUIREMENTS))
    lines += [f"?? FAIL  a test names the unknown requirement {id_}" for id_ in stray]
    if failed or stray or not outcomes:
        sys.stderr.write(output)
    print("\n".join(lines))
    print(f"{len(wanted) - failed} passed, {failed + len(stray)} failed")
    broken = code not in (0, 1) or not outcomes
    return 1 if failed or stray or broken else 0


def run_tests(report: Path, workers: str) -> tuple[int, str]:
    """Run every marked test, slow ones included; the exit code and the output of pytest."""
    command = [sys.executable, "-m", "pytest", "-m", "requirement", "-n", workers, "-q", "--no-header", "-rfEs"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}", "-o", "junit_family=xunit1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout[-20_000:] + done.stderr[-4_000:]


def read(report: Path) -> list[Outcome]:
    """The tests in pytest's XML report, with the requirements that tests/conftest.py wrote into it."""
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        properties = case.iterfind("properties/property[@name='requirement']")
        ids = tuple(str(each.get("value")) for each in properties)
        kinds = {"failure": "failed", "error": "error", "skipped": "skipped"}
        result = next((word for tag, word in kinds.items() if case.find(tag) is not None), "passed")
        found.append(Outcome(f"{case.get('classname')}::{case.get('name')}", ids, result))
    return found


def table(wanted: Mapping[str, str], outcomes: Iterable[Outcome]) -> tuple[list[str], int]:
    """One line per requirement, with what went wrong below it, and how many did not pass."""
    by_id: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        for id_ in outcome.requirements:
            by_id[id_].append(outcome)
    lines: list[str] = []
    failed = 0
    for id_, title in wanted.items():
        mine = by_id[id_]
        bad = [outcome for outcome in mine if outcome.result != "passed"]
        failed += bool(bad) or not mine
        lines.append(f"{id_} {'pass' if mine and not bad else 'FAIL'}  {title}  ({_count(mine)})")
        lines += [f"        {outcome.result}: {outcome.name}" for outcome in bad]
    return lines, failed


def _count(outcomes: list[Outcome]) -> str:
    """How many tests, and what became of those that did not pass."""
    results = Counter(outcome.result for outcome in outcomes)
    words = ["no test" if not outcomes else f"{len(outcomes)} test{'s' if len(outcomes) > 1 else ''}"]
    words += [f"{count} {result}" for result, count in sorted(results.items()) if result != "passed"]
    return ", ".join(words)


if __name__ == "__main__":
    sys.exit(main())
