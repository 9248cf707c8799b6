"""Sites, policies and the sweep over them, on a made-up pipeline of two products."""

from __future__ import annotations

import numpy as np
import pytest

from probes.numeric.triton.arithmetic import Arithmetic, product
from probes.numeric.triton.compiled import Compiled, count
from probes.numeric.triton.policy import Policy
from probes.numeric.triton.sites import Dot, DotLog, Site, find
from probes.numeric.triton.sweep import error_left, relative_error, sweep

BAD, FINE, STATED = Site("/k/chain.py", 10, 4), Site("/k/chain.py", 20, 4), Site("/k/chain.py", 30, 4)
RANDOM = np.random.default_rng(5)
SQUARE = RANDOM.standard_normal((16, 16)).astype(np.float32)
EYE = np.eye(16, dtype=np.float32)


def run(policy: Policy) -> tuple[np.ndarray, DotLog]:
    """One product that tf32 harms, one of numbers that tf32 reads exactly, one that asked for ieee."""
    log = DotLog()

    def at(site: Site, precision: str, left, right):
        arithmetic = policy.arithmetic(precision, site)
        log.counts[
            Dot(
                site=site,
                function="f",
                kernel="kernel",
                dtype="fp32",
                asked="",
                precision=precision,
                arithmetic=str(arithmetic),
                shape=(16, 16, 16),
            )
        ] += 1
        return product(left, right, arithmetic)

    state = at(BAD, "tf32", SQUARE, SQUARE)
    whole = at(FINE, "tf32", EYE, EYE)
    return at(STATED, "ieee", state, whole), log


def test_the_sweep_finds_the_product_that_does_harm_and_clears_the_others() -> None:
    done = sweep(run, Policy())
    effects = {effect.site: effect for effect in done.effects}
    assert set(effects) == {BAD, FINE}
    assert effects[BAD].alone == pytest.approx(done.shipped)
    assert effects[BAD].without == 0
    assert effects[FINE].alone == 0
    assert effects[FINE].without == pytest.approx(done.shipped)
    assert error_left(run, Policy(), [BAD], done.exact) == 0


def test_an_override_comes_before_force_and_force_before_what_was_asked() -> None:
    forced = Policy(force=Arithmetic.IEEE)
    assert Policy().arithmetic("tf32", BAD) is Arithmetic.TF32_TRUNCATED
    assert forced.arithmetic("tf32", BAD) is Arithmetic.IEEE
    assert forced.overriding({BAD: Arithmetic.BF16}).arithmetic("tf32", BAD) is Arithmetic.BF16
    assert Policy(without_units=True).arithmetic("tf32x3", BAD) is Arithmetic.IEEE


def test_a_precision_that_is_not_known_is_refused_instead_of_guessed() -> None:
    with pytest.raises(ValueError, match="tf99"):
        Policy().arithmetic("tf99", BAD)


def test_a_site_is_found_by_the_last_parts_of_its_file_its_line_and_its_column() -> None:
    assert find([BAD, FINE], "chain.py:10") == [BAD]
    assert find([BAD, FINE], "k/chain.py:20:4") == [FINE]
    assert find([BAD, FINE], "chain.py:20:5") == []
    assert find([BAD, FINE], "in.py:10") == []
    with pytest.raises(ValueError, match="FILE:LINE"):
        find([BAD], "chain.py")


def test_a_result_with_a_nan_has_an_infinite_error_and_another_shape_is_an_error_of_the_caller() -> None:
    assert relative_error(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == np.inf
    assert relative_error(np.zeros(2), np.zeros(2)) == 0
    with pytest.raises(ValueError, match="shape"):
        relative_error(np.zeros(2), np.zeros(3))


def test_instructions_are_counted_by_what_they_read() -> None:
    ptx = "\n".join(
        [
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r2};",
            "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%f1}, %rd1, %rd2;",
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2};",
            "cvt.rna.tf32.f32 %r1, %r2;",
            "fma.rn.f32 %f1, %f2, %f3, %f4;",
            "// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 in a comment",
        ]
    )
    assert count(ptx) == {"tf32": 2, "bf16": 1, "cvt.rna": 1, "fma": 1}
    assert Compiled(device="sm_90", counts=count(ptx)).reads == "tf32x3"
    assert Compiled(device="sm_75", counts={"fma": 4}).reads == "f32"
    assert Compiled(device="gfx942", refusal="no").reads == "refused"


def test_amd_instructions_are_told_apart() -> None:
    assembly = "\n".join(
        [
            '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"',
            "\tv_mfma_f32_16x16x8_xf32 a[0:3], v[0:1], v[2:3], a[0:3]",
            "\tv_mfma_f32_16x16x4_f32 a[0:3], v0, v1, a[0:3]",
            "\tv_mfma_f32_16x16x16_bf16 a[0:3], v[0:1], v[2:3], a[0:3]",
        ]
    )
    assert count(assembly) == {"tf32": 1, "f32": 1, "bf16": 1}
