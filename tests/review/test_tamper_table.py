"""The table of `make tamper-table`: its core here, all of it behind the target."""

from __future__ import annotations

from pathlib import Path

import pytest
from review.tamper_table import ATTACKS, tried
from review.waiting import person

pytestmark = pytest.mark.requirement("A2")
CORE = [name for name in ATTACKS if not name.startswith("edited after") and not name.startswith("edited decision")]


@pytest.mark.parametrize("name", CORE)
def test_every_way_to_tamper_is_refused_and_changes_nothing(tmp_path: Path, name: str) -> None:
    row = tried(tmp_path / "run", name, person(tmp_path, "alice"), person(tmp_path, "bob"))
    assert row.refused, row.said


def test_the_table_holds_what_was_asked_for() -> None:
    wanted = {
        "edited diff", "a decision of another run", "a decision on another candidate", "expired", "replayed",
        "wrong key", "reviewer not allowed for the class", "one of two persons",
    }  # fmt: skip
    assert wanted <= set(ATTACKS)
