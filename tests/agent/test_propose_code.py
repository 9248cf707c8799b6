"""Proposals with a diff: what is refused before anything is launched, and what the ledger keeps of a candidate."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent.dossiers import GOAL
from agent.sessions import add_window, session_in
from changes.trees import FASTER, GIT_ENV, SERVER, everything
from ledger import ledger_samples as samples
from pydantic import ValidationError

from infra_agent.agent.actions import ACTION, MAX_DIFF_BYTES, ProposeAction
from infra_agent.agent.execute import _propose, execute
from infra_agent.agent.propose_code import title_of
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.view import build_dossier, code_view
from infra_agent.changes.change import settings_digest
from infra_agent.changes.parse import parse
from infra_agent.goal.model import Scope
from infra_agent.harness.code import launch_sources, open_workspace, tree_holder, tree_of, why_no_code
from infra_agent.harness.sandbox import NO_WALLS, Walls
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from infra_agent.ledger.artifacts import path_of
from infra_agent.stack.model import LaunchSpec, ParameterSpec, Stack
from probes.numeric.types import Answer

pytestmark = pytest.mark.requirement("P1")
CODE_GOAL = GOAL.model_copy(update={"scope": Scope(code=True)})
WALLS = Walls(mode="bubblewrap")
QUIET = FASTER.replace("-    time.sleep(DELAY_S)", "-    time.sleep(DELAY_S)\n+    time.sleep(0)").replace(
    "+4,4", "+4,5"
)
FURTHER = (
    "--- a/server.py\n+++ b/server.py\n@@ -6,2 +6,2 @@\n def answer(prompt):\n-    return prompt.upper()\n"
    "+    return prompt\n"
)


def stack_of(folder: Path, **fields: Any) -> Stack:
    app = folder / "app"
    app.mkdir()
    (app / "server.py").write_text(SERVER)
    (app / "bench.jsonl").write_text("x\n")
    for words in (("init", "-q"), ("add", "--all")):
        subprocess.run(["git", "-C", str(app), *words], check=True, env=GIT_ENV)
    launch = LaunchSpec(command=("{python}", str(app / "server.py"), "--port", "{port}"))
    workers = ParameterSpec(flag="--workers", type="int", risk="concurrency")
    fields = {"protected": ("bench.jsonl",), "space": {"workers": (4,)}, **fields}
    return Stack(
        name="own",
        engine="command",
        model="m",
        launch=launch,
        sources=(str(app),),
        parameters={"workers": workers},
        **fields,
    )


@contextmanager
def code_session(folder: Path, walls: Walls = WALLS, stack: Stack | None = None) -> Iterator[Session]:
    """A session that may change code, with stock measured; nothing is launched."""
    with session_in(folder, CODE_GOAL, stack or stack_of(folder)) as made:
        session = replace(made, walls=walls)
        workspace = open_workspace(session.ledger, session.stack, walls, session.narrator, session.clock)
        session = replace(session, workspace=workspace)
        _measured(session)
        yield session


def _measured(session: Session) -> None:
    """What the ledger holds once stock's window, state, answers and noise are known."""
    add_window(session, "stock", 25.0)
    answer = Answer(prompt_id="A1", prompt="p", endpoint="chat", max_tokens=8, text="t", model="m").to_json()
    for probe, detail in (("effective-state", {"snapshot": {}}), ("reference-answers", {"answers": [answer]})):
        document = {"probe": probe, "verdict": "pass", "detail": detail}
        session.ledger.append(
            k.ObservationMade(
                id=f"O-{probe}", candidate="stock", lane="agent", purpose="answers", launch="", observation=document
            )
        )
    session.ledger.append(k.NoiseKnown(sd_log=0.05, mde_ratio=1.1, blocks=12, samples=0, source="assumed"))


def propose(session: Session, diff: str | None = None, base: str = "stock", **changes: Any) -> k.CandidateProposed:
    rows = [{"parameter": name, "value": value} for name, value in changes.items()]
    action = ProposeAction.model_validate({"hypothesis": "", "changes": rows, "diff": diff, "base": base})
    candidate = _propose(session, action, "agent")
    return session.state.candidates[candidate].proposed


