"""The KV transfer lab on real processes: `make test-lab-kv` prepares its environment and runs these.

Speed is not judged here, so that a busy machine does not decide; `make case-2` judges it in blocks.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LAB = Path(__file__).parent / "kv_transfer"
pytestmark = [pytest.mark.slow, pytest.mark.lab_kv]


@pytest.fixture(scope="module")
def python() -> Path:
    named = os.environ.get("INFRA_AGENT_LAB_KV")
    assert named, "the lab's interpreter is not named: make test-lab-kv"
    return Path(named)


@pytest.fixture(scope="module")
def lab(python: Path) -> Iterator[Any]:
    sys.path.insert(0, str(LAB))
    yield importlib.import_module("variants")
    sys.path.remove(str(LAB))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kv")


def test_both_arms_run_and_every_block_arrives_unchanged(lab: Any, python: Path, cache: Path) -> None:
    settings = lab.Settings(python=python, cache=cache)
    with lab.engine("stock", lab.SOURCE, settings) as variant:
        lab.interleave([variant], 2, 6, 0)
    assert variant.about["compute"].startswith("torch 2.13.0")
    assert len(variant.gaps) == 2
    assert variant.bytes_correct
    assert variant.bytes_moved == 2 * 6 * 128 * 256 * 4


def test_only_the_internode_route_lets_another_thread_run_during_its_wait(lab: Any, python: Path, cache: Path) -> None:
    probe = """
import importlib.util, pathlib, subprocess, sys, tempfile, threading, time
spec = importlib.util.spec_from_file_location("kv_wire", sys.argv[1])
wire = importlib.util.module_from_spec(spec); spec.loader.exec_module(wire)
box = pathlib.Path(tempfile.mkdtemp()) / "box"; box.write_bytes(bytes(4096))
peer = subprocess.Popen([sys.executable, sys.argv[2], str(box), "0.3", str(__import__("os").getpid())])
time.sleep(1.5)
turns = 0
def turn():
    global turns
    while True:
        turns += 1
        time.sleep(0.001)
threading.Thread(target=turn, daemon=True).start()
buffer = wire.Buffer(str(box), 4)
for route in ("intranode", "internode"):
    before = turns
    assert getattr(buffer, route + "_dispatch")(128) == 128
    print(route, turns - before)
peer.kill(); peer.wait()
"""
    extension = importlib.import_module("build").build(lab.SOURCE, python, cache / "build")
    done = subprocess.run(
        [python, "-c", probe, str(extension), str(LAB / "peer.py")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    turns = dict(line.split() for line in done.stdout.splitlines())
    assert int(turns["intranode"]) <= 2
    assert int(turns["internode"]) > 10


def test_a_run_writes_the_document_of_an_experiment(python: Path, cache: Path, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    subprocess.run(
        [python, LAB / "measure.py", "--result", target, "--blocks", "2", "--layers", "4", "--cache", cache],
        check=True, timeout=280,
    )  # fmt: skip
    found = json.loads(target.read_text())
    assert found["version"] == 1
    assert [check["ok"] for check in found["checks"]] == [True]
    assert {q["name"] for q in found["quantities"]} >= {"prefill_kept", "transfer_gap"}
    assert all(len(q["samples"]) == 2 for q in found["quantities"])
    assert len(found["sources"]["wire.cpp"]) == 64


def test_the_scan_probe_writes_an_observation_with_the_line(python: Path, tmp_path: Path) -> None:
    target = tmp_path / "scan.json"
    subprocess.run([python, LAB / "look.py", "scan", "--result", target], check=True, timeout=60)
    (observation,) = json.loads(target.read_text())["observations"]
    assert observation["verdict"] == "fail"
    assert observation["where"] == {"file": "wire.cpp", "line": 49}
    assert observation["signals"]["gil_held_while_waiting"] is True


def test_the_trace_probe_names_holder_and_victim(lab: Any, python: Path, cache: Path) -> None:
    from probes.trace.gil import fuse, spy

    with lab.engine("stock", lab.SOURCE, lab.Settings(python=python, cache=cache)) as variant:
        signals = lab.looked(variant, 2.0)
    assert signals.threads[variant.process.pid] == "MainThread"
    assert "kv-transfer" in signals.threads.values()
    if signals.spied is None:
        assert "permission" in signals.missing["py-spy"]
        return
    found = [holder.function for holder in spy.holders(signals.spied.stacks)]
    assert "kv::Buffer::intranode_dispatch" in found
    assert fuse.observe(signals).detail["rule_outs"]


def test_a_stripped_binding_is_named_by_its_file(lab: Any, python: Path, cache: Path, tmp_path: Path) -> None:
    built = importlib.import_module("build").build(lab.SOURCE, python, tmp_path, strip=True)
    nm = shutil.which("nm")
    assert nm is not None
    said = subprocess.run([nm, built], capture_output=True, text=True)
    assert "no symbols" in said.stderr + said.stdout


def test_a_binding_that_does_not_compile_is_a_clear_error(python: Path, tmp_path: Path) -> None:
    (tmp_path / "wire.cpp").write_text("int broken(\n")
    done = subprocess.run(
        [python, LAB / "measure.py", "--source", tmp_path], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 6
    assert "g++ failed" in done.stderr
    assert "Traceback" not in done.stderr
