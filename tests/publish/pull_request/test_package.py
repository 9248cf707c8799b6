"""A package on a real repository: branch, body, evidence; and every case in which there is none."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from publish.pull_request.code_runs import FASTER, SERVER, SHORTER, code_run, diff, git, order, package, repository
from review.waiting import person, waiting_run
from simulated.own import snapshot

from infra_agent.errors import LedgerError, UsageError
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.verify import verify
from infra_agent.publish.publish import load_state, report_of
from infra_agent.publish.pull_request.chain import accepted_chain
from infra_agent.publish.pull_request.sections import HUMAN
from infra_agent.redact.masker import Masker

SECTIONS = (
    "Purpose", "Not a duplicate because", "Change and risk", "Tests", "Accuracy", "Micro-benchmarks", "End to end",
    "Where it does not help", "Environment and commands", "Evidence", "AI assistance", HUMAN,
)  # fmt: skip
FILES = {"app/server.py": SERVER, "README.md": "a project\n"}


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    return repository(tmp_path / "project", FILES)


@pytest.fixture
def run_dir(tmp_path: Path, upstream: Path) -> Path:
    diffs = (diff(SERVER, FASTER), diff(FASTER, SHORTER))
    return code_run(tmp_path, *diffs, source=upstream / "app")


def test_the_branch_has_one_commit_for_each_change_on_the_users_own_commit(run_dir: Path, upstream: Path) -> None:
    made = package(run_dir)
    assert [each.candidate for each in made.commits] == ["C1", "C2"]
    assert made.base == git(upstream, "rev-parse", "HEAD")
    assert made.base_branch == "main"
    history = run_dir / "pull_request/repo.git"
    assert git(history, "rev-list", "--count", f"{made.base}..{made.head}") == "2"
    assert git(history, "show", f"{made.head}:app/server.py") + "\n" == SHORTER
    assert git(history, "diff", "--stat", "--name-only", made.base, made.head) == "app/server.py"
    message = git(history, "log", "-1", "--format=%B", made.head)
    assert message.startswith("no pause C2")
    assert "Assisted-by: infra-agent 0.1.0" in message


def test_the_users_checkout_is_not_changed_by_it(run_dir: Path, upstream: Path) -> None:
    before = snapshot(upstream)
    package(run_dir)
    package(run_dir)
    assert snapshot(upstream) == before


def test_its_patches_apply_cleanly_on_the_source_and_each_commit_compiles(run_dir: Path, upstream: Path) -> None:
    package(run_dir)
    copy = upstream.with_name("copy")
    git(upstream.parent, "clone", "-q", str(upstream), str(copy))
    for patch in sorted((run_dir / "pull_request/patches").iterdir()):
        git(copy, "am", "-q", str(patch))
        subprocess.run([sys.executable, "-m", "py_compile", "app/server.py"], cwd=copy, check=True)
    assert (copy / "app/server.py").read_text() == SHORTER


def test_made_again_it_has_the_same_commits_even_when_the_checkout_has_moved_on(run_dir: Path, upstream: Path) -> None:
    first = package(run_dir)
    (upstream / "README.md").write_text("another text\n")
    git(upstream, "commit", "-q", "-a", "-m", "second")
    again = package(run_dir)
    assert (again.base, again.head) == (first.base, first.head)
    elsewhere = package(run_dir, branch="another")
    assert elsewhere.base == git(upstream, "rev-parse", "HEAD")


def test_the_body_has_every_section_once_and_in_order(run_dir: Path) -> None:
    body = package(run_dir).body
    assert tuple(re.findall(r"(?m)^## (.*)$", body)) == SECTIONS
    assert "AI assistance was used" in body
    assert body.rstrip().endswith("in your own words. -->")


def numbers(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", text))


def rounded(value: Any, found: set[str]) -> None:
    """Every number of the report in every way in which a table may show it."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            rounded(item, found)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for factor in (1.0, 1000.0, 100.0, 2.0**-20, 2.0**-30):
            found.update(f"{value * factor:.{places}f}" for places in range(1, 5))
        found.add(f"{(value - 1) * 100:.1f}")