def test_a_candidate_keeps_its_diff_its_digests_and_its_tree(tmp_path: Path) -> None:
    with code_session(tmp_path) as session:
        before = everything(tmp_path / "app")
        made = propose(session, FASTER)
        assert made.patch is not None
        assert made.patch.diff == FASTER
        assert made.patches == (parse(FASTER).digest,) == (made.patch.artifact,)
        assert path_of(session.run_dir, made.patch.artifact).read_text() == FASTER
        assert made.digest == settings_digest("0" * 64, {}, made.patches)
        assert made.digest != settings_digest("0" * 64, {})
        assert made.tree not in ("", session.workspace.stock if session.workspace else "")
        assert (made.title, made.family, made.risk) == ("patch of server.py (+0 -1)", "code", "routine")
        assert everything(tmp_path / "app") == before


def test_a_header_that_had_to_be_corrected_is_said(tmp_path: Path) -> None:
    with code_session(tmp_path) as session:
        made = propose(session, FASTER.replace("-4,5 +4,4", "-2,9 +2,8"))
        assert made.patch is not None
        assert made.patch.diff == FASTER
        assert "miscounted" in made.patch.notes[0]


REFUSED = {
    "a protected file": ("--- a/bench.jsonl\n+++ b/bench.jsonl\n@@ -1 +1 @@\n-x\n+y\n", "stack.protected names it"),
    "a path upwards": ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-x\n+y\n", "parent_path"),
    "a hunk that does not fit": (FASTER.replace("prompt.upper", "prompt.lower"), "hunk_mismatch"),
    "no diff": ("remove the sleep", "the text holds no diff"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_diff_is_answered_with_its_reason_and_leaves_nothing(tmp_path: Path, case: str) -> None:
    diff, words = REFUSED[case]
    with code_session(tmp_path) as session:
        with pytest.raises(ActionError) as caught:
            propose(session, diff)
        assert words in caught.value.message
        assert caught.value.message.startswith("the diff was refused (")
        assert not session.state.candidates
        assert {path.name for path in (session.run_dir / "workspace").iterdir()} == {"stock"}


def test_the_same_effect_in_another_writing_is_the_same_candidate(tmp_path: Path) -> None:
    wider = FASTER.replace("@@ -4,5 +4,4 @@ DELAY_S = 0.05\n \n", "@@ -3,6 +3,5 @@\n DELAY_S = 0.05\n \n")
    with code_session(tmp_path) as session:
        propose(session, FASTER)
        for diff, words in ((FASTER, "same configuration"), (wider, "same code as C1")):
            with pytest.raises(ActionError, match=words):
                propose(session, diff)
        assert list(session.state.candidates) == ["C1"]
        assert propose(session, QUIET).id == "C2"


def accept(session: Session, candidate: str, *, gated: bool = False) -> None:
    verdict = {"candidate": candidate, "decision": "accepted", "cause": "proved", "rung": "load", "estimate": None}
    session.ledger.append(k.VerdictGiven.model_validate({**verdict, "reason": "r", "elapsed_s": 1.0}))
    if gated:
        session.ledger.append(samples.waiting(candidate))
        session.ledger.append(samples.approved(candidate))
    request = "0" * 64 if gated else ""
    session.ledger.append(k.Accepted(candidate=candidate, gate="g", elapsed_s=1.0, request=request))


def test_candidates_on_a_patched_base_carry_its_patch_and_its_tree(tmp_path: Path) -> None:
    with code_session(tmp_path) as session:
        first = propose(session, FASTER)
        accept(session, "C1")
        second = propose(session, FURTHER, base="best")
        third = propose(session, base="best", workers=4)
        assert second.patches == (*first.patches, parse(FURTHER).digest)
        assert (third.patch, third.patches, third.tree) == (None, first.patches, first.tree)
        assert third.risk == "concurrency"
        state = session.state
        assert [tree_holder(state, c) for c in ("stock", "C1", "C2", "C3")] == ["stock", "C1", "C2", "C1"]
        assert tree_of(state, "C3") == first.tree
        with pytest.raises(ActionError, match="hunk_mismatch"):
            propose(session, FASTER, base="best")
        with pytest.raises(ActionError, match="takes back what its base changed"):
            propose(session, _inverse(FASTER), base="best")


def _inverse(diff: str) -> str:
    from infra_agent.changes.patch import render

    return render(parse(diff).inverse())


def test_risk_is_of_everything_that_differs_from_stock(tmp_path: Path) -> None:
    gated = "--- a/server.py\n+++ b/server.py\n@@ -3 +3 @@\n-DELAY_S = 0.05\n+DELAY_S = 0.0\n"
    with code_session(tmp_path) as session:
        assert propose(session, gated).risk == "production"
        accept(session, "C1", gated=True)
        again = propose(
            session, "--- a/server.py\n+++ b/server.py\n@@ -1 +1 @@\n-import time\n+import time  # x\n", "best"
        )
        assert again.risk == "production"


def test_two_of_one_kind_and_nothing_at_all_are_not_well_formed() -> None:
    with pytest.raises(ValidationError, match="parameters, code, or both"):
        ACTION.validate_python({"kind": "propose", "hypothesis": ""})
    with pytest.raises(ValidationError):
        ACTION.validate_python({"kind": "propose", "hypothesis": "", "diff": "x" * (MAX_DIFF_BYTES + 1)})
    with pytest.raises(ValidationError, match="bytes"):
        ACTION.validate_python({"kind": "propose", "hypothesis": "", "diff": "\u20ac" * (MAX_DIFF_BYTES // 2)})


def test_why_code_cannot_be_changed_is_said_before_anything_else(tmp_path: Path) -> None:
    stack = stack_of(tmp_path)
    movable = stack.model_copy(update={"launch": LaunchSpec(command=("{python}", "{source}/server.py", "{port}"))})
    assert "scope" in why_no_code(GOAL, stack, WALLS)
    assert "no sources" in why_no_code(CODE_GOAL, stack.model_copy(update={"sources": ()}), WALLS)
    assert "{source}" in why_no_code(CODE_GOAL, stack, NO_WALLS)
    assert why_no_code(CODE_GOAL, stack, WALLS) == why_no_code(CODE_GOAL, movable, NO_WALLS) == ""
    attached = Stack(name="a", engine="openai", model="m", url="http://h:1", sources=("x",))
    assert "attached" in why_no_code(CODE_GOAL, attached, WALLS)


def test_the_dossier_names_the_files_that_a_diff_may_change(tmp_path: Path) -> None:
    with code_session(tmp_path) as session:
        propose(session, FASTER)
        dossier = build_dossier(session, "agent")
        assert (dossier.code.closed, dossier.code.sources, dossier.code.files) == ("", ("app",), ("server.py",))
        assert dossier.candidates[0].patched == ("server.py",)
        assert build_dossier(session, "honesty").code.closed
        assert code_view(replace(session, walls=NO_WALLS), "stock").closed


def test_every_arm_runs_on_the_runs_own_tree_and_differs_in_the_patch_alone(tmp_path: Path) -> None:
    with code_session(tmp_path) as session:
        propose(session, FASTER)
        app = (tmp_path / "app").resolve()
        seen = {c: launch_sources(session.workspace, session.stack, session.state, WALLS, c) for c in ("stock", "C1")}
        for candidate, sources in seen.items():
            tree = sources.overlays[app]
            assert tree == session.run_dir.absolute() / "workspace" / candidate / "app"
            assert sources.env["PYTHONDONTWRITEBYTECODE"] == "1"
            assert sources.stack == session.stack
        assert seen["stock"].env == seen["C1"].env
        assert seen["stock"].overlays.keys() == seen["C1"].overlays.keys()
        assert launch_sources(None, session.stack, session.state, WALLS, "stock").overlays == {}


def test_the_title_names_two_files_and_counts_the_rest() -> None:
    new = "--- /dev/null\n+++ b/{0}.py\n@@ -0,0 +1 @@\n+x\n"
    assert title_of(parse("".join(new.format(name) for name in "abc"))) == "patch of a.py, b.py and 1 more (+3 -0)"


def test_a_diff_copied_out_of_quoted_code_is_the_diff_that_was_meant(tmp_path: Path) -> None:
    stack = stack_of(tmp_path)
    (tmp_path / "app" / "page.html").write_text("<b>x</b>\n")
    copied = "--- a/page.html\n+++ b/page.html\n@@ -1,1 +1,1 @@\n-&lt;b>x&lt;/b>\n+&lt;b>y&lt;/b>\n"
    with code_session(tmp_path, stack=stack) as session:
        made = propose(session, copied)
        assert made.patch is not None
        assert "-<b>x</b>\n+<b>y</b>\n" in made.patch.diff
        wrong = copied.replace("x", "z")
        with pytest.raises(ActionError, match="hunk_mismatch"):
            propose(session, wrong)


def test_what_is_read_is_what_the_next_diff_is_made_against(tmp_path: Path) -> None:
    with code_session(tmp_path) as session:
        (tmp_path / "app" / "server.py").write_text("edited meanwhile\n")
        execute(session, ACTION.validate_python({"kind": "read", "path": "server.py"}), "agent")
        shown = build_dossier(session, "agent").readings[-1]
        assert shown.source.startswith("server.py:1-")
        assert "time.sleep(DELAY_S)" in shown.text
