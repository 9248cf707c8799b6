"""One mock server process for all load tests: it is told what to do by each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from probes.load.mock.process import MockProcess


@pytest.fixture(scope="session")
def mock() -> Iterator[MockProcess]:
    with MockProcess() as process:
        yield process
