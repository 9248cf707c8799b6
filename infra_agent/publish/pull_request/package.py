"""The package of a pull request: `runs/<id>/pull_request/` with branch, body, patches and evidence.

    body.md  title.txt  HUMAN.md     what a maintainer reads; HUMAN.md is yours and is never overwritten
    package.json                     base, branch, commits, rules, what is missing, whether it may be opened
    repo.git  patches/               the branch, and its commits as files for `git am`
    artefacts/                       the launch as files, when settings were changed
    evidence/                        report, ledger, signed approvals, commands, the failing-before test

Covered: making it, and making it again. Not covered: sending it anywhere (`draft`, `remote`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra_agent.changes.git import Git
from infra_agent.errors import UsageError
from infra_agent.ledger.approvals import Authority
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.consent import consent_of, grants_of
from infra_agent.ledger.state import CandidateState, RunState
from infra_agent.publish.artefacts.launch import Artefacts, artefacts, launch_of
from infra_agent.publish.publish import report_of
from infra_agent.publish.pull_request import branch as branches
from infra_agent.publish.pull_request import gain_test, policy
from infra_agent.publish.pull_request.chain import accepted_chain
from infra_agent.publish.pull_request.lint import Finding, lint
from infra_agent.publish.pull_request.remote import Remote
from infra_agent.publish.pull_request.rules import GENERAL, RuleSet
from infra_agent.publish.pull_request.sections import Given, sections, title_of
from infra_agent.publish.pull_request.target import Place, find_place
from infra_agent.publish.pull_request.template import arrange
from infra_agent.publish.report import format
from infra_agent.publish.report.html import render, to_json
from infra_agent.publish.report.model import Report
from infra_agent.redact.masker import NO_SECRETS, Masker

FOLDER = "pull_request"
HUMAN_FILE = "HUMAN.md"
PACKAGE_FILE = "package.json"
_HUMAN_TEXT = (
    "<!-- Your own words for the maintainers: what you checked, what you can defend. This file is yours. -->\n"
)
_SAFE_CLASSES = frozenset({"routine", "trade"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to make. `folder`: where to put it; `remote`: whose default branch is the base of launch settings."""

    run_dir: Path
    folder: Path
    authority: Authority
    rules: RuleSet = GENERAL
    repo: Path | None = None
    source: str = ""
    remote: Remote | None = None
    base_branch: str = ""
    branch: str = ""
    config_path: str = ""
    not_duplicate: str = ""
    policy_allows: str = ""
    """Why a sentence that seems to forbid it does not: a person's word, kept in the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package as it was written."""

    folder: Path
    title: str
    body: str
    rules: RuleSet
    branch: str
    base: str
    base_branch: str
    commits: tuple[branches.Made, ...]
    missing: tuple[Finding, ...]
    refused: str
    git: Git | None = field(repr=False)

    @property
    def head(self) -> str:
        """The branch's commit; empty without a branch."""
        return self.commits[-1].commit if self.commits else ""

    def document(self) -> dict[str, Any]:
        """package.json."""
        return {
            "title": self.title,
            "branch": self.branch if self.commits else "",
            "base": self.base,
            "base_branch": self.base_branch,
            "commits": [{"candidate": m.candidate, "commit": m.commit, "files": list(m.files)} for m in self.commits],
            "rules": {"name": self.rules.name, "citations": [str(each) for each in self.rules.citations]},
            "missing": [{"demand": str(f.demand), "says": f.says, "citation": f.citation} for f in self.missing],
            "refused": self.refused,
        }


