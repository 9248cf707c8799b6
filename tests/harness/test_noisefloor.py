"""The stored noise floor: found only where everything that it depends on is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent.dossiers import GOAL
from agent.sessions import started
from harness.floors import KEY, floor

from infra_agent.goal.model import Load
from infra_agent.harness.noisefloor import find_floor, key_of, store_floor
from infra_agent.stack.cache import STATE_VARIABLE, state_dir


def test_what_was_stored_is_found_again(tmp_path: Path) -> None:
    path = store_floor(floor(), tmp_path)
    assert find_floor(KEY, tmp_path) == floor()
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_new_calibration_replaces_the_old_one(tmp_path: Path) -> None:
    store_floor(floor(), tmp_path)
    store_floor(floor(blocks=9), tmp_path)
    found = find_floor(KEY, tmp_path)
    assert found is not None
    assert found.blocks == 9
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"rules": "3"}, {"machine": {"cpu": "x", "cores": 4.0}}, {"stack_digest": "c" * 64},
        {"workload_sha256": "d" * 64}, {"load": {"concurrency": 8}},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_change_of_anything_that_it_depends_on_makes_it_another_floor(tmp_path: Path, change: dict[str, Any]) -> None:
    store_floor(floor(), tmp_path)
    assert find_floor(KEY.model_copy(update=change), tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"key": 1}'])
def test_a_file_that_is_no_floor_is_none(tmp_path: Path, content: bytes) -> None:
    path = store_floor(floor(), tmp_path)
    path.write_bytes(content)
    assert find_floor(KEY, tmp_path) is None


def test_a_floor_under_another_floors_name_is_not_used(tmp_path: Path) -> None:
    path = store_floor(floor(), tmp_path)
    other = KEY.model_copy(update={"rules": "1"})
    store_floor(floor(other), tmp_path).replace(path)
    assert find_floor(KEY, tmp_path) is None


def test_the_load_of_the_goal_or_else_of_the_stack_is_in_the_key() -> None:
    plain = key_of(started())
    same = key_of(started(goal=GOAL.model_copy(update={"load": Load(concurrency=4)})))
    more = key_of(started(goal=GOAL.model_copy(update={"load": Load(concurrency=8)})))
    open_loop = key_of(started(goal=GOAL.model_copy(update={"load": Load(arrivals="poisson", rate_per_s=4.0)})))
    assert plain == same
    assert len({plain.digest, more.digest, open_loop.digest}) == 3


def test_the_state_directory_is_the_users_or_the_one_that_is_named(tmp_path: Path) -> None:
    assert state_dir({STATE_VARIABLE: str(tmp_path)}) == tmp_path
    assert "infra-agent" in str(state_dir({}))
