"""An engine is alone in its network: only the harness gets in, by handed-over connections, and nothing gets out."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import httpx
import psutil
import pytest
from harness_help import FakeEngine, eventually, fake_plan, fake_stack, with_token

from infra_agent.errors import PortInUse
from infra_agent.harness import tree
from infra_agent.harness.ports import free_port
from infra_agent.harness.process import ManagedProcess
from infra_agent.harness.relay import relayed
from infra_agent.harness.sandbox import Walls, hold_walls
from infra_agent.harness.server import serve
from probes.load.client import measure
from probes.load.types import Closed, LoadRequest, Prompt
from probes.net import connector
from probes.net.http import sync_client
from probes.net.via import connect, open_connection


@pytest.fixture(scope="module")
def walls() -> Walls:
    return hold_walls(no_sandbox=False)


def serving(walls: Walls, folder: Path, **settings: str):
    plan = fake_plan(**settings)
    folder.mkdir(exist_ok=True)
    return serve(plan, FakeEngine(), fake_stack(), walls=walls, scratch=folder / "s", log_path=folder / "log")


def test_the_engine_answers_by_hand_over_and_not_on_this_machine(walls: Walls, tmp_path: Path) -> None:
    with serving(walls, tmp_path) as server:
        port = httpx.URL(server.base_url).port
        assert server.via is not None
        assert port is not None
        with socket.socket() as plain:
            assert plain.connect_ex(("127.0.0.1", port)) != 0
        with sync_client(server.via, base_url=server.base_url) as client:
            assert client.get("/health").json() == {"status": "ok"}
        folder = server.via.parent
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    with pytest.raises(OSError):
        connect(server.via, port)


def test_two_engines_on_the_same_port_do_not_meet(walls: Walls, tmp_path: Path) -> None:
    plan = fake_plan(model="one")
    other = fake_plan(model="two")
    other = type(plan)(argv=(*other.argv[:3], str(plan.port), *other.argv[4:]), env={}, host=plan.host, port=plan.port)
    stacks = [fake_stack().model_copy(update={"served_model": name}) for name in ("one", "two")]
    with (
        serve(plan, FakeEngine(), stacks[0], walls=walls, scratch=tmp_path / "1", log_path=tmp_path / "1.log") as first,
        serve(
            other, FakeEngine(), stacks[1], walls=walls, scratch=tmp_path / "2", log_path=tmp_path / "2.log"
        ) as second,
        socket.create_server(("127.0.0.1", plan.port)),
    ):
        assert (first.answered_model, second.answered_model) == ("one", "two")
        assert first.base_url == second.base_url


def test_a_load_is_measured_through_a_hand_over(walls: Walls, tmp_path: Path) -> None:
    with serving(walls, tmp_path) as server:
        request = LoadRequest(
            base_url=server.base_url,
            model="m",
            prompts=(Prompt.of("hi"),),
            arrivals=Closed(4),
            requests=8,
            max_tokens=4,
            stream=False,
            warmup_requests=1,
            via=server.via,
        )
        window = measure(request)
    assert [record.error for record in window.records] == [None] * 8


def test_the_connector_is_no_child_of_the_engine_and_not_counted_as_it(walls: Walls, tmp_path: Path) -> None:
    scratch = tmp_path / "s"
    scratch.mkdir()
    code = (
        "import os, time\n"
        "try:\n    print(os.waitpid(-1, os.WNOHANG))\nexcept ChildProcessError:\n    print('no child', flush=True)\n"
        "print(sorted(set(os.listdir('/proc/self/fd')) - {'0', '1', '2', '3'}), flush=True)\n"
        "time.sleep(300)"
    )
    from infra_agent.harness.handover import hand_over

    with hand_over() as reached:
        process = ManagedProcess.start(
            [sys.executable, "-I", "-S", "-c", code], env={"PATH": os.defpath}, cwd=scratch, log_path=tmp_path / "log",
            walls=walls, writable=[scratch], hand_over=reached,
        )  # fmt: skip
        try:
            assert eventually(lambda: len(process.tail(5)) == 2)
            assert process.tail(5) == ("no child", "[]")
            assert eventually(lambda: any(p.name() == connector.NAME for p in members(process)))
            everyone = members(process)
            helper = next(p for p in everyone if p.name() == connector.NAME)
            assert process.pid != helper.pid
            assert psutil.Process(process.pid).cmdline()[-1] == code
            counted = process.memory_bytes()
            assert counted == tree.peak_rss_bytes([psutil.Process(process.pid)])
            # A client that speaks garbage does not end it, and killing it does not end the engine.
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
                channel.connect(str(reached.path))
                channel.send(b"\0" * 40)
                channel.recv(16)
            helper.kill()
            assert eventually(lambda: helper.pid not in {p.pid for p in members(process)})
            assert process.alive()
            with pytest.raises(OSError):
                connect(reached.path, 80, timeout_s=5)
        finally:
            process.stop(5)
    assert not reached.path.exists()


def members(process: ManagedProcess) -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in process.own_pids() if psutil.pid_exists(pid)]


def test_the_socket_s_directory_goes_when_the_harness_is_killed(tmp_path: Path) -> None:
    token = uuid.uuid4().hex
    script = Path(__file__).with_name("harness_runner.py")
    env = {**os.environ, "PYTHONPATH": ".", "TMPDIR": str(tmp_path)}
    argv = [sys.executable, str(script), "bubblewrap", str(tmp_path), token]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=Path.cwd(), env=env) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"ready\n"
        assert list(tmp_path.glob("infra-agent-*/connect.sock"))
        runner.kill()
    assert eventually(lambda: not with_token(token))
    assert eventually(lambda: not list(tmp_path.glob("infra-agent-*/connect.sock")))


def test_a_profiler_attaches_by_the_process_id_of_this_machine(walls: Walls, tmp_path: Path) -> None:
    tool = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if tool is None:
        pytest.skip("py-spy is not installed")
    with serving(walls, tmp_path) as server:
        done = subprocess.run(
            [tool, "dump", "--pid", str(server.pid)], capture_output=True, text=True, timeout=60, check=False
        )
    assert "serve_forever" in done.stdout, done.stderr


def test_a_relay_lets_this_machine_in(walls: Walls, tmp_path: Path) -> None:
    with serving(walls, tmp_path) as server:
        port = httpx.URL(server.base_url).port
        assert server.via is not None
        assert port is not None
        with relayed(server.via, port):
            answers = {httpx.get(f"{server.base_url}/health", trust_env=False).status_code for _ in range(3)}
            assert answers == {200}
            with socket.create_connection(("127.0.0.1", port)) as half:
                half.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                half.shutdown(socket.SHUT_WR)
                half.settimeout(10)
                answer = b""
                while data := half.recv(4096):
                    answer += data
            assert b"200" in answer.splitlines()[0]
            idle = socket.create_connection(("127.0.0.1", port))
        idle.close()
        with socket.socket() as plain:
            assert plain.connect_ex(("127.0.0.1", port)) != 0


def test_a_relay_whose_engine_does_not_listen_closes_the_door(walls: Walls, tmp_path: Path) -> None:
    with serving(walls, tmp_path) as server:
        assert server.via is not None
        port = free_port()
        with relayed(server.via, port), socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(10)
            assert client.recv(16) == b""


def test_a_relay_on_a_taken_port_is_refused(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(PortInUse),
        relayed(tmp_path / "x", taken.getsockname()[1]),
    ):
        pytest.fail("the port is taken")


def test_a_hand_over_adds_nothing_to_what_comes_after_it(walls: Walls, tmp_path: Path) -> None:
    """The connection's two ends are the engine and the harness: ended connectors do not end it."""
    with serving(walls, tmp_path) as server:
        assert server.via is not None
        assert server.process is not None
        port = httpx.URL(server.base_url).port or 0
        with connect(server.via, port) as connection:
            for process in members(server.process):
                if process.name() == connector.NAME:
                    process.send_signal(signal.SIGKILL)
            time.sleep(0.1)
            connection.settimeout(10)
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert connection.recv(64).startswith(b"HTTP/1.0 200")


def test_asyncio_streams_work_through_a_sandbox(walls: Walls, tmp_path: Path) -> None:
    async def ask(via: Path, port: int) -> bytes:
        reader, writer = await open_connection(via, port)
        writer.write(b"GET /health HTTP/1.0\r\n\r\n")
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return answer

    with serving(walls, tmp_path) as server:
        assert server.via is not None
        assert asyncio.run(ask(server.via, httpx.URL(server.base_url).port or 0)).startswith(b"HTTP/1.0 200")
