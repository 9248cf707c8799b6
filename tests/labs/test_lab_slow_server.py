"""The slow server: its mends apply and keep its answers; a scripted model finds both defects."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from labs.slow_server.policy import FIXES, LOOP, PREFIX, find_and_mend
from labs.slow_server.stack import GOAL, SOURCES, write_lab
from simulated.stacks import report_of, run

from infra_agent.agent.actions import ACTION, ProposeAction
from infra_agent.goal.parse import parse_goal
from infra_agent.stack.model import Stack
from infra_agent.testing.scripted_llm import ScriptedLlm

CAN_PATCH = "diff" in ProposeAction.model_fields
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


def test_the_scripted_model_goes_from_measurement_to_mend_twice() -> None:
    families = "- code (code): untried: «sources may be patched»"
    steps = [
        ("Stock has not been measured yet",),
        ("# Hypotheses\nnone yet",),
        ("# Hypotheses\nnone yet", "search_code in generate.py"),
        ("# Hypotheses\n- H1 open", "- C1 [H1] x on stock | risk concurrency | screened | screen x4: promote"),
        ("# Hypotheses\n- H1 supported",),
        ("# Hypotheses\n- H1 supported", "/src/slow_server/app.py:1-99"),
        ("# Hypotheses\n- H1 supported\n- H2 refuted", families),
    ]
    said = [[call.name for call in find_and_mend(dossier(*step)).calls] for step in steps]
    assert said == [
        ["measure"], ["search_code"], ["hypothesise", "propose"], ["prove"], ["read", "read"],
        ["hypothesise", "propose"], ["conclude"],
    ]  # fmt: skip


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


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_scripted_model_finds_and_mends_the_server_through_the_real_command_line(
    tmp_path: Path, demo_stack: Stack
) -> None:
    if not CAN_PATCH:
        pytest.skip("no action of this version changes code")
    write_lab(tmp_path, Path(str(demo_stack.launch.python)), Path(demo_stack.model))
    with ScriptedLlm(policy=find_and_mend).serving() as llm:
        done = run(
            tmp_path, "run", "--goal", GOAL, "--brain", "llm", "--seed", "3", timeout_s=2900, OPENAI_BASE_URL=llm.url
        )
    report = report_of(tmp_path)
    assert done.returncode in (0, 1, 3), done.stderr
    ends = {row["hypothesis"]: row["end"] for row in report["candidates"] if row["lane"] == "agent"}
    assert ends["H1"] in ("kept", "waiting")
    first = next(row for row in report["hypotheses"] if row["id"] == "H1")
    assert first["predictions"][0]["inside"] is True
