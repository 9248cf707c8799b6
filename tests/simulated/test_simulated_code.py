"""Whole runs of the real command line that change code: a small real server in a repository, diffs by a script."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated import own
from simulated.stacks import events_of, kill_when, report_of, run
from simulated.stacks import tune as tune_once

from infra_agent.harness.measuring import CLIENT_CHECKS

pytestmark = pytest.mark.requirement("P1")


def disturbed(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a window's client had to wait for a core: this machine was busy, nothing was learnt."""
    return any(check in done.stderr for check in CLIENT_CHECKS)


def tune(
    folder: Path, *args: str, goal: str, until: Callable[[Path], bool] = lambda _: False
) -> subprocess.CompletedProcess[str]:
    """A run on a machine that may be busy with something else: one that was disturbed too early is made again."""
    for _ in range(8):
        done = tune_once(folder, *args, goal=goal)
        if not disturbed(done) or until(folder):
            break
    return done


def finished(folder: Path) -> bool:
    return report_of(folder)["outcome"]["code"] in ("met", "waiting")


def screened(folder: Path) -> bool:
    return bool(kinds(folder, "screened"))


def verdicts(report: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {row["candidate"]: (row["decision"], row["cause"]) for row in report["verdicts"]}


def kinds(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [event["data"] for event in events_of(folder) if event["kind"] == kind]


def probes_of(folder: Path, candidate: str) -> list[str]:
    return [o["observation"]["probe"] for o in kinds(folder, "observation") if o["candidate"] == candidate]


def test_a_diff_that_removes_the_defect_is_accepted_shown_and_the_checkout_stays_as_it_was(tmp_path: Path) -> None:
    folder = own.project(tmp_path)
    before = own.snapshot(folder / "app")
    done = tune(folder, *own.script(folder, own.propose(own.FASTER), own.prove("C1")), goal=own.GOAL, until=finished)
    assert done.returncode == 0, done.stderr + done.stdout
    report = report_of(folder)
    assert verdicts(report)["C1"] == ("accepted", "proved")
    assert report["accepted"][0]["estimate"]["low"] > 1.5
    assert report["accepted"][0]["risk"] == "routine"
    assert probes_of(folder, "C1")[:4] == ["code-engagement", "effective-state", "answers", "load"]
    assert own.snapshot(folder / "app") == before
    _shown_everywhere(folder, report)
    _kept_and_applicable(folder, report)
    trees = {launch["candidate"]: launch["tree"] for launch in kinds(folder, "launch")}
    assert trees["stock"] == kinds(folder, "workspace")[0]["tree"]
    assert trees["C1"] == kinds(folder, "candidate")[0]["tree"] != trees["stock"]


def _shown_everywhere(folder: Path, report: dict[str, Any]) -> None:
    """The diff and the way back stand in the JSON, on the page and on the terminal."""
    line = "-        rest_before_word()"
    patch = report["accepted"][0]["patch"]
    assert line in patch["diff"]
    assert patch["undo"].startswith("patch -R -p1 -d ")
    page = max((folder / "runs").iterdir()) / "report.html"
    assert line in page.read_text()
    shown = run(folder, "runs", "show", "last").stdout
    assert line in shown
    assert patch["undo"] in shown


def _kept_and_applicable(folder: Path, report: dict[str, Any]) -> None:
    """The run verifies, and its printed commands bring the patch into the checkout and back out, to the byte."""
    assert run(folder, "runs", "verify", "last").returncode == 0
    before = {name: entry[2] for name, entry in own.snapshot(folder / "app").items()}
    patch = report["accepted"][0]["patch"]
    if shutil.which("patch") is None:
        pytest.skip("no patch program here")
    subprocess.run(patch["apply"], shell=True, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    assert "        rest_before_word()\n" not in (folder / "app/server.py").read_text()
    subprocess.run(patch["undo"], shell=True, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    assert {name: entry[2] for name, entry in own.snapshot(folder / "app").items()} == before


def test_diffs_that_may_not_be_do_not_fit_are_not_run_or_change_answers_all_end_where_they_must(tmp_path: Path) -> None:
    folder = own.project(tmp_path)
    before = own.snapshot(folder / "app")
    diffs = (own.TOUCHES_EVALUATOR, own.STALE, own.NEVER_RUN, own.CHANGES_ANSWERS, own.CHANGES_ANSWERS)
    done = tune(folder, *own.script(folder, *map(own.propose, diffs)), goal=own.GOAL)
    assert done.returncode == 1, done.stderr
    report = report_of(folder)
    assert verdicts(report) == {"C1": ("invalid", "not_engaged"), "C2": ("rejected", "answers_changed")}
    refused = [row["error"] for row in report["refused_actions"]]
    assert len(refused) == 3
    assert "prompts.jsonl: the file may not be changed: the run is judged by it" in refused[0]
    assert "server.py, hunk 1" in refused[1]
    assert "'        time.sleep(PAUSE)'" in refused[1]
    assert "'        time.sleep(PAUSE_S)'" in refused[1]
    assert "C2 is the same configuration" in refused[2]
    assert "load" not in probes_of(folder, "C1") + probes_of(folder, "C2")
    assert "no request executed server.py" in report["verdicts"][0]["reason"]
    assert {launch["candidate"] for launch in kinds(folder, "launch")} == {"stock", "C1", "C2"}
    assert own.snapshot(folder / "app") == before


def test_a_changed_default_waits_for_a_person_with_its_diff(tmp_path: Path) -> None:
    folder = own.project(tmp_path)
    change = own.diff("server.py", "REST_S = 0.03", "REST_S = 0.0")
    done = tune(folder, *own.script(folder, own.propose(change), own.prove("C1")), goal=own.GOAL, until=finished)
    assert done.returncode == 3, done.stderr
    (decision,) = report_of(folder)["decisions"]
    assert decision["risk"] == "production"
    assert "outside any function" in decision["reasons"][0]
    assert "+REST_S = 0.0" in decision["patch"]["diff"]
    assert "+REST_S = 0.0" in done.stdout


def test_a_goal_without_code_scope_leaves_code_alone_and_copies_nothing(tmp_path: Path) -> None:
    folder = own.project(tmp_path)
    goal = own.GOAL.replace(", code changes allowed", "")
    done = tune(folder, *own.script(folder, own.propose(own.FASTER)), goal=goal)
    assert done.returncode == 1, done.stderr
    assert "scope allows no code changes" in report_of(folder)["refused_actions"][0]["error"]
    newest = max((folder / "runs").iterdir())
    assert not (newest / "workspace").exists()
    assert not (newest / "git").exists()


PARAMETERS = """
[parameters.workers]
flag = "--workers"
type = "int"
risk = "trade"
signal = "state.workers"
[space]
workers = [4]
"""


def test_steps_add_up_code_and_a_parameter_each_on_the_best_so_far(tmp_path: Path) -> None:
    folder = own.project(tmp_path / "project", sources='["."]', extra=PARAMETERS)
    faster = own.FASTER.replace("a/server.py", "a/app/server.py").replace("b/server.py", "b/app/server.py")
    (tmp_path / "then").mkdir()
    patched = (own.SOURCES / "server.py").read_text().replace("        rest_before_word()\n", "")
    (tmp_path / "then/server.py").write_text(patched)
    further = own.diff("server.py", "time.sleep(PAUSE_S)", "time.sleep(PAUSE_S / 2)", tmp_path / "then")
    further = further.replace("a/server.py", "a/app/server.py").replace("b/server.py", "b/app/server.py")
    both = own.action(
        kind="propose", hypothesis="", base="best", diff=further, changes=[{"parameter": "workers", "value": 4}]
    )
    both = both.replace('[{"parameter": "workers", "value": 4}]', '[{ parameter = "workers", value = 4 }]')
    done = tune(folder, *own.script(folder, own.propose(faster), own.prove("C1"), both), goal=own.GOAL, until=finished)
    report = report_of(folder)
    assert verdicts(report)["C1"] == ("accepted", "proved"), done.stderr
    second = kinds(folder, "candidate")[1]
    assert second["base"] == "C1"
    assert len(second["patches"]) == 2
    assert second["patches"][0] == kinds(folder, "candidate")[0]["patch"]["digest"]
    assert second["settings"] == {"workers": 4}
    assert probes_of(folder, "C2")[:3] == ["code-engagement", "effective-state", "engagement"]
    newest = max((folder / "runs").iterdir())
    assert not (newest / "workspace").exists()
    name = kinds(folder, "workspace")[0]["sources"][0]["name"]
    text = _of_branch(newest, "C2", f"{name}/app/server.py")
    assert "PAUSE_S / 2" in text
    assert "        rest_before_word()\n" not in text


def _of_branch(run_dir: Path, branch: str, path: str) -> str:
    """A file as the run's history has it: trees are gone when a run has ended."""
    command = ["git", "--git-dir", str(run_dir / "git"), "show", f"{branch}:{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


OFTEN = [("workspace", 1), ("candidate", 1), ("block", 2)]
ALSO = [("launch", 2), ("observation", 4), ("screened", 1), ("verdict", 1), ("accepted", 1), ("phase", 3)]


@pytest.mark.parametrize(("kind", "count"), [*OFTEN, *(pytest.param(*point, marks=pytest.mark.slow) for point in ALSO)])
def test_a_code_run_killed_anywhere_is_resumed_to_the_same_end_and_the_checkout_stays(
    tmp_path: Path, kind: str, count: int
) -> None:
    for attempt in range(5):
        folder = own.project(tmp_path / str(attempt))
        resumed = _killed_edited_and_resumed(folder, kind, count)
        if not disturbed(resumed) or finished(folder):
            break
    assert resumed.returncode == 0, resumed.stderr
    report = report_of(folder)
    assert verdicts(report)["C1"] == ("accepted", "proved")
    assert run(folder, "runs", "verify", "last").returncode == 0
    assert (folder / "app/server.py").read_text().startswith("raise SystemExit")
    newest = max((folder / "runs").iterdir())
    assert not list((newest / "workspace").glob("*.part"))


def _killed_edited_and_resumed(folder: Path, kind: str, count: int) -> subprocess.CompletedProcess[str]:
    """A run that is killed, whose checkout is broken by its user meanwhile, and that goes on from its own copy."""
    before = own.snapshot(folder / "app")
    options = own.script(folder, own.propose(own.FASTER), own.prove("C1"))
    args = ["run", "--stack", str(folder / "infra-agent.toml"), "--goal", own.GOAL, "--seed", "3", *options]
    assert kill_when(folder, args, kind, count) == -signal.SIGKILL
    assert own.snapshot(folder / "app") == before
    (folder / "app/server.py").write_text("raise SystemExit('edited while the run was down')\n")
    return run(folder, "runs", "resume", "last")


def test_an_installed_package_is_patched_in_the_run_and_never_in_its_environment(tmp_path: Path) -> None:
    folder = own.project(tmp_path, ("{python}", "-m", "ownserver.server", "--port", "{port}"), '["package:ownserver"]')
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    site = next((folder / "env/lib").glob("python*/site-packages"))
    package = site / "ownserver"
    shutil.copytree(own.SOURCES, package)
    (package / "__init__.py").touch()
    text = (package / "server.py").read_text().replace("import replies", "from ownserver import replies")
    (package / "server.py").write_text(text)
    subprocess.run([str(folder / "env/bin/python"), "-m", "compileall", "-q", str(package)], check=True)
    stack = folder / "infra-agent.toml"
    stack.write_text(stack.read_text().replace("[launch]", f'[launch]\npython = "{folder}/env/bin/python"'))
    before = own.snapshot(site)
    change = own.diff("server.py", "        rest_before_word()\n", "", package)
    done = tune(folder, *own.script(folder, own.propose(change)), goal=own.GOAL, until=screened)
    assert done.returncode == 1, done.stderr
    (ranked,) = kinds(folder, "screened")
    assert ranked["outcome"] == "promote", done.stderr
    assert kinds(folder, "workspace")[0]["sources"][0]["kind"] == "package"
    assert own.snapshot(site) == before


def test_without_a_sandbox_code_needs_a_command_that_starts_from_source(tmp_path: Path) -> None:
    plain = own.project(tmp_path / "plain")
    done = tune(plain, *own.script(plain, own.propose(own.FASTER)), "--no-sandbox", goal=own.GOAL)
    assert "start the server from {source}" in report_of(plain)["refused_actions"][0]["error"], done.stderr
    assert any("code could not be changed" in row["text"] for row in report_of(plain)["degraded"])
    movable = own.project(tmp_path / "movable", ("{python}", "{source}/server.py", "--port", "{port}"))
    before = own.snapshot(movable / "app")
    done = tune(movable, *own.script(movable, own.propose(own.FASTER)), "--no-sandbox", goal=own.GOAL, until=screened)
    (ranked,) = kinds(movable, "screened")
    assert ranked["outcome"] == "promote", done.stderr
    assert probes_of(movable, "C1")[0] == "code-engagement"
    assert own.snapshot(movable / "app") == before


def test_stale_byte_code_is_not_run_and_nothing_that_is_planted_in_the_source_runs_in_the_harness(
    tmp_path: Path,
) -> None:
    folder = own.project(tmp_path)
    app, mark = folder / "app", tmp_path / "sprung"
    bomb = app / "bomb.sh"
    bomb.write_text(f"#!/bin/sh\ntouch {mark}\n")
    bomb.chmod(0o755)
    with (app / ".git/config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = {bomb}\n[filter "evil"]\n\tclean = {bomb}\n\tsmudge = {bomb}\n')
    (app / ".gitattributes").write_text("* filter=evil\n")
    for name in ("sitecustomize.py", "usercustomize.py", "conftest.py"):
        (app / name).write_text(f"open({str(mark)!r}, 'w').close()\n")
    (app / "x.pth").write_text(f"import os; os.mkdir({str(mark)!r})\n")
    _compile_another_reply(app)
    done = tune(folder, *own.script(folder, own.propose(own.FASTER)), goal=own.GOAL)
    answers = next(o["observation"] for o in kinds(folder, "observation") if o["purpose"] == "answers")
    said = " ".join(answer["text"] for answer in answers["detail"]["answers"])
    assert "STALE" not in said
    assert "stone" in said, done.stderr
    assert not mark.exists()


def _compile_another_reply(app: Path) -> None:
    """Byte code that Python would run without a look at the source: unchecked, and of another text."""
    import importlib.util
    import py_compile

    source = (app / "replies.py").read_text()
    (app / "replies.py").write_text(source.replace('"stone"', '"STALE"'))
    cached = importlib.util.cache_from_source(str(app / "replies.py"))
    py_compile.compile(str(app / "replies.py"), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    (app / "replies.py").write_text(source)
    probe = [sys.executable, "-c", "import replies; print(replies.WORDS[0])"]
    assert "STALE" in subprocess.run(probe, cwd=app, capture_output=True, text=True, check=True).stdout


def test_a_stack_that_a_run_has_changed_can_be_served_with_its_patch_or_without(tmp_path: Path) -> None:
    folder = own.project(tmp_path)
    tune(folder, *own.script(folder, own.propose(own.FASTER), own.prove("C1")), goal=own.GOAL, until=finished)
    assert verdicts(report_of(folder))["C1"] == ("accepted", "proved")
    for options, trees in (([], "C1"), (["--stock"], "")):
        found = _served(folder, *options)
        assert found["patched"] == (trees == "C1")


def _served(folder: Path, *options: str) -> dict[str, Any]:
    """What `stack up` prints, and whether the server that it starts is the patched one."""
    import os
    import time
    import urllib.request

    command = [sys.executable, "-m", "infra_agent", "stack", "up", "--json", *options]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline().decode()
            assert line, text
            text += line
        found: dict[str, Any] = json.loads(text)
        body = {"model": "own", "messages": [{"role": "user", "content": "x"}], "max_tokens": 40}
        request = urllib.request.Request(
            f"{found['url']}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
        assert ("patches" in found) == ("--stock" not in options)
        return {**found, "patched": time.monotonic() - began < 40 * 0.03}
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        assert process.stdout is not None
        process.stdout.close()
