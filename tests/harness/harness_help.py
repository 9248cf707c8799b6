"""Shared by the harness's tests: a fake engine's description, launch plans, and a search for leftover processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from infra_agent.harness.ports import free_port
from infra_agent.stack.engines.base import LaunchPlan, LogPattern, Parameter, RiskClass
from infra_agent.stack.model import ParameterValue, Stack, StackLimits, Workload

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")


def parameter(name: str, flag: str, **fields: object) -> Parameter:
    defaults: dict[str, object] = {
        "title": name, "type": "bool", "default": None, "risk": RiskClass.ROUTINE, "family": "test", "evidence": "",
    }  # fmt: skip
    return Parameter(name=name, flag=flag, **{**defaults, **fields})  # type: ignore[arg-type]


class FakeEngine:
    name = "fake"
    launches = True
    health_path = "/health"
    metrics_path = None
    log_patterns: Sequence[LogPattern] = (
        LogPattern(
            regex="quantisation needs a GPU", meaning="this quantisation has no CPU path", hint="leave it out here"
        ),
    )

    def parameters(self) -> Sequence[Parameter]:
        return (parameter("fault", "--fault"), parameter("children", "--children"))

    def plan(self, stack: Stack, settings: dict[str, ParameterValue], port: int) -> LaunchPlan:
        argv = [sys.executable, str(FAKE_ENGINE), "--port", str(port)]
        for name, value in settings.items():
            argv += [f"--{name}", str(value)]
        return LaunchPlan(argv=tuple(argv), env={}, host="127.0.0.1", port=port)

    def version_argv(self, stack: Stack) -> tuple[str, ...] | None:
        return None

    def reporter(self) -> str | None:
        return "python"

    def model_in_request(self, stack: Stack) -> str:
        return stack.model


def fake_stack(*, start_timeout_s: float = 20, stop_timeout_s: float = 5, endpoint: str = "chat") -> Stack:
    return Stack(
        name="fake",
        engine="fake",
        model="m",
        limits=StackLimits(start_timeout_s=start_timeout_s, stop_timeout_s=stop_timeout_s),
        workload=Workload(endpoint=endpoint),  # type: ignore[arg-type]
    )


def fake_plan(**settings: str) -> LaunchPlan:
    return FakeEngine().plan(fake_stack(), dict(settings), free_port())


def with_token(token: str) -> list[psutil.Process]:
    """Live processes of this machine that carry the token as an argument."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        lives = process.info["status"] != psutil.STATUS_ZOMBIE
        if lives and token in (process.info["cmdline"] or []):
            found.append(process)
    return found


def eventually(condition: Callable[[], bool], timeout_s: float = 20) -> bool:
    """Poll until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
