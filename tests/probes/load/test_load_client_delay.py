"""A client that is not given the processor says so instead of calling its own delay the server's."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script

RUN_S, PERIOD_S = 0.005, 0.1


@contextlib.contextmanager
def at_five_percent(process: subprocess.Popen[str]) -> Iterator[None]:
    """Let the process run for 5 ms of every 100."""
    stop = threading.Event()

    def throttle() -> None:
        with contextlib.suppress(ProcessLookupError):
            while not stop.is_set() and process.poll() is None:
                process.send_signal(signal.SIGSTOP)
                stop.wait(PERIOD_S - RUN_S)
                process.send_signal(signal.SIGCONT)
                time.sleep(RUN_S)
            process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=throttle, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def test_a_throttled_client_gives_no_figures(mock: MockProcess) -> None:
    mock.play(Script(first_token_s=0.05, gap_s=0.01, chunks=(1,) * 10))
    process = subprocess.Popen(
        [
            sys.executable, "-m", "probes.load", "--url", mock.url, "--model", "mock", "--rate", "20",
            "--requests", "60", "--warmup", "0", "--json",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until_s = time.monotonic() + 60
    while not mock.truth() and time.monotonic() < until_s:
        time.sleep(0.02)
    with at_five_percent(process):
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 1, stderr
    document = json.loads(stdout.splitlines()[-1])
    assert document["verdict"] == "invalid"
    assert document["quantities"] == []
    assert "client delay" in {check["name"] for check in document["checks"] if not check["ok"]}
