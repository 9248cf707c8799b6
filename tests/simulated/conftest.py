"""Everything in here plays whole runs on the simulated engine: `make test-runs`."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this directory; the hook is given every test of the suite."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.runs)
