"""The slow server: its mends apply and keep its answers; a scripted model finds both defects."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labs.slow_server.policy import FIXES, LOOP, PREFIX, FindAndMend, diff, prose
from labs.slow_server.stack import GOAL, SOURCES, write_lab
from simulated.stacks import report_of, run

from infra_agent.agent.actions import ACTION, ProposeAction
from infra_agent.agent.brains.llm.parse import decide
from infra_agent.agent.brains.llm.types import Answer
from infra_agent.goal.parse import parse_goal
from infra_agent.stack.model import Stack
from infra_agent.testing.scripted_llm import FEATURES, ScriptedLlm

MEND = """
import json, sys
from slow_server.generate import Generator
from slow_server.text import Text
text, generator = Text(sys.argv[1]), Generator(sys.argv[1])
counted = []
forward = generator._model.forward
def count(*args, **kwargs):
    counted.append(kwargs["input_ids"].shape[1])
    return forward(*args, **kwargs)
generator._model.forward = count
prompt = text.encode([{"role": "user", "content": "Name three colours."}])
answer = list(generator.tokens(prompt, 12))
print(json.dumps({"prompt": len(prompt), "answer": answer, "computed": counted, "text": text.decode(answer)}))
"""


def mended(folder: Path) -> Path:
    """A copy of the sources with both mends."""
    copy = folder / "mended"
    shutil.copytree(SOURCES, copy)
    for fix in sorted(FIXES.glob("*.diff")):
        done = subprocess.run(["patch", "-p1", "--fuzz=0", "-i", str(fix)], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return copy


def test_both_mends_apply_to_the_sources_as_they_are_and_leave_python(tmp_path: Path) -> None:
    for path in mended(tmp_path).rglob("*.py"):
        ast.parse(path.read_text())


def test_the_labs_goal_is_understood_and_opens_code() -> None:
    goal = parse_goal(GOAL)
    assert goal.scope.code
    assert goal.constraints.answers_unchanged


def dossier(*parts: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "\n".join(parts)}]}


def test_the_scripted_model_goes_from_measurement_to_mend_twice_errs_twice_and_leaves_one_out() -> None:
    families = "- code (code): untried: «4 files may be patched»"
    h1, h2 = "# Hypotheses\n- H1 open", "# Hypotheses\n- H1 supported\n- H2 open"
    first = "\n- C1 [H1] x on stock | risk numerics | "
    steps = [
        ("Stock has not been measured yet",),
        ("# Hypotheses\nnone yet",),
        ("# Hypotheses\nnone yet", "search_code:'use_cache in *.py"),
        (h1,),
        (h1, "REFUSED: the diff was refused (hunk_mismatch)"),
        (h1, "REFUSED: (hunk_mismatch)", "REFUSED: (protected)"),
        (h1, f"{first}screened | screen x4: promote"),
        (h1, f"{first}waiting | proved x4"),
        (h1, f"{first}accepted"),
        (h1, f"{first}accepted", "slow_server/app.py:1-99"),
        (h1, f"{first}accepted", "slow_server/app.py:1-99", "slow_server/text.py:1-25"),
        (h2, f"{first}accepted"),
        (h2, f"{first}accepted", "\n- C2 [H2] y on C1 | risk concurrency | accepted"),
        (h2, f"{first}accepted", "\n- C2 [H2] y on C1 | x", "\n- C3 [H2] y on stock | x", families),
    ]
    asked: list[str] = []
    policy = FindAndMend(asked.append)
    said = [policy(dossier(*step)).calls[0] for step in steps]
    assert [call.name for call in said] == [
        "measure", "search_code", "hypothesise", "propose", "propose", "propose", "prove", "recall", "read", "read",
        "hypothesise", "propose", "propose", "conclude",
    ]  # fmt: skip
    assert asked == ["C1"]
    assert [call.arguments["base"] for call in said if call.name == "propose"] == [*["best"] * 4, "stock"]


def test_in_words_it_says_the_same_with_the_diff_in_a_fence() -> None:
    step = dossier("# Hypotheses\n- H1 open", "(hunk_mismatch)", "(protected)")
    decided = decide(Answer(content=prose(FindAndMend())(step).content))
    assert isinstance(decided.actions[0], ProposeAction)
    assert decided.actions[0].diff == diff("keep_the_prefix")


@pytest.mark.parametrize("stated", [PREFIX, LOOP])
def test_its_hypotheses_are_well_formed(stated: dict[str, Any]) -> None:
    assert ACTION.validate_python({"kind": "hypothesise", **stated}).kind == "hypothesise"


@pytest.mark.engine
def test_the_mended_server_says_the_same_and_computes_each_position_once(tmp_path: Path, demo_stack: Stack) -> None:
    found = {}
    for name, sources in (("slow", SOURCES), ("mended", mended(tmp_path))):
        done = subprocess.run(
            [str(demo_stack.launch.python), "-c", MEND, demo_stack.model], capture_output=True, text=True, timeout=280,
            env={**os.environ, "PYTHONPATH": str(sources), "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout.splitlines()[-1])
    slow, fast = found["slow"], found["mended"]
    assert fast["answer"] == slow["answer"]
    assert fast["text"] == slow["text"]
    assert slow["computed"] == [slow["prompt"] + step for step in range(12)]
    assert fast["computed"] == [fast["prompt"], *[1] * 11]


def solved(folder: Path, stack: Stack, llm: ScriptedLlm) -> dict[str, Any]:
    """The lab through the real command line; the report."""
    write_lab(folder, Path(str(stack.launch.python)), Path(stack.model))
    env = {"INFRA_AGENT_CONFIG": str(folder / "config")}
    assert run(folder, "review", "key", "--json", **env).returncode == 0
    with llm.serving():
        done = run(
            folder, "run", "--goal", GOAL, "--brain", "llm", "--seed", "3", timeout_s=5_000, OPENAI_BASE_URL=llm.url,
            **env,
        )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return report_of(folder)


def person(folder: Path) -> Callable[[str], None]:
    """Reads what waits, and signs it, while the run goes on."""
    env = {"INFRA_AGENT_CONFIG": str(folder / "config")}

    def approve(candidate: str) -> None:
        listed = json.loads(run(folder, "review", "list", "--json", **env).stdout)["waiting"]
        row = next(row for row in listed if row["candidate"] == candidate)
        key = str(folder / "config" / "reviewer.key")
        place = f"{row['run']}/{candidate}"
        done = run(folder, "review", "approve", place, "--key", key, "--yes-i-reviewed", row["confirm"], **env)
        assert done.returncode == 0, done.stdout + done.stderr

    return approve


TEXT_ONLY = FEATURES - {"tools", "json_schema"}


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(5_400)
@pytest.mark.parametrize("speaks", ["tools", "prose"])
def test_a_scripted_model_finds_and_mends_both_defects_through_the_real_command_line(
    tmp_path: Path, demo_stack: Stack, speaks: str
) -> None:
    policy = FindAndMend(person(tmp_path))
    words = speaks == "prose"
    llm = ScriptedLlm(policy=prose(policy) if words else policy, features=TEXT_ONLY if words else FEATURES)
    report = solved(tmp_path, demo_stack, llm)
    assert report["llm"]["mode"] == ("text" if words else "tools")
    refused = [row["error"] for row in report["refused_actions"]]
    assert ["hunk_mismatch" in error for error in refused] == [True, False]
    assert "the run is judged by it" in refused[1]
    verdicts = {row["candidate"]: row for row in report["verdicts"]}
    for mend in ("C1", "C2"):
        assert (verdicts[mend]["decision"], verdicts[mend]["cause"]) == ("accepted", "proved"), verdicts[mend]
        assert verdicts[mend]["estimate"]["low"] > 1
    assert report["answers"]["verdict"] == "pass"
    assert [row["candidate"] for row in report["accepted"]] == ["C1", "C2"]
    assert _commits(tmp_path, "C2") == 3
    alone = next(row for row in report["candidates"] if row["id"] == "C3")["screen"]["estimate"]["ratio"]
    both = verdicts["C1"]["estimate"]["ratio"] * verdicts["C2"]["estimate"]["ratio"]
    assert both > alone


def _commits(folder: Path, branch: str) -> int:
    """Commits of a candidate's branch: the sources as they were, and one for each mend."""
    git = str(max((folder / "runs").iterdir()) / "git")
    done = subprocess.run(
        ["git", "--git-dir", git, "rev-list", "--count", branch], capture_output=True, text=True, check=True
    )
    return int(done.stdout)
