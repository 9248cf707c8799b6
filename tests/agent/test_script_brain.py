from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from agent.dossiers import MEASURED

from infra_agent.agent.actions import ConcludeAction, MeasureAction, ProposeAction
from infra_agent.agent.brains.script import ScriptBrain
from infra_agent.agent.scripts import load_script
from infra_agent.errors import ConfigError

SCRIPT = """
[[action]]
kind = "measure"
probe = "load"
target = "stock"

[[action]]
kind = "propose"
hypothesis = ""
changes = [{ parameter = "dtype", value = "float32" }]
"""


def test_actions_are_played_in_order_and_then_it_concludes(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT)
    brain = ScriptBrain(load_script(path))
    played = [brain.next(replace(MEASURED, turn=turn)) for turn in range(3)]
    assert isinstance(played[0], MeasureAction)
    assert isinstance(played[1], ProposeAction)
    assert isinstance(played[2], ConcludeAction)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[[action]]\nkind = "sing"', "action 1"),
        ('[[action]]\nkind = "prove"\ncandidate = "C1"\ngain = 2.0', "gain"),
        ('[[action]]\nkind = "propose"\nhypothesis = ""\nchanges = []', "changes"),
        ("not toml", "TOML"),
    ],
)
def test_a_faulty_script_is_refused_with_the_place(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "script.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_script(path)
    assert named in caught.value.message
    assert caught.value.where == str(path)


def test_a_missing_script_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_script(tmp_path / "none.toml")
    assert "--script" in caught.value.hint
