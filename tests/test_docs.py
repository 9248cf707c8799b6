"""What the documents promise of the command line exists, and versions agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra_agent import __version__
from infra_agent.cli.main import app

ROOT = Path(__file__).resolve().parent.parent
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"^\s*(?:\$ )?infra-agent ((?:[a-z][a-z-]* ?)+)", re.MULTILINE)
GROUPS = ("runs", "stack", "playbook", "probe", "review")


def commands() -> list[tuple[str, ...]]:
    found = set()
    for path in DOCS:
        for block in re.findall(r"```[a-z]*\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            for match in COMMAND.finditer(block):
                words = match[1].split()
                found.add(tuple(words[:2] if words[0] in GROUPS else words[:1]))
    return sorted(found)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_in_the_documents_exists(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0, done.output


def test_the_documents_show_commands_at_all() -> None:
    assert ("run",) in commands()
    assert ("doctor",) in commands()


def test_make_targets_named_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for path in DOCS for name in re.findall(r"`make ([a-z-]+)`", path.read_text(encoding="utf-8"))}
    assert named - targets == set()


def test_the_version_is_the_same_everywhere_and_in_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert project["version"] == __version__
    assert f"## [{__version__}]" in changelog


def test_relative_links_in_the_documents_lead_somewhere() -> None:
    broken = []
    for path in DOCS:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            if not (path.parent / target).exists():
                broken.append(f"{path.name}: {target}")
    assert broken == []
