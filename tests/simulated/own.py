"""A repository with a small real server that has a defect, its stack file, and scripts of diffs that change it."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

SOURCES = Path(__file__).with_name("own_server")
GOAL = "at 4 concurrent requests, double the output tokens per second, code changes allowed, within 10 minutes"
GIT_ENV = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip
COMMAND = ("{python}", "app/server.py", "--port", "{port}")


def project(folder: Path, command: tuple[str, ...] = COMMAND, sources: str = '["app"]', extra: str = "") -> Path:
    """A folder with the server in a repository of its own (`app`), prompts, and infra-agent.toml."""
    app = folder / "app"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(SOURCES, app, ignore=shutil.ignore_patterns("__pycache__"))
    (app / ".gitignore").write_text("__pycache__/\n*.log\n")
    for words in (("init", "-q"), ("add", "--all"), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(app), *words], check=True, env=GIT_ENV)
    prompts = [f"Say something about number {number}." for number in range(6)]
    (app / "prompts.jsonl").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    (folder / "infra-agent.toml").write_text(
        f"""\
[stack]
name = "own server"
engine = "command"
model = "own"
sources = {sources}
[launch]
command = {json.dumps(list(command))}
state_path = "/state"
[workload]
prompts = "app/prompts.jsonl"
requests = 12
max_tokens = 8
warmup_requests = 1
[reference]
oracle = "none"
max_tokens = 8
[limits]
start_timeout_s = 60
{extra}"""
    )
    return folder


def diff(name: str, old: str, new: str, folder: Path = SOURCES) -> str:
    """A unified diff of one file of the server, as paths below the source."""
    before = (folder / name).read_text()
    assert old in before
    lines = [text.splitlines(keepends=True) for text in (before, before.replace(old, new, 1))]
    return "".join(difflib.unified_diff(lines[0], lines[1], f"a/{name}", f"b/{name}"))


FASTER = diff("server.py", "        rest_before_word()\n", "")
CHANGES_ANSWERS = diff("replies.py", "(start + i * i)", "(start + i)")
NEVER_RUN = diff("server.py", "return text.upper()", "return text.lower()")
TOUCHES_EVALUATOR = (
    "--- a/prompts.jsonl\n+++ b/prompts.jsonl\n@@ -1,2 +1 @@\n-"
    + json.dumps({"prompt": "Say something about number 0."})
    + "\n "
    + json.dumps({"prompt": "Say something about number 1."})
    + "\n"
)
STALE = FASTER.replace("         time.sleep(PAUSE_S)", "         time.sleep(PAUSE)")


def action(**fields: object) -> str:
    """One `[[action]]` table. Texts with line breaks are written as JSON strings, which TOML reads alike."""
    return "[[action]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())


MEASURE = action(kind="measure", probe="load", target="stock")


def propose(change: str, base: str = "stock") -> str:
    return action(kind="propose", hypothesis="", base=base, diff=change)


def prove(candidate: str) -> str:
    return action(kind="prove", candidate=candidate)


def script(folder: Path, *actions: str) -> list[str]:
    """A script file of these actions, after stock was measured; the options that play it."""
    path = folder / "script.toml"
    path.write_text("\n".join([MEASURE, *actions]))
    return ["--brain", "script", "--script", str(path)]


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every entry below a folder: mode, modification time and content. `.git` is among them, index and all."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, content)
    return found
