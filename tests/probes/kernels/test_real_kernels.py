"""The kernel probes on real Triton kernels, in the environment that they prepare: `make kernel-tests`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from infra_agent.stack.kernels import kernels_python
from probes.base import Verdict
from probes.micro.redundancy.probe import observe as observe_redundancy
from probes.static.triton_compile.probe import Ask, observe

pytestmark = [pytest.mark.kernels, pytest.mark.slow]
KERNELS = """
import torch, triton
import triton.language as tl

@triton.jit
def scale(x, s, o, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < N) * tl.exp(tl.load(s)), mask=i < N)

@triton.jit
def dot(a, b, c, P: tl.constexpr):
    r = tl.arange(0, 64)
    at = r[:, None] * 64 + r[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision=P))

@triton.jit
def past_the_end(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + 0 * i, tl.load(x + i))

def call_scale():
    x = torch.arange(100, dtype=torch.bfloat16)
    scale[(4,)](x, torch.zeros(1), x.clone(), 100, B=32)

def call_wrong():
    past_the_end[(2,)](torch.ones(40), torch.zeros(64), B=64)

def call_on_a_card():
    scale[(1,)](torch.ones(4, device="cuda"), torch.zeros(1), torch.ones(4), 4, B=4)
"""


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@pytest.fixture(scope="module")
def python() -> str:
    return kernels_python(_note)


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    (tmp_path / "my_kernels.py").write_text(KERNELS)
    return str(tmp_path / "my_kernels.py")


def test_a_kernel_compiles_everywhere_and_is_cached(python: str, kernels: str, tmp_path: Path) -> None:
    wanted = Ask(
        python=python, cache=tmp_path / "c", architectures=("sm_80", "sm_90", "sm_100", "gfx942", "gfx90a"),
        kernel=f"{kernels}:scale", call=f"{kernels}:call_scale",
    )  # fmt: skip
    first, second = observe(wanted), observe(wanted)
    assert first.verdict is Verdict.PASS, first
    assert not any(row["cached"] for row in first.detail["kernels"])
    assert all(row["cached"] for row in second.detail["kernels"])


def test_a_precision_that_an_architecture_lacks_is_the_verdict(python: str, kernels: str, tmp_path: Path) -> None:
    wanted = Ask(
        python=python, cache=tmp_path, architectures=("sm_90", "gfx942"), kernel=f"{kernels}:dot",
        given={"P": "tf32x3"},
    )  # fmt: skip
    found = observe(wanted)
    assert found.verdict is Verdict.FAIL
    good, bad = found.detail["kernels"]
    assert good["dots"] == {"f32 as tf32x3": 1}
    assert sum(good["matrix"].values()) > 0
    assert (bad["verdict"], bad["architecture"]) == ("fail", "gfx942")


def test_reads_past_the_end_and_writers_of_one_address_are_found(python: str, kernels: str) -> None:
    found = observe_redundancy(python, f"{kernels}:call_wrong")
    assert found.verdict is Verdict.FAIL
    launch = found.detail["launches"][0]
    assert launch["outside"] == [{"operand": "x", "line": 19, "direction": "load", "elements": 48}]
    assert launch["races"][0]["kind"] == "written by several programs"


def test_what_every_program_repeats_is_counted(python: str, kernels: str) -> None:
    found = observe_redundancy(python, f"{kernels}:call_scale")
    assert found.verdict is Verdict.PASS
    rows = {row["operand"]: row for row in found.detail["launches"][0]["operands"] if row["direction"] == "load"}
    assert (rows["s"]["reuse"], rows["x"]["reuse"]) == (4.0, 1.0)
    exps = next(row for row in found.detail["launches"][0]["work"] if row["kind"] == "exp")
    assert (exps["total"], exps["distinct"]) == (4, 1)


def test_a_call_that_needs_a_card_is_inconclusive_and_says_so(python: str, kernels: str) -> None:
    found = observe_redundancy(python, f"{kernels}:call_on_a_card")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.signals["reason"] == "needs-device"
