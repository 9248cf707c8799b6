"""A code change in the report: shown as text on the page, in the JSON and on the terminal, with the way back."""

from __future__ import annotations

import pytest
from publish.sample_run import Run

from infra_agent.ledger import kinds as k
from infra_agent.ledger.code_kinds import PatchMade, SourceTaken
from infra_agent.publish.commands import commands
from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.html import render
from infra_agent.publish.report.model import Report
from infra_agent.publish.report.reasons import changes_together
from infra_agent.publish.report.text import summary_lines

pytestmark = pytest.mark.requirement("P1")
HOSTILE = '</code></pre><script>alert("x")</script>{{ 7 * 7 }}\x1b[31m\u202e'
DIFF = f"--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,2 @@\n-slow()\n+fast()  # {HOSTILE}\n x\n"


def patch(diff: str = DIFF) -> PatchMade:
    return PatchMade(
        diff=diff, digest="d" * 64, artifact="a" * 64, files=("app.py",), added=1, removed=1,
        notes=("app.py, hunk 1: its header miscounted; its lines stand at 1 only",),
    )  # fmt: skip


def proposed(**fields: object) -> k.CandidateProposed:
    document = {
        "id": "C1", "title": "patch of app.py (+1 -1)", "hypothesis": "", "base": "stock", "changes": (),
        "settings": {}, "digest": "c" * 64, "risk": "production", "risk_reasons": ("a reason",), "family": "code",
        "lane": "agent", "patch": patch(), "patches": ("d" * 64,), "tree": "e" * 64,
    }  # fmt: skip
    return k.CandidateProposed.model_validate({**document, **fields})


def report(sources: int = 1) -> Report:
    run = Run()
    taken = [
        SourceTaken(name=f"app{i}", origin=f"/home/me/my app{i}", kind="directory", files=1, size_bytes=1)
        for i in range(sources)
    ]
    run.add(k.WorkspaceReady(sources=tuple(taken), tree="0" * 64, numeric=False, wall_s=0.1))
    run.add(proposed())
    given = {
        "candidate": "C1",
        "decision": "accepted",
        "cause": "proved",
        "rung": "load",
        "estimate": None,
        "reason": "r",
    }
    run.add(k.VerdictGiven.model_validate({**given, "elapsed_s": 1.0}))
    run.add(k.WaitingForApproval(candidate="C1", risk="production", reasons=("a reason",)))
    return build_report(run.state)


def test_the_diff_is_on_the_page_as_text_and_never_as_markup() -> None:
    page = render(report())
    assert "+fast()" in page
    assert "<script>" not in page
    assert "&lt;/code&gt;&lt;/pre&gt;&lt;script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "its header miscounted" in page


def test_the_terminal_shows_the_diff_and_both_commands_without_control_characters() -> None:
    text = "\n".join(summary_lines(report()))
    assert "-slow()" in text
    assert "\x1b" not in text
    assert f"patch -p1 -d '/home/me/my app0' < runs/{report().run.id}/artifacts/{'a' * 64}" in text
    assert "patch -R -p1 -d" in text


def test_the_json_has_the_whole_diff() -> None:
    (row,) = report().candidates
    assert row.patch is not None
    assert row.patch.diff == DIFF
    assert row.patches == ["d" * 64]


def test_with_several_sources_no_command_is_claimed() -> None:
    (decision,) = report(sources=2).decisions
    assert decision.patch is not None
    assert (decision.patch.apply, decision.patch.undo) == ("", "")


def test_a_patch_of_several_places_is_not_one_change() -> None:
    assert changes_together(proposed()) == 1
    assert changes_together(proposed(patch=patch(DIFF + "@@ -9 +9 @@\n-a\n+b\n"))) == 2
    assert changes_together(proposed(changes=({"parameter": "p", "value": 1, "before": None},))) == 2
    assert changes_together(proposed(patch=patch("rename from a\nrename to b\n"))) == 1


def test_a_patched_configuration_is_reproduced_through_the_runs_own_tree() -> None:
    run = Run(command=("infra-agent", "run", "--stack", "my stack.toml", "--goal", "g"))
    run.add(k.WorkspaceReady(sources=(), tree="0" * 64, numeric=False, wall_s=0.1))
    run.add(proposed(risk="routine"))
    run.launch("C1", "candidate", "final")
    given = {
        "candidate": "C1",
        "decision": "accepted",
        "cause": "proved",
        "rung": "load",
        "estimate": None,
        "reason": "r",
    }
    run.add(k.VerdictGiven.model_validate({**given, "elapsed_s": 1.0}))
    run.add(k.Accepted(candidate="C1", gate="g", elapsed_s=1.0))
    lines = commands(build_report(run.state))
    (start,) = [line for line in lines if "stack up" in line]
    assert start.startswith("infra-agent stack up --stack 'my stack.toml' --run ")
    assert "--port 9111" in start