def make_package(order: Order, state: RunState, masker: Masker = NO_SECRETS) -> Package:
    """Make or renew the package. UsageError, LedgerError, ApprovalRefused, ConfigError; then nothing was replaced."""
    chain = accepted_chain(order.run_dir, state, order.authority)
    report = report_of(state)
    before = read_package(order.folder)
    place = find_place(
        state, chain, order.folder / "repo.git", repo=order.repo, wanted=order.source, remote=order.remote,
        pinned=str(before.get("base", "")) if before.get("branch") == _branch(order) else "",
    )  # fmt: skip
    made, outside, differing, files = _commits(order, state, chain, report, place)
    template = policy.template_in(place.read)
    given = Given(
        commits=made, base=place.base or "", not_duplicate=order.not_duplicate, human=_human(order.folder),
        artefacts=tuple(f"artefacts/{name}" for name in files.files), outside=(*outside, *files.gaps),
        differing=differing, tests=_own_tests(chain),
    )  # fmt: skip
    text = arrange(sections(report, given), template[1] if template else "", order.rules.headings)
    # Who reads it needs no name of an account here; the exact commands are in the evidence.
    body = masker.text(text.replace(f"{Path.home()}/", "~/"))
    package = Package(
        folder=order.folder,
        title=masker.text(title_of(report)),
        body=body,
        rules=order.rules,
        branch=_branch(order),
        base=place.base or "",
        base_branch=order.base_branch or place.base_branch,
        commits=made,
        missing=tuple(lint(body, order.rules, template[1] if template else "", _affects_output(report))),
        refused=_refusal(order, place, template[1] if template else ""),
        git=place.git,
    )
    _write(order, package, state, chain, report, files, differing, masker)
    return package


def read_package(folder: Path) -> Mapping[str, Any]:
    """package.json of an earlier call; empty without one."""
    try:
        document = json.loads((folder / PACKAGE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _commits(
    order: Order, state: RunState, chain: Sequence[CandidateState], report: Report, place: Place
) -> tuple[tuple[branches.Made, ...], tuple[str, ...], tuple[str, ...], Artefacts]:
    """The branch's commits, what it does not hold, files that differ from what was measured, and the launch's files."""
    settings = any(candidate.proposed.changes for candidate in chain)
    files = _artefacts_of(state, chain[-1], report) if settings else Artefacts(files={}, gaps=())
    if place.git is None:
        return (), ("launch settings: no repository was named, so there is no branch (--repo or --remote)",), (), files
    config = order.config_path or ("" if place.source is not None else f"infra-agent/{_slug(report.stack.name)}")
    outside = [f"changes in {name}, which lies elsewhere" for name in place.others]
    if settings and not config:
        outside.append(
            "launch settings: they are files of the package, not of this project (--config-path puts them in)"
        )
    differing: tuple[str, ...] = ()
    if place.source is not None and place.base is not None:
        history = Git(directory=order.run_dir.absolute() / "git")
        paths = [path for c in chain if c.proposed.patch for path in c.proposed.patch.files]
        branches.require_as_measured(place.git, place.base, history, place.source, paths)
        differing = branches.differing(place.git, place.base, history, place.source)
    work = branches.Work(
        git=place.git, branch=_branch(order), base=place.base, source=place.source,
        files=lambda candidate: _config(state, candidate, report, config), message=lambda c: _message(c, report),
    )  # fmt: skip
    made = branches.build(work, chain, state)
    if not made:
        raise UsageError(
            "no change of this run belongs into that repository", hint="--config-path takes launch settings"
        )
    return made, tuple(outside), differing, files


def _config(state: RunState, candidate: CandidateState, report: Report, folder: str) -> dict[str, bytes]:
    if not folder or not candidate.proposed.changes:
        return {}
    files = _artefacts_of(state, candidate, report).files
    return {f"{folder.strip('/')}/{name}": content for name, content in files.items()}


def _artefacts_of(state: RunState, candidate: CandidateState, report: Report) -> Artefacts:
    """The launch of a candidate, as it was last started, as files."""
    id = candidate.proposed.id
    launches = [launch for launch in state.launches.values() if launch.candidate == id]
    if not launches:
        return Artefacts(files={}, gaps=(f"{id} was never launched: there are no files of its launch",))
    title = f"{report.stack.name}: {id} {candidate.proposed.title}, run {report.run.id}"
    return artefacts(launch_of(launches[-1].argv, launches[-1].env), title)


def _message(candidate: CandidateState, report: Report) -> str:
    proposed = candidate.proposed
    row = next(row for row in report.accepted if row.candidate == proposed.id)
    cause = next((h.cause for h in report.hypotheses if h.id == proposed.hypothesis), "")
    blocks = f" over {row.estimate.n} paired blocks" if row.estimate is not None else ""
    lines = [" ".join(format.clean(proposed.title, 100).split()), ""]
    lines += [" ".join(format.clean(cause, 400).split()), ""] if cause else []
    lines += [f"Measured {format.estimate(row.estimate)} of {proposed.base}{blocks}."]
    lines += [format.clean(format.change(change), 200) for change in row.changes]
    lines += ["", f"Run: {report.run.id} {proposed.id}", f"Assisted-by: infra-agent {report.run.version}"]
    return "\n".join(lines) + "\n"


def _own_tests(chain: Sequence[CandidateState]) -> tuple[str, ...]:
    """Test files that the changes bring along."""
    names = [path for c in chain if c.proposed.patch for path in c.proposed.patch.files]
    tests = [name for name in names if name.rpartition("/")[2].startswith("test_") or name.endswith("_test.py")]
    return tuple(f"The change brings `{name}`; its result is yours to add." for name in dict.fromkeys(tests))


def _affects_output(report: Report) -> bool:
    return any(row.risk not in _SAFE_CLASSES for row in report.accepted)


def _refusal(order: Order, place: Place, template: str) -> str:
    """Why it may not be opened by a program, with the citation; empty when it may."""
    if order.rules.forbids is not None:
        return f"{order.rules.repository} takes no pull request that an agent made: {order.rules.forbids}"
    if order.rules is not GENERAL:
        return ""
    found = policy.forbidden_in(place.read, template)
    if found is None or order.policy_allows:
        return ""
    return f"the target's own rules seem to forbid it: {found}"


def _branch(order: Order) -> str:
    return order.branch or f"infra-agent/{order.run_dir.name.lower()}"


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in name.lower()).split()) or "stack"


