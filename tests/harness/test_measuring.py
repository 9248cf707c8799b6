"""A window for a baseline or a screen: measured again where this client itself spoilt it, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent.sessions import session_in
from harness.recorded import Window

from infra_agent.changes.change import STOCK
from infra_agent.harness import measuring
from infra_agent.harness.measuring import MOST_WINDOWS, Measured, measure_undisturbed


def seeds_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: list[bool]) -> list[int]:
    """Seeds of the windows that were measured when these, in turn, are spoilt by the client."""
    used: list[int] = []

    def window(session: Any, launch: Any, *, seed: int, **_: Any) -> Measured:
        used.append(seed)
        observation = Window(value=25.0, late=late[len(used) - 1]).observation()
        return Measured("O1", observation, 25.0)

    monkeypatch.setattr(measuring, "measure_load", window)
    with session_in(tmp_path) as session:
        measure_undisturbed(
            session, None, candidate=STOCK, lane="agent", purpose="baseline", seed_of=lambda attempt: 100 + attempt
        )
    return used


def test_a_window_that_only_the_client_spoilt_is_measured_again_on_a_fresh_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seeds_used(tmp_path, monkeypatch, [True, False, False]) == [100, 101]


def test_a_sound_window_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seeds_used(tmp_path, monkeypatch, [False]) == [100]


def test_a_client_that_is_always_late_ends_after_three_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(seeds_used(tmp_path, monkeypatch, [True] * 9)) == MOST_WINDOWS
