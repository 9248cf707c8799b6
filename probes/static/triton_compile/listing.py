"""Reads what compilers write: ptxas logs, cuobjdump's table, PTX, AMD assembly, Triton's IR.

Covered: registers, spills, stack, shared memory; instructions counted by kind; width of global loads and stores;
precision of every `tl.dot`. Counts are of instructions in the text, not of executions. Not covered: SASS.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_PTX = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][a-z0-9_]*(?:\.[\w:]+)*)\b", re.MULTILINE)
_PTX_NOISE = ("loc", "file", "section")
_AMD = re.compile(r"^\s+((?:v|s|ds|buffer|global|flat|scratch)_\w+)", re.MULTILINE)
_AMD_FIELD = re.compile(
    r"^\s*\.(vgpr_count|agpr_count|sgpr_count|vgpr_spill_count|sgpr_spill_count|group_segment_fixed_size"
    r"|private_segment_fixed_size):\s+(\d+)", re.MULTILINE,
)  # fmt: skip
_USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?(.*)")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_SMEM = re.compile(r"(\d+) bytes smem")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_PRECISION = re.compile(r"inputPrecision = (\w+)")
_KINDS_PTX = {
    "fma": ("fma.",), "exp2": ("ex2.",), "log2": ("lg2.",), "sqrt": ("sqrt.", "rsqrt."), "divide": ("div.", "rcp."),
    "tanh": ("tanh.",), "shuffle": ("shfl.",), "barrier": ("bar.sync", "barrier.sync", "barrier.cta"),
    "mbarrier": ("mbarrier.",), "tf32 rounding": ("cvt.rna.tf32",), "atomic": ("atom.", "red."),
    "async copy": ("cp.async",),
}  # fmt: skip
_KINDS_AMD = {
    "fma": ("v_fma", "v_fmac", "v_pk_fma", "v_mad"), "exp2": ("v_exp_",), "log2": ("v_log_",),
    "sqrt": ("v_sqrt_", "v_rsq_"), "divide": ("v_rcp_", "v_div_fixup"), "barrier": ("s_barrier",),
    "shuffle": ("ds_swizzle", "ds_bpermute", "ds_permute", "v_mov_b32_dpp", "v_readlane"),
    "atomic": ("global_atomic", "buffer_atomic", "ds_add"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one block's threads need. `registers` are 32-bit ones of a thread (AMD: a lane's vector registers)."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    barriers: int
    scalar_spills: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One line of `cuobjdump --dump-resource-usage`."""

    registers: int
    stack_bytes: int
    shared_bytes: int
    local_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Instruction counts of a listing: matrix instructions by name, others by kind, accesses by width in bits."""

    matrix: dict[str, int]
    kinds: dict[str, int]
    loads_bits: dict[int, int]
    stores_bits: dict[int, int]


def ptxas_log(text: str, function: str = "") -> Resources | None:
    """Resources from `ptxas -v`; of one function where a log has several. None when there is no such line."""
    part = text
    if function:
        _, found, rest = text.partition(f"Compiling entry function '{function}'")
        part = rest.partition("Compiling entry function")[0] if found else text
    used, spill = _USED.search(part), _SPILL.search(part)
    if used is None:
        return None
    smem = _SMEM.search(used[3])
    stack, stores, loads = (int(spill[i]) for i in (1, 2, 3)) if spill else (0, 0, 0)
    return Resources(
        registers=int(used[1]), spill_store_bytes=stores, spill_load_bytes=loads, stack_bytes=stack,
        static_shared_bytes=int(smem[1]) if smem else 0, barriers=int(used[2] or 0),
    )  # fmt: skip


def resource_usage(text: str, function: str = "") -> Usage | None:
    """The line of a function in cuobjdump's table (of the only one, when no name is given)."""
    _, found, rest = text.partition(f"Function {function}:") if function else ("", "", text)
    line = _USAGE.search(rest if found else text)
    if line is None:
        return None
    registers, stack, shared, local = (int(value) for value in line.groups())
    return Usage(registers=registers, stack_bytes=stack, shared_bytes=shared, local_bytes=local)