def _human(folder: Path) -> str:
    try:
        text = (folder / HUMAN_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return format.clean(text.replace(_HUMAN_TEXT.strip(), ""), 20_000).strip()


def _write(
    order: Order, package: Package, state: RunState, chain: Sequence[CandidateState], report: Report,
    files: Artefacts, differing: Sequence[str], masker: Masker,
) -> None:  # fmt: skip
    folder = order.folder
    for name in ("patches", "artefacts", "evidence"):
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
    (folder / "evidence/approvals").mkdir(parents=True)
    for name, content in files.files.items():
        _put(folder / "artefacts" / name, content)
    if (folder / "artefacts/launch.sh").is_file():
        (folder / "artefacts/launch.sh").chmod(0o755)
    if package.git is not None and package.commits:
        span = [package.head] if not package.base else [f"{package.base}..{package.head}"]
        words = ["format-patch", "--quiet", "--no-signature", "-o", str((folder / "patches").absolute())]
        package.git.run(*words, *(["--root"] if not package.base else []), *span)
    _evidence(order, state, chain, report, masker)
    if differing:
        _put(folder / "evidence/differing.txt", "".join(f"{path}\n" for path in differing).encode())
    if not (folder / HUMAN_FILE).exists():
        _put(folder / HUMAN_FILE, _HUMAN_TEXT.encode())
    _put(folder / "title.txt", f"{package.title}\n".encode())
    _put(folder / "body.md", package.body.encode())
    allows = {"policy_allows": order.policy_allows} if order.policy_allows else {}
    _put(folder / PACKAGE_FILE, (json.dumps({**package.document(), **allows}, indent=2) + "\n").encode())


def _evidence(order: Order, state: RunState, chain: Sequence[CandidateState], report: Report, masker: Masker) -> None:
    folder = order.folder / "evidence"
    _put(folder / "report.json", to_json(report, masker).encode())
    _put(folder / "report.html", masker.text(render(report)).encode())
    _put(folder / "commands.sh", masker.text("\n".join(report.reproduce) + "\n").encode())
    _put(folder / "head.txt", f"{report.ledger.head_seq}:{report.ledger.head_hash}\n".encode())
    metric = next((row.name for row in report.before_after if row.is_goal), report.goal.metric.value)
    _put(folder / gain_test.FILE, masker.text(gain_test.gain_test(report, metric)).encode())
    shutil.copyfile(order.run_dir / LEDGER_FILE, folder / LEDGER_FILE)
    for candidate in chain:
        consent = consent_of(candidate)
        for number, signed in enumerate(grants_of(consent) if consent is not None else (), start=1):
            text = signed.model_dump_json(indent=2) + "\n"
            _put(folder / f"approvals/{candidate.proposed.id}.{number}.json", text.encode())


def _put(path: Path, content: bytes) -> None:
    """Written beside its place and renamed: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)
