from __future__ import annotations

import numpy as np
import pytest

from probes.numeric.inputs.regimes import ORDERED, draw, regimes
from probes.numeric.judge.spec import Result, Spec, Tensor
from probes.numeric.operators.functions import matmul, softmax, topk_gate
from probes.numeric.operators.specs import OPERATORS
from probes.numeric.precision import Array, rounded
from probes.numeric.tolerance.derive import derivation
from probes.numeric.tolerance.expected import Expected, Reference, ReferenceFailure
from probes.numeric.tolerance.rules import CloseRule, DerivedRule

SIZES = {"m": 8, "k": 200, "n": 6}
RULE = DerivedRule()


def product(dtype: str = "float32", claim: str | None = None, **more: object) -> Spec:
    return Spec(
        name="matmul", sizes=(SIZES,), claim=claim, reduction=("k",),
        inputs=(Tensor(name="a", shape=("m", "k"), dtype=dtype), Tensor(name="b", shape=("k", "n"), dtype=dtype)),
        outputs=(Result(name="c", shape=("m", "n"), dtype=dtype, **more),),
    )  # fmt: skip


def expect(spec: Spec, regime: str = "ordinary") -> tuple[Expected, tuple[Array, ...]]:
    rng = np.random.default_rng(5)
    inputs = draw(spec, spec.sizes[0], regime, rng)
    found = Reference(matmul, spec).expect(inputs, spec.sizes[0], rng, ordered=regime in ORDERED)
    return found[0], inputs


@pytest.mark.parametrize("regime", regimes(product()))
def test_sums_in_any_order_pass_in_every_regime(regime: str) -> None:
    found, (a, b) = expect(product(), regime)
    a32, b32 = a.astype(np.float32), b.astype(np.float32)
    forwards = np.zeros((8, 6), np.float32)
    backwards = np.zeros((8, 6), np.float32)
    for at in range(200):
        forwards = forwards + np.outer(a32[:, at], b32[at])
        backwards = backwards + np.outer(a32[:, -1 - at], b32[-1 - at])
    for honest in (a32 @ b32, forwards, backwards, (b32.T @ a32.T).T):
        assert RULE.refuse(found, honest.astype(np.float64)) is None


@pytest.mark.parametrize("coarse", ["tf32", "float16", "bfloat16"])
def test_less_precision_than_promised_is_refused(coarse: str) -> None:
    found, (a, b) = expect(product())
    assert RULE.refuse(found, rounded(a, coarse) @ rounded(b, coarse)) is not None
    assert RULE.refuse(found, rounded(a @ b, coarse)) is not None


def test_a_claim_of_tf32_admits_tf32_and_still_no_wrong_values() -> None:
    found, (a, b) = expect(product(claim="tf32"))
    assert RULE.refuse(found, rounded(a, "tf32") @ rounded(b, "tf32")) is None
    assert RULE.refuse(found, found.working * 1.1) is not None


def test_a_row_of_small_values_is_judged_by_its_own_size() -> None:
    found, (a, b) = expect(product())
    a = a.copy()
    a[3] *= 1e-6
    spec = product()
    found = Reference(matmul, spec).expect((a, b), SIZES, np.random.default_rng(0))[0]
    wrong = found.working.copy()
    wrong[3] = 0
    refused = RULE.refuse(found, wrong)
    assert refused is not None
    assert refused.index[0] == 3
    assert CloseRule(rtol=1e-2, atol=1e-2).refuse(found, wrong) is None


def test_the_first_wrong_element_is_named_with_both_values() -> None:
    found, _ = expect(product())
    wrong = found.working.copy()
    wrong[2, 4] += 1
    wrong[5, 1] += 1
    refused = RULE.refuse(found, wrong)
    assert refused is not None
    assert refused.index == (2, 4)
    assert refused.got == wrong[2, 4]
    assert "c[2, 4]" in str(refused)


@pytest.mark.parametrize(("value", "fault"), [(np.nan, "nan"), (np.inf, "infinity")])
def test_nan_and_infinity_are_no_wildcards(value: float, fault: str) -> None:
    found, _ = expect(product())
    wrong = found.working.copy()
    wrong[1, 1] = value
    refused = RULE.refuse(found, wrong)
    assert refused is not None
    assert refused.fault == fault


def test_nan_of_the_reference_must_be_given_back() -> None:
    spec = Spec(
        name="log", sizes=({"n": 4},), inputs=(Tensor(name="x", shape=("n",)),),
        outputs=(Result(name="y", shape=("n",)),),
    )  # fmt: skip
    inputs = (np.array([1.0, -1.0, 4.0, -2.0]),)
    found = Reference(np.log, spec).expect(inputs, {"n": 4}, np.random.default_rng(0))[0]
    assert RULE.refuse(found, found.working) is None
    assert RULE.refuse(found, np.zeros(4)) is not None
    assert RULE.refuse(found, np.nan_to_num(found.working)) is not None


def test_a_promise_in_ulp_holds_for_every_element() -> None:
    found, _ = expect(product(max_ulp=4.0))
    last = np.nextafter(found.working.astype(np.float32), np.float32(9), dtype=np.float32).astype(np.float64)
    near = rounded(found.exact, "float32")
    assert RULE.refuse(found, near) is None
    far = near.copy()
    smallest = np.unravel_index(np.argmin(np.abs(far)), far.shape)
    far[smallest] *= 1 + 1e-6
    refused = RULE.refuse(found, far)
    assert refused is not None
    assert refused.measure == "ULP"
    assert last.shape == far.shape


def test_a_place_may_differ_only_where_one_rounding_decides_it() -> None:
    spec = next(spec for spec, function in OPERATORS if function is topk_gate)
    x = np.linspace(0, 1, 16)[None].repeat(12, axis=0)
    found = Reference(topk_gate, spec).expect((rounded(x, "float32"),), spec.sizes[0], np.random.default_rng(0))[1]
    assert RULE.refuse(found, found.working) is None
    assert RULE.refuse(found, found.working[:, ::-1]) is not None


def test_the_derivation_names_every_term() -> None:
    found, _ = expect(product())
    told = derivation(found)
    assert told.terms == 200
    assert 0 < told.own_error < told.allowed
    assert told.allowed < 1e-4
    assert told.accumulation == pytest.approx(2 * 200**0.5 * 2**-24)


def test_a_reference_with_another_shape_is_told_apart_from_a_wrong_candidate() -> None:
    spec = product()
    with pytest.raises(ReferenceFailure, match="c as"):
        Reference(lambda a, b: softmax(a), spec).expect(
            draw(spec, SIZES, "ordinary", np.random.default_rng(0)), SIZES, np.random.default_rng(0)
        )
