"""What the load client knows, and what this machine knows of both ends of a port, with real processes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from served import serving, vllm_page

from probes.events.client import from_records, from_result, read_load_file
from probes.events.decide import diagnose
from probes.events.host import HostWatch, used_by
from probes.events.signals import Signal, Signals
from probes.events.watch import Watch, Watching
from probes.load.ask import windows
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script
from probes.load.options import ask_of
from probes.load.outputs import write_outputs
from probes.load.session import Session
from probes.load.types import RequestRecord

LACKING = '{"schema": "infra-agent/load-result/1", "windows": [{}]}'
HOLDS = """
import socket, sys, time
links = [socket.create_connection(("127.0.0.1", int(sys.argv[1])))]
print("up", flush=True)
while True:
    sum(range(2000))
"""


def serial(count: int = 8, tokens: int = 10, prompt: int = 20) -> list[RequestRecord]:
    """Answers of a server that serves one request at a time, four users waiting."""
    made = []
    for n in range(count):
        sent, first = max(0.0, n - 3.0), n + 0.1
        times = tuple(first + 0.09 * k for k in range(tokens))
        made.append(
            RequestRecord(
                id=n, scheduled_s=sent, sent_s=sent, end_s=times[-1], first_token_s=first, last_token_s=times[-1],
                chunk_times_s=times, output_tokens=tokens, prompt_tokens=prompt,
            )
        )  # fmt: skip
    return made


def test_time_stamps_alone_name_a_server_that_serves_in_turn() -> None:
    facts = Signals(from_records(serial()))
    assert facts.number("running_max") == 1
    assert facts.get("serialised") is not None
    found = diagnose(facts)
    assert found.limit == "admission cap"
    assert found.of("admission cap").confidence == "low"


def test_metrics_of_the_engine_win_over_time_stamps_of_the_client() -> None:
    facts = Signals(from_records(serial()))
    facts.add(Signal(name="running_max", value=9, unit="requests", quality="exact", source="vllm"))
    assert facts.number("running_max") == 9


def test_a_load_result_is_read_back_from_its_file(tmp_path: Path) -> None:
    with MockProcess() as mock:
        mock.play(Script(first_token_s=0.05, gap_s=0.01, chunks=(1,) * 6))
        session = Session()
        said = {"url": mock.url, "concurrency": "3", "requests": 6, "warmup": 1}
        session.run(windows(ask_of(said)), lambda _: lambda _: None)
    write_outputs(session.told, tmp_path / "load.json")
    read = {signal.name: signal.value for signal in read_load_file(tmp_path / "load.json")}
    direct = {signal.name: signal.value for signal in from_result(session.told[0].observation, session.told[0].result)}
    assert read.keys() == direct.keys()
    assert read["offered"] == 3


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"schema": "infra-agent/load-result/1", "windows": [{}]}', "\x00"]
)
def test_files_that_are_no_load_result_are_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "load.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="load result|lacks"):
        read_load_file(path)


def test_a_client_whose_thread_is_at_its_limit_is_seen_at_the_port() -> None:
    with serving([vllm_page(running=2, waiting=0, tick=tick) for tick in range(1, 60)]) as served:
        port = str(served.server.server_port)
        with subprocess.Popen([sys.executable, "-c", HOLDS, port], stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            client.stdout.readline()
            with Watching(Watch(url=served.url, seconds=60.0, interval_s=0.1)) as watching:
                time.sleep(1.0)
                seen = watching.finish()
            client.kill()
    source = next(fact for fact in seen.detail["facts"] if fact["name"] == "client_cpu_wait_share")
    assert str(client.pid) in source["source"]
    wanted = float(seen.signals["client_busiest_thread"]) + float(seen.signals["client_cpu_wait_share"])
    assert wanted > 0.02


def test_starved_and_busy_clients_are_told_from_a_patient_one() -> None:
    def limit(wait: float, busy: float, share: float) -> str | None:
        facts = {"client_cpu_wait_share": wait, "client_busiest_thread": busy, "running_share": share}
        facts |= {"running_mean": 3.0, "waiting_share": 0.0, "waiting_mean": 0.0, "prefill_share": 0.1}
        return diagnose(
            Signals(Signal(name=n, value=v, unit="", quality="exact", source="") for n, v in facts.items())
        ).limit

    assert limit(0.6, 0.3, 0.5) == "client-bound"
    assert limit(0.0, 0.97, 1.0) == "client-bound"
    assert limit(0.02, 0.2, 1.0) == "decode bandwidth"


def test_a_port_of_another_machine_and_a_process_that_is_gone_are_absent() -> None:
    watch = HostWatch("http://192.0.2.1:8000")
    watch.look()
    assert all(signal.quality == "absent" for signal in watch.signals(1.0))
    assert "another machine" in watch.blind
    assert used_by(2**22 + 1) is None