def amd_resources(text: str) -> Resources | None:
    """Resources from the metadata at the end of AMD assembly."""
    fields = {name: int(value) for name, value in _AMD_FIELD.findall(text)}
    if "vgpr_count" not in fields:
        return None
    spilled = fields.get("vgpr_spill_count", 0)
    return Resources(
        registers=fields["vgpr_count"], spill_store_bytes=spilled * 4, spill_load_bytes=spilled * 4,
        stack_bytes=fields.get("private_segment_fixed_size", 0),
        static_shared_bytes=fields.get("group_segment_fixed_size", 0), barriers=0,
        scalar_spills=fields.get("sgpr_spill_count", 0),
    )  # fmt: skip


def ptx_instructions(text: str) -> Instructions:
    """Instructions of a PTX text."""
    seen = Counter(name for name in _PTX.findall(text) if not name.startswith(_PTX_NOISE))
    matrix: Counter[str] = Counter()
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    for name, count in seen.items():
        if name.startswith(("mma.", "wgmma.mma_async", "tcgen05.mma", "wmma.mma")):
            matrix[_matrix_name(name)] += count
        elif name.startswith("ld.global"):
            loads[_ptx_bits(name)] += count
        elif name.startswith("st.global"):
            stores[_ptx_bits(name)] += count
    for size in re.findall(r"cp\.async\.c[ag]\.shared\.global[^;]*?, (0x)?([0-9a-f]+)(?:, |;| )", text):
        loads[int(size[1], 16 if size[0] else 10) * 8] += 1
    return Instructions(
        matrix=dict(matrix), kinds=_kinds(seen, _KINDS_PTX), loads_bits=dict(sorted(loads.items())),
        stores_bits=dict(sorted(stores.items())),
    )  # fmt: skip


def amd_instructions(text: str) -> Instructions:
    """Instructions of an AMD assembly text."""
    seen = Counter(_AMD.findall(text))
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    for name, count in seen.items():
        access = re.match(r"(?:global|buffer|flat)_(load|store)_(\w+?)(?:_d16)?(?:_hi)?(?:_lds)?$", name)
        if access is not None:
            (loads if access[1] == "load" else stores)[_amd_bits(access[2])] += count
    matrix = {name: count for name, count in seen.items() if name.startswith(("v_mfma", "v_smfmac", "v_wmma"))}
    return Instructions(
        matrix=matrix, kinds=_kinds(seen, _KINDS_AMD), loads_bits=dict(sorted(loads.items())),
        stores_bits=dict(sorted(stores.items())),
    )  # fmt: skip


def dot_precisions(ttir: str) -> dict[str, int]:
    """Effective precision of every `tt.dot` on float32 operands, and how many there are of others."""
    found: Counter[str] = Counter()
    for line in ttir.splitlines():
        if "tt.dot " not in line:
            continue
        operand = re.search(r": *tensor<(?:\d+x)+(\w+)", line)
        element = operand[1] if operand else "?"
        named = _PRECISION.search(line)
        if element == "f32":
            found[f"f32 as {named[1] if named else 'ieee'}"] += 1
        else:
            found[element] += 1
    return dict(found)


def _kinds(seen: Counter[str], kinds: dict[str, tuple[str, ...]]) -> dict[str, int]:
    counts = {kind: sum(n for name, n in seen.items() if name.startswith(starts)) for kind, starts in kinds.items()}
    return {kind: count for kind, count in counts.items() if count}


def _matrix_name(name: str) -> str:
    parts = [part for part in name.split(".") if part not in ("sync", "aligned", "row", "col", "mma_async")]
    return ".".join(parts)


def _ptx_bits(name: str) -> int:
    lanes = re.search(r"\.v(\d)", name)
    width = re.search(r"\.[bfus](\d+)$", name)
    return int(lanes[1] if lanes else 1) * int(width[1] if width else 0)


def _amd_bits(name: str) -> int:
    multiple = re.fullmatch(r"dword(?:x(\d))?", name)
    if multiple is not None:
        return 32 * int(multiple[1] or 1)
    return {"ubyte": 8, "sbyte": 8, "byte": 8, "ushort": 16, "sshort": 16, "short": 16}.get(name, 0)
