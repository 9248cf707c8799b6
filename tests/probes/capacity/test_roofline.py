"""Figures of the roofline against published ones, and its refusals."""

from __future__ import annotations

import io
import json

import pytest

from probes.base import Verdict
from probes.capacity.roofline import sparse
from probes.capacity.roofline.__main__ import main
from probes.capacity.roofline.bound import Work, amdahl, limit, worth_trying
from probes.capacity.roofline.hardware import TABLE, hardware
from probes.capacity.roofline.report import observe, roofline
from probes.capacity.roofline.shape import GLM_5, GLM_5_2, Linear, shape_of
from probes.capacity.roofline.step import Setting, decode, linear_decode, prefill, weight_bytes

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14_336, "vocab_size": 128_256,
}  # fmt: skip


def test_parameters_of_published_models_come_out() -> None:
    assert GLM_5.parameters / 1e9 == pytest.approx(744, abs=1)
    assert GLM_5.active_parameters / 1e9 == pytest.approx(40, abs=1)
    assert GLM_5_2.parameters / 1e9 == pytest.approx(753, abs=1)
    assert shape_of(LLAMA).parameters / 1e9 == pytest.approx(8.03, abs=0.02)


@pytest.mark.parametrize(("weights", "published_gb"), [("bf16", 1500), ("fp8", 750), ("int4", 375)])
def test_memory_of_glm_5_2_is_the_published_one(weights: str, published_gb: float) -> None:
    assert weight_bytes(GLM_5_2, weights) / 1e9 == pytest.approx(published_gb, rel=0.01)


@pytest.mark.parametrize("context", [200_000, 1_000_000])
def test_some_stated_reading_of_sparse_attention_is_in_the_published_range(context: int) -> None:
    found = sparse.readings(GLM_5_2, context)
    assert any(one.published for one in found)
    assert all(one.assumption for one in found)
    assert not all(one.published for one in found)


def test_sharing_indexers_saves_what_the_card_says_within_two_digits() -> None:
    def flops(**flags: bool) -> float:
        return decode(GLM_5_2, Setting(context=1_048_576, **flags)).total.flops  # type: ignore[arg-type]

    assert flops(own_indexers=True) / flops() == pytest.approx(2.9, rel=0.08)


def test_short_contexts_see_no_saving_from_top_k() -> None:
    def attention(**flags: bool) -> float:
        return decode(GLM_5_2, Setting(context=1000, **flags)).parts["attention"].flops  # type: ignore[arg-type]

    assert attention() == attention(dense_attention=True)


def test_more_rows_read_more_experts_but_never_more_than_there_are() -> None:
    one, many = (decode(GLM_5_2, Setting(batch=n)).parts["weights"].bytes for n in (1, 100_000))
    assert one < many <= 2 * GLM_5_2.parameters


def test_a_replay_ring_trades_state_writes_for_exponentials() -> None:
    plain = linear_decode(Linear(layers=1, heads=1, key_dim=128, value_dim=128))
    ring = linear_decode(Linear(layers=1, heads=1, key_dim=128, value_dim=128, ring=16))
    assert plain.bytes > ring.bytes
    assert ring.transcendentals > 8 * plain.transcendentals


def test_drafts_cost_arithmetic_of_every_token_and_weights_once() -> None:
    none, two = (decode(GLM_5_2, Setting(drafts=n)) for n in (0, 2))
    assert two.parts["weights"].flops == 3 * none.parts["weights"].flops
    assert "prediction" in two.parts


def test_decode_is_bound_by_memory_and_a_long_prefill_by_arithmetic() -> None:
    device = hardware("h100")
    assert limit(decode(GLM_5_2, Setting()).total, device).binding == "memory"
    assert limit(prefill(GLM_5_2, Setting(context=0, new_tokens=65_536)).total, device).binding == "bf16"


def test_a_rate_that_is_not_published_makes_the_answer_inconclusive() -> None:
    found = observe(roofline(GLM_5_2, Setting(arithmetic="fp4"), "decode", hardware("A100")))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "fp4" in found.summary


def test_amdahl_bounds_a_change_and_the_noise_floor_stops_it() -> None:
    assert amdahl(0.04) == pytest.approx(1.0417, abs=1e-4)
    assert worth_trying(0.04, float("inf"), 0.01)[0]
    tried, said = worth_trying(0.004, 2.0, 0.01)
    assert not tried
    assert "not tried" in said
    with pytest.raises(ValueError, match="share"):
        amdahl(1.5)


def test_work_adds_up_by_kind() -> None:
    total = Work(bytes=1.0, flop={"bf16": 2.0}) + Work(bytes=3.0, flop={"fp32": 4.0})
    assert (total.bytes, total.flops) == (4.0, 6.0)


@pytest.mark.parametrize("name", list(TABLE))
def test_every_device_has_a_source_and_is_found_whatever_its_case(name: str) -> None:
    assert hardware(name.lower()).source


def test_unknown_hardware_lists_what_is_known() -> None:
    with pytest.raises(KeyError, match="H200"):
        hardware("abacus")


def test_a_configuration_without_a_size_names_it() -> None:
    with pytest.raises(ValueError, match="intermediate_size"):
        shape_of({key: value for key, value in LLAMA.items() if key != "intermediate_size"})


def test_the_command_prints_one_json_document() -> None:
    out = io.StringIO()
    assert main(["--json", "--hardware", "H200", "--devices", "16", "--weights", "fp8"], out=out) == 0
    document = json.loads(out.getvalue())
    assert document["signals"]["binding"] == "memory"
    assert document["signals"]["fits"] is True