def test_every_figure_of_the_tables_is_one_of_report_json(run_dir: Path) -> None:
    body = package(run_dir).body
    report = json.loads((run_dir / "pull_request/evidence/report.json").read_text())
    assert report == json.loads(report_of(load_state(run_dir)).model_dump_json())
    known: set[str] = set()
    rounded(report, known)
    shown = numbers("\n".join(line for line in body.splitlines() if line.startswith(("|", "- Worse", "Judged"))))
    assert len(shown) > 20
    assert shown - known == set()
    goal = next(row for row in report["before_after"] if row["is_goal"])
    assert f"| {goal['stock']['value']:.1f} [" in body
    assert f"x{report['final']['estimate']['ratio']:.2f} [2.20, 2.60]" in body


def test_the_head_in_the_body_is_an_anchor_of_the_ledger(run_dir: Path) -> None:
    from infra_agent.ledger.anchor import anchors_in

    anchors = anchors_in(package(run_dir).body, "body.md")
    assert len(anchors) == 1
    assert verify(run_dir, anchors).ok
    copied = (run_dir / "pull_request/evidence" / LEDGER_FILE).read_bytes()
    assert copied == (run_dir / LEDGER_FILE).read_bytes()


def test_what_a_person_wrote_is_taken_up_and_never_overwritten(run_dir: Path) -> None:
    package(run_dir)
    human = run_dir / "pull_request/HUMAN.md"
    human.write_text("I read each line and ran it on two machines.\n")
    body = package(run_dir).body
    assert body.rstrip().endswith("I read each line and ran it on two machines.")
    assert human.read_text() == "I read each line and ran it on two machines.\n"


def test_hostile_words_are_text_in_the_body(tmp_path: Path) -> None:
    hostile = "</details><script>x()</script> @everyone ![i](http://h/x) `rm` | a \x1b[31m \u202e ```"
    run_dir = code_run(tmp_path, settings=True, brain_note=hostile, environment={"cpu": hostile})
    body = package(run_dir).body
    assert "<script>" not in body.replace("\\<script\\>", "")
    assert "@everyone" not in body
    assert "![" not in body
    assert re.search(r"(?<!\\)\]\(", body) is None
    assert "\x1b" not in body
    assert "\u202e" not in body
    fences = [line for line in body.splitlines() if line.startswith("```")]
    assert len(fences) == 2


def test_secrets_known_now_are_in_no_file_of_the_package(tmp_path: Path) -> None:
    run_dir = code_run(tmp_path, settings=True, brain_note="canary-secret-0123456789")
    package(run_dir, Masker(["canary-secret-0123456789"]))
    files = [p for p in (run_dir / "pull_request").rglob("*") if p.is_file() and p.name != LEDGER_FILE]
    assert len(files) > 8
    assert [p.name for p in files if b"canary-secret-0123456789" in p.read_bytes()] == []


def test_a_file_that_is_not_what_was_measured_is_refused_by_name(run_dir: Path, upstream: Path) -> None:
    (upstream / "app/server.py").write_text(SERVER + "# more\n")
    git(upstream, "commit", "-q", "-a", "-m", "moved on")
    with pytest.raises(UsageError, match=r"does not hold what was measured: app/server\.py"):
        package(run_dir)
    assert not (run_dir / "pull_request/body.md").exists()


def test_other_files_that_differ_are_counted_and_listed(tmp_path: Path, upstream: Path) -> None:
    (upstream / "app/extra.py").write_text("x = 1\n")
    run_dir = code_run(tmp_path, diff(SERVER, FASTER), source=upstream / "app")
    body = package(run_dir).body
    assert "Measured beside 1 other files that differ" in body
    assert (run_dir / "pull_request/evidence/differing.txt").read_text() == "app/extra.py\n"


def test_an_uncommitted_source_outside_any_repository_is_refused_with_the_way_out(tmp_path: Path) -> None:
    source = tmp_path / "plain"
    source.mkdir()
    (source / "server.py").write_text(SERVER)
    run_dir = code_run(tmp_path, diff(SERVER, FASTER), source=source)
    with pytest.raises(UsageError, match="not inside a git repository") as caught:
        package(run_dir)
    assert "--repo" in caught.value.hint
    checkout = repository(tmp_path / "checkout", {"python/plain/server.py": SERVER})
    made = package(run_dir, repo=checkout)
    assert made.commits[0].files == ("python/plain/server.py",)


