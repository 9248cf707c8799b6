"""How the oracle's process is started, watched and ended, with small scripts in the worker's place."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from probes.numeric import frames
from probes.numeric.oracle import OracleProcess, digest_of
from probes.numeric.types import OracleError

READY = """
import json, os, struct, sys, time
def say(document, fd=1):
    body = json.dumps(document).encode()
    os.write(fd, struct.pack(">I", len(body)) + body)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return str(tmp_path / "model")


def speaking(model: str, script: str, timeout_s: float = 20) -> OracleProcess:
    return OracleProcess(sys.executable, model, wrap=lambda argv: [argv[0], "-c", READY + script], timeout_s=timeout_s)


def test_a_model_that_is_no_directory_is_refused_before_anything_starts(tmp_path: Path):
    with pytest.raises(OracleError, match=r"not a directory with a config\.json"):
        OracleProcess(sys.executable, str(tmp_path / "none")).__enter__()


def test_an_interpreter_that_is_not_there_is_a_clear_error(model: str):
    with pytest.raises(OracleError, match="cannot be started with '/no/python'"):
        OracleProcess("/no/python", model).__enter__()


def test_a_worker_that_dies_while_loading_shows_its_last_lines(model: str):
    with pytest.raises(OracleError, match="its last lines: no torch here"):
        speaking(model, 'sys.stderr.write("no torch here\\n"); sys.exit(3)').__enter__()


def test_a_worker_that_hangs_is_given_up_and_killed(model: str):
    before = psutil.Process().children()
    with pytest.raises(OracleError, match="no reply in time"):
        speaking(model, "import signal; time.sleep(600)", timeout_s=0.3).__enter__()
    assert psutil.Process().children() == before


@pytest.mark.parametrize(
    "noise", ['os.write(1, b"hello, I am a library")', 'os.write(1, struct.pack(">I", 3) + b"{{{")']
)
def test_noise_on_the_pipe_is_an_error(model: str, noise: str):
    with pytest.raises(OracleError, match=r"claims|not JSON"):
        speaking(model, noise + "; time.sleep(600)").__enter__()


def test_a_worker_that_dies_later_breaks_off_the_request_and_every_later_one(model: str):
    with speaking(model, 'say({"result": {"n": 1}}); sys.stdin.buffer.read(4); sys.exit(1)') as oracle:
        assert oracle.facts == {"n": 1}
        with pytest.raises(OracleError, match="broke off at 'tokenise'"):
            oracle.tokenise(["x"])
        with pytest.raises(OracleError, match="not running"):
            oracle.tokenise(["x"])


def test_only_named_variables_reach_the_worker(model: str):
    script = 'say({"result": dict(os.environ)}); sys.stdin.buffer.read()'
    environ = {
        "PATH": os.defpath,
        "OMP_NUM_THREADS": "1",
        "API_TOKEN": "secret",
        "PYTHONPATH": "/x",
        "HF_HUB_OFFLINE": "0",
    }
    with OracleProcess(
        sys.executable, model, wrap=lambda argv: [argv[0], "-c", READY + script], environ=environ, timeout_s=20
    ) as oracle:
        seen = dict(oracle.facts)
    assert (seen["HF_HUB_OFFLINE"], seen["OMP_NUM_THREADS"]) == ("1", "1")
    assert not {"API_TOKEN", "PYTHONPATH"} & seen.keys()


def test_the_command_can_be_wrapped(model: str):
    seen: list[str] = []

    def wrap(argv: list[str]) -> list[str]:
        seen.extend(argv)
        return [argv[0], "-c", READY + 'say({"result": {}}); sys.stdin.buffer.read()']

    with OracleProcess(sys.executable, model, wrap=wrap, timeout_s=20):
        pass
    assert seen[1] == "-I"
    assert Path(seen[2]).name == "oracle_worker.py"
    assert seen[3] == model


def test_the_digest_follows_every_file(model: str):
    before = digest_of(Path(model))
    assert digest_of(Path(model)) == before
    (Path(model) / "model.safetensors").write_bytes(b"\0")
    after = digest_of(Path(model))
    assert after != before
    (Path(model) / "model.safetensors").rename(Path(model) / "other.safetensors")
    assert digest_of(Path(model)) != after


def test_a_reader_that_does_not_read_is_noticed():
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        began = time.monotonic()
        with pytest.raises(frames.FrameError, match="in time"):
            frames.send(writing, "x" * (1 << 20), timeout_s=0.2)
        assert time.monotonic() - began < 30
        os.close(reading)
        reading = -1
        with pytest.raises(frames.FrameError, match="closed"):
            frames.send(writing, "x", timeout_s=5)
    finally:
        os.close(writing)
        if reading >= 0:
            os.close(reading)


def test_the_worker_needs_nothing_of_this_project():
    worker = Path(frames.__file__).with_name("oracle_worker.py")
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import runpy; runpy.run_path({str(worker)!r}, run_name='w')"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
