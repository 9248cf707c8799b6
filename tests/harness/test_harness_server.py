"""Every way a launch can go wrong ends as one error that names the cause, with nothing left running."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from harness_help import FakeEngine, eventually, fake_plan, fake_stack

from infra_agent.errors import ConfigError, ExitCode, PortInUse
from infra_agent.harness.launch_errors import LaunchFailed, WrongModel
from infra_agent.harness.ports import free_port, is_free, require_free, wait_port_free
from infra_agent.harness.sandbox import NO_WALLS
from infra_agent.harness.server import attach, serve
from infra_agent.stack.engines.base import LaunchPlan
from infra_agent.stack.model import Stack


def serving(tmp_path: Path, plan: LaunchPlan, stack: Stack | None = None):
    """The fake engine without walls: what is tested here does not depend on them."""
    return serve(
        plan,
        FakeEngine(),
        stack or fake_stack(),
        walls=NO_WALLS,
        scratch=tmp_path / "scratch",
        log_path=tmp_path / "engine.log",
    )


def failure(tmp_path: Path, stack: Stack | None = None, **settings: str) -> LaunchFailed | WrongModel:
    plan = fake_plan(**settings)
    with pytest.raises((LaunchFailed, WrongModel)) as caught, serving(tmp_path, plan, stack):
        pytest.fail("this server must not become ready")
    assert is_free(plan.host, plan.port)
    assert caught.value.exit_code == ExitCode.STACK
    return caught.value


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_a_good_server_is_ready_after_its_first_answer(tmp_path: Path, endpoint: str) -> None:
    events: list[str] = []
    plan = fake_plan()
    with serve(
        plan,
        FakeEngine(),
        fake_stack(endpoint=endpoint),
        walls=NO_WALLS,
        scratch=tmp_path / "scratch",
        log_path=tmp_path / "engine.log",
        on_event=events.append,
    ) as server:
        assert server.base_url == plan.base_url
        assert server.model == server.answered_model == "m"
        assert 0 < server.health_s <= server.ready_s
        assert server.alive()
        memory = server.memory_bytes()
        assert memory is not None
        assert memory > 1_000_000
        assert server.snapshot() == {}
        assert eventually(lambda: any("POST" in line or "/v1/" in line for line in server.last_lines(5)))
    assert not server.alive()
    assert [event.split()[0] for event in events] == ["started", "ready", "stopped"]
    assert "request /health" in (tmp_path / "engine.log").read_text()


def test_an_engine_that_dies_is_reported_with_its_exit_code_and_the_meaning_of_its_log(tmp_path: Path) -> None:
    error = failure(tmp_path, fault="die-at-start")
    assert error.outcome == "died"
    assert "exit code 1" in error.message
    assert "this quantisation has no CPU path" in error.message
    assert error.hint == "leave it out here"
    assert error.lines == ("ValueError: quantisation needs a GPU",)


def test_an_engine_killed_by_a_signal_is_reported_with_its_name(tmp_path: Path) -> None:
    error = failure(tmp_path, fault="killed-at-start")
    assert error.outcome == "died"
    assert "SIGKILL" in error.message


def test_an_unknown_flag_is_answered_with_the_nearest_known_one(tmp_path: Path) -> None:
    error = failure(tmp_path, childrn="fork")
    assert error.outcome == "died"
    assert "--childrn" in error.message
    assert error.hint == "did you mean --children?"


def test_an_engine_that_dies_at_its_first_request_has_died(tmp_path: Path) -> None:
    error = failure(tmp_path, fault="die-at-answer")
    assert error.outcome == "died"
    assert "exit code 7" in error.message
    assert "fatal: illegal instruction" in error.lines


@pytest.mark.parametrize(
    ("fault", "outcome", "said"),
    [
        ("hang-at-start", "hung", "no answer from /health within 1.5 s"),
        ("hang-answer", "hung", "its first request had no answer within 1.5 s"),
        ("health-503", "unhealthy", "still answers 503"),
        ("answer-500", "unhealthy", "500: "),
        ("drop", "unhealthy", "drops the first request"),
        ("wrong-model", "wrong_model", "answers for 'another-model', asked was 'm'"),
        ("refuse-model", "wrong_model", "does not serve 'm'"),
    ],
)
def test_each_fault_has_its_own_outcome(tmp_path: Path, fault: str, outcome: str, said: str) -> None:
    error = failure(tmp_path, fake_stack(start_timeout_s=1.5, stop_timeout_s=3), fault=fault)
    assert error.outcome == outcome
    assert said in error.message


def test_a_server_that_dies_later_is_seen_as_dead(tmp_path: Path) -> None:
    with serving(tmp_path, fake_plan()) as server:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGTERM)
        assert eventually(lambda: not server.alive())
    assert server.process is not None
    assert server.process.returncode == 128 + signal.SIGTERM


def test_an_error_of_the_caller_takes_the_server_down(tmp_path: Path) -> None:
    plan = fake_plan()
    with pytest.raises(KeyboardInterrupt), serving(tmp_path, plan):
        raise KeyboardInterrupt
    assert is_free(plan.host, plan.port)


def test_a_revision_that_the_engine_adds_to_the_name_is_the_same_model(tmp_path: Path) -> None:
    with serving(tmp_path, fake_plan(model="m@main")) as server:
        assert server.model == "m"
        assert server.answered_model == "m@main"


def test_an_answer_under_the_declared_served_name_is_accepted(tmp_path: Path) -> None:
    stack = fake_stack().model_copy(update={"served_model": "prod"})
    with serving(tmp_path, fake_plan(model="prod"), stack) as server:
        assert server.answered_model == "prod"


def test_a_taken_port_is_refused_with_the_name_of_its_holder(tmp_path: Path) -> None:
    plan = fake_plan()
    with socket.create_server((plan.host, plan.port)), pytest.raises(PortInUse) as caught, serving(tmp_path, plan):
        pytest.fail("the port is taken")
    assert f"pid {os.getpid()}" in caught.value.message
    assert not (tmp_path / "engine.log").exists()


def test_waiting_for_a_port_ends_when_it_is_free_or_time_is_up() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not wait_port_free("127.0.0.1", port, 0.1)
    assert wait_port_free("127.0.0.1", port, 5)
    require_free("127.0.0.1", port)


def test_a_running_server_is_attached_to_and_left_running(tmp_path: Path) -> None:
    plan = fake_plan()
    with serving(tmp_path, plan) as server:
        stack = fake_stack().model_copy(update={"url": f"{plan.base_url}/v1"})
        with attach(stack, FakeEngine()) as attached:
            assert attached.base_url == plan.base_url
            assert attached.pid is attached.memory_bytes() is attached.cpu_s() is None
            assert attached.last_lines(3) == ()
            assert attached.snapshot() == {}
        assert server.alive()


def test_attaching_to_nothing_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="no url"), attach(fake_stack(), FakeEngine()):
        pytest.fail("there is nothing to attach to")
    stack = fake_stack(start_timeout_s=0.3).model_copy(update={"url": f"http://127.0.0.1:{free_port()}"})
    with pytest.raises(LaunchFailed) as caught, attach(stack, FakeEngine()):
        pytest.fail("nothing listens there")
    assert caught.value.outcome == "hung"
