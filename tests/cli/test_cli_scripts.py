"""Scripts of the script brain: every fault is found when the file is read, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra_agent.agent.scripts import load_script
from infra_agent.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("action = 5", "action is not a list"),
        ('[action]\nkind = "conclude"\nreason = "x"', "action is not a list"),
        ("action = [5]", "action 1"),
        ('[[actions]]\nkind = "conclude"\nreason = "x"', "unknown key 'actions'"),
        ('brain = "script"\n[[action]]\nkind = "conclude"\nreason = "x"', "unknown key 'brain'"),
        ("", "no action"),
        ("action = []", "no action"),
    ],
)
def test_a_script_that_would_do_nothing_or_something_else_is_refused_with_the_place(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "script.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_script(path)
    assert named in caught.value.message
    assert caught.value.where == str(path)
    assert caught.value.hint or text == "action = [5]"


def test_a_directory_is_not_a_script(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_script(tmp_path)
    assert "cannot be read" in caught.value.message
    assert caught.value.where == str(tmp_path)
