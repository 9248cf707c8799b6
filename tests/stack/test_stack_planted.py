"""Preparing a stack runs nothing that lies about where the user stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infra_agent.stack.recipe import Recipe
from infra_agent.stack.setup import env_ready, prepare
from infra_agent.stack.weights import weights_ready

PLANTED = ("pip", "venv", "ensurepip", "typing", "json", "csv", "email", "sitecustomize", "usercustomize", "setup")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, full of modules that leave a file of their name in `ran`."""
    place, ran = tmp_path / "place", tmp_path / "ran"
    place.mkdir()
    ran.mkdir()
    for name in PLANTED:
        (place / f"{name}.py").write_text(f"open({str(ran / name)!r}, 'w').close()\n")
    (place / "pip.conf").write_text("[global]\nno-such-option = 1\n")
    (place / "pyproject.toml").write_text('[build-system]\nbuild-backend = "setup"\nbackend-path = ["."]\n')
    monkeypatch.chdir(place)
    return ran


@pytest.mark.requirement("E5")
def test_a_preparation_in_a_planted_directory_runs_nothing_of_it(
    planted: Path, tiny_recipe: Recipe, local_pip: None, tmp_path: Path
) -> None:
    paths = prepare(tiny_recipe, tmp_path / "cache", lambda _: None)
    assert env_ready(paths)
    assert weights_ready(paths.weights)
    assert not list(planted.iterdir())


@pytest.mark.requirement("E5")
def test_the_planted_modules_do_run_in_careless_hands(planted: Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--version"], check=True)
    assert (planted / "pip").exists()
