"""CUDA C++ through nvcc where it is installed, and the refusal where it is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from probes.base import Verdict
from probes.static.cuda_compile import Tools, observe_cuda

SOURCE = (
    'extern "C" __global__ void scale(float* x, float a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; '
    "if (i < n) x[i] = expf(x[i]) * a; }\n"
)


def test_without_nvcc_the_rung_is_inconclusive(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    assert Tools.find(lambda _name: None) is None
    found = observe_cuda(tmp_path / "missing.cu", ["sm_90"])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.signals["reason"] == "no-kernel"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_a_kernel_and_a_broken_one_are_judged_by_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    good = observe_cuda(tmp_path / "k.cu", ["sm_90"])
    assert good.verdict is Verdict.PASS
    row = good.detail["kernels"][0]
    assert row["kernel"] == "scale"
    assert row["registers"] > 0
    assert row["counts"]["exp2"] == 1
    (tmp_path / "k.cu").write_text(SOURCE.replace("float a", "flot a"))
    bad = observe_cuda(tmp_path / "k.cu", ["sm_90"])
    assert bad.verdict is Verdict.FAIL
    assert "flot" in bad.summary
