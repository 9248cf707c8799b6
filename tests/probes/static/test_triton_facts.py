"""Reading compilers' texts, occupancy and legality: pure functions on real excerpts."""

from __future__ import annotations

import pytest

from probes.static.triton_compile import listing
from probes.static.triton_compile.__main__ import parse_setting
from probes.static.triton_compile.facts import Facts, facts_of
from probes.static.triton_compile.occupancy import illegal, occupancy
from probes.static.triton_compile.table import difference, lines

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
    16 bytes stack frame, 8184 bytes spill stores, 10688 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 16 bytes stack, 64 bytes smem
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 96 registers
"""
PTX = """
\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
\tld.global.L1::evict_last.b32 { %r5 }, [ %rd2 ];
\tst.global.v2.b16 [ %rd3 ], { %rs1, %rs2 };
\twgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%f1}, %rd1, %rd2;
\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %f1 }, { %r1 };
\tex2.approx.f32 %f1, %f2;
\tshfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;
\tbar.sync 0;
\tcp.async.cg.shared.global [ %r1 + 0 ], [ %rd4 + 0 ], 0x10, %r3;
"""


def test_each_function_of_a_log_has_its_own_figures() -> None:
    first, second = listing.ptxas_log(LOG, "a"), listing.ptxas_log(LOG, "b")
    assert first is not None
    assert second is not None
    assert (first.registers, first.spill_store_bytes, first.spill_load_bytes) == (168, 8184, 10688)
    assert (first.stack_bytes, first.static_shared_bytes) == (16, 64)
    assert (second.registers, second.spill_store_bytes, second.barriers) == (96, 0, 0)


def test_a_log_without_registers_is_no_figure_of_zero() -> None:
    assert listing.ptxas_log("ptxas fatal: unresolved") is None
    assert listing.resource_usage("") is None
    assert listing.amd_resources("s_endpgm") is None


def test_ptx_instructions_are_counted_by_kind_and_width() -> None:
    found = listing.ptx_instructions(PTX)
    assert found.loads_bits == {32: 1, 128: 2}
    assert found.stores_bits == {32: 1}
    assert found.matrix == {"wgmma.m64n64k8.f32.tf32.tf32": 1, "mma.m16n8k16.f32.bf16.bf16.f32": 1}
    assert found.kinds == {"exp2": 1, "shuffle": 1, "barrier": 1, "async copy": 1}


def test_amd_resources_count_vector_registers_and_spills() -> None:
    text = "    .group_segment_fixed_size: 1024\n    .vgpr_count:     261\n    .vgpr_spill_count: 3\n"
    found = listing.amd_resources(text)
    assert found is not None
    assert (found.registers, found.spill_store_bytes, found.static_shared_bytes) == (261, 12, 1024)
    assert listing.amd_instructions("\tv_mfma_f32_32x32x2_f32 a, b\n\tglobal_load_dwordx4 v, v\n").loads_bits == {
        128: 1
    }


def test_dot_precision_is_read_from_the_ir() -> None:
    ir = "%1 = tt.dot %a, %b, %c, inputPrecision = tf32 : tensor<64x64xf32> * tensor<64x64xf32> -> tensor<64x64xf32>\n"
    assert listing.dot_precisions(ir) == {"f32 as tf32": 1}
    assert listing.dot_precisions(ir.replace(", inputPrecision = tf32", "")) == {"f32 as ieee": 1}
    assert listing.dot_precisions(ir.replace("xf32", "xbf16")) == {"bf16": 1}


@pytest.mark.parametrize(
    ("registers", "warps", "blocks", "limited_by"),
    [(255, 4, 2, "registers"), (32, 1, 32, "blocks"), (80, 1, 24, "registers"), (32, 32, 2, "warps")],
)
def test_occupancy_follows_the_vendor_rule(registers: int, warps: int, blocks: int, limited_by: str) -> None:
    found = occupancy("sm_90", registers=registers, shared_bytes=0, warps=warps)
    assert found is not None
    assert (found.blocks, found.limited_by) == (blocks, limited_by)


def test_shared_memory_limits_blocks_with_its_reserve() -> None:
    found = occupancy("sm_90", registers=32, shared_bytes=113 * 1024, warps=4)
    assert found is not None
    assert (found.blocks, found.limited_by) == (2, "shared memory")


def test_an_unknown_architecture_has_no_occupancy_and_no_invented_violation() -> None:
    assert occupancy("sm_999", registers=32, shared_bytes=0, warps=4) is None
    assert illegal("gfx000", registers=9999, shared_bytes=1 << 30, warps=99) == []


def test_a_launch_that_the_driver_would_refuse_is_named() -> None:
    found = illegal("sm_80", registers=255, shared_bytes=200 << 10, warps=32, grid=(1, 70_000))
    text = "; ".join(found)
    assert "shared memory" in text
    assert "registers" in text
    assert "grid axis y" in text
    assert illegal("sm_90", registers=64, shared_bytes=1024, warps=4, grid=(70_000,)) == []


def _failed(architecture: str) -> Facts:
    return facts_of({
        "kernel": "m:k", "architecture": architecture, "file": "m.py", "line": 3, "ok": False, "stage": "language",
        "error": "AssertionError: tf32x3 is not supported", "lines": [], "cached": False, "wall_s": 0.0,
        "directory": "",
    })  # fmt: skip


def test_a_compile_error_is_a_verdict_in_the_table_and_not_a_row_of_zeros() -> None:
    found = _failed("gfx942")
    assert found.failure is not None
    assert "does not compile (language): AssertionError: tf32x3" in lines([found])[-1]
    assert difference(found, _failed("gfx90a")) == [("architecture", "gfx942", "gfx90a")]


@pytest.mark.parametrize(
    ("text", "value"), [("A=3", 3), ("A=True", True), ("A=None", None), ("A=bf16", "bf16"), ("A=0.5", 0.5)]
)
def test_settings_are_read_as_values_or_types(text: str, value: object) -> None:
    assert parse_setting(text) == ("A", value)


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match="NAME=VALUE"):
        parse_setting("BLOCK")