def test_a_change_that_does_not_compile_is_no_commit(tmp_path: Path, upstream: Path) -> None:
    broken = FASTER.replace("    return text\n", "    return (text\n")
    run_dir = code_run(tmp_path, diff(SERVER, broken), source=upstream / "app")
    with pytest.raises(UsageError, match="would not compile"):
        package(run_dir)


def test_launch_settings_without_a_repository_leave_as_files_and_say_so(tmp_path: Path) -> None:
    run_dir = code_run(tmp_path, settings=True)
    made = package(run_dir)
    assert made.commits == ()
    assert "no repository was named" in made.body
    assert (run_dir / "pull_request/artefacts/launch.sh").is_file()


def test_launch_settings_go_into_a_repository_of_configuration(tmp_path: Path) -> None:
    run_dir = code_run(tmp_path, settings=True)
    made = package(run_dir, repo=repository(tmp_path / "deploy", {"a": "b\n"}), config_path="serving/")
    assert "serving/launch.sh" in made.commits[0].files


def test_settings_stay_out_of_a_project_of_code_unless_asked_for(tmp_path: Path, upstream: Path) -> None:
    run_dir = code_run(tmp_path, diff(SERVER, FASTER), source=upstream / "app", settings=True)
    made = package(run_dir)
    assert [each.candidate for each in made.commits] == ["C1"]
    assert "Not in the branch: launch settings" in made.body
    both = package(run_dir, config_path="deploy")
    assert [each.candidate for each in both.commits] == ["C1", "C9"]


def test_a_ledger_with_a_gated_change_that_nobody_approved_cannot_even_be_read(tmp_path: Path, upstream: Path) -> None:
    with pytest.raises(LedgerError, match="class concurrency was never approved"):
        code_run(tmp_path, diff(SERVER, FASTER), source=upstream / "app", risk="concurrency")


def test_a_change_that_waits_is_not_in_it_and_an_approved_one_is_after_its_relaunch(tmp_path: Path) -> None:
    alice = person(tmp_path, "alice")
    waiting = waiting_run(tmp_path / "w", local=alice)
    chain = accepted_chain(waiting.run_dir, waiting.state(), waiting.authority)
    assert [candidate.proposed.id for candidate in chain] == ["C1"]
    waiting.decide(alice)
    waiting.take_in()
    assert waiting.state().best == "C2"
    with pytest.raises(UsageError, match="not relaunched beside stock yet"):
        accepted_chain(waiting.run_dir, waiting.state(), waiting.authority)


def test_a_damaged_ledger_is_refused(run_dir: Path) -> None:
    state = load_state(run_dir)
    ledger = run_dir / LEDGER_FILE
    ledger.write_bytes(ledger.read_bytes().replace(b"no pause C1", b"no pause C8"))
    with pytest.raises(LedgerError, match="does not verify"):
        accepted_chain(run_dir, state, order(run_dir).authority)


def test_a_detached_head_and_a_packed_branch_are_found(run_dir: Path, upstream: Path) -> None:
    git(upstream, "pack-refs", "--all")
    assert package(run_dir).base == git(upstream, "rev-parse", "HEAD")
    git(upstream, "checkout", "-q", "--detach")
    assert package(run_dir, branch="other").base == git(upstream, "rev-parse", "HEAD")


def test_nothing_that_the_repository_configures_is_run(run_dir: Path, upstream: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    hook = f"#!/bin/sh\ntouch {trap}\n"
    for name in ("pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        path = upstream / ".git/hooks" / name
        path.write_text(hook)
        path.chmod(0o755)
    (tmp_path / "monitor").write_text(hook)
    (tmp_path / "monitor").chmod(0o755)
    config = upstream / ".git/config"
    config.write_text(
        config.read_text() + f"[core]\nfsmonitor = {tmp_path}/monitor\n[diff]\nexternal = {tmp_path}/monitor\n"
    )
    package(run_dir)
    assert not trap.exists()
