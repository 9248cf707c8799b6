"""The emulation inside Triton's interpreter, and its compiler's word on each device (make kernel-tests)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra_agent.stack.kernels import prepare_kernels

ROOT = Path(__file__).resolve().parents[3]
DRIVER = Path(__file__).parent / "in_kernels_env" / "driver.py"

pytestmark = [pytest.mark.kernels, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def python() -> Path:
    return prepare_kernels((), lambda text: sys.stderr.write(f"kernels: {text}\n") and None)[0].python


def tool(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [str(python), "-m", "probes.numeric.triton", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)


def document(python: Path, *words: str):
    done = tool(python, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_dot_is_logged_with_its_line_type_precision_and_count(python: Path) -> None:
    rows = document(python, "dots", str(DRIVER))
    found = {(row["function"], row["dtype"], row["asked"], row["precision"], row["arithmetic"]) for row in rows}
    assert found == {
        ("inner", "fp32", "tf32x3", "tf32x3", "tf32x3"),
        ("kernel", "fp32", "", "tf32", "tf32-truncated"),
        ("kernel", "bf16", "", "tf32", "exact"),
    }
    assert {row["kernel"] for row in rows} == {"kernel"}
    text = DRIVER.read_text().splitlines()
    assert all("tl.dot(" in text[row["site"]["line"] - 1] for row in rows)


def test_the_plain_dot_is_the_culprit_and_the_stated_one_is_not(python: Path) -> None:
    effects = {row["function"]: row for row in document(python, "sweep", str(DRIVER))["effects"]}
    assert effects["kernel"]["alone"] > 1000 * effects["inner"]["alone"]


def test_a_device_without_tf32_units_computes_in_full_and_one_without_tf32x3_refuses_it(python: Path) -> None:
    rows = document(python, "dots", str(DRIVER), "--device", "sm_75")
    assert {row["arithmetic"] for row in rows} == {"ieee", "exact"}
    refused = tool(python, "dots", str(DRIVER), "--device", "gfx942")
    assert refused.returncode == 2
    assert "input_precision must be one of" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_override_reaches_one_line_and_a_line_without_a_dot_is_an_error(python: Path) -> None:
    line = next(n for n, text in enumerate(DRIVER.read_text().splitlines(), 1) if "z = tl.dot(x, y)" in text)
    rows = document(python, "dots", str(DRIVER), "--override", f"driver.py:{line}=ieee")
    assert {row["arithmetic"] for row in rows} == {"ieee", "tf32x3", "exact"}
    wrong = tool(python, "dots", str(DRIVER), "--override", "driver.py:1=ieee")
    assert wrong.returncode == 2
    assert "no tl.dot was called at driver.py:1" in wrong.stderr


def test_the_compiler_says_what_each_precision_becomes_on_each_device(python: Path) -> None:
    found = document(python, "legality")
    reads = {device: {asked: one["reads"] for asked, one in row.items()} for device, row in found.items()}
    assert set(reads["sm_75"].values()) <= {"f32", "bf16"}
    for device in ("sm_80", "sm_90"):
        assert reads[device]["default"] == reads[device]["tf32"] == "tf32"
        assert reads[device]["tf32x3"] == "tf32x3"
        assert reads[device]["ieee"] == "f32"
        assert found[device]["tf32x3"]["counts"]["tf32"] >= 3 * found[device]["tf32"]["counts"]["tf32"]
    assert reads["gfx942"]["default"] == "tf32"
    assert reads["gfx942"]["tf32x3"] == reads["gfx90a"]["tf32x3"] == reads["gfx90a"]["tf32"] == "refused"
    assert reads["gfx90a"]["default"] == "f32"
