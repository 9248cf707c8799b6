"""How many blocks of a kernel one multiprocessor holds, what limits them, and whether a launch is legal at all.

NVIDIA: the rule of CUDA's occupancy calculator (registers are given to warps in units of 256 within a quarter of the
multiprocessor, so the register limit is a multiple of four warps). AMD: waves per SIMD by vector registers, blocks by
local memory and barriers. Covered: static limits. Not covered: the driver's carve-out of shared memory, clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probes.static.triton_compile.architectures import Amd, Nvidia, limits_of

GRID_X = 2**31 - 1
GRID_YZ = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Resident blocks and warps (AMD: waves) of one multiprocessor (compute unit); `limited_by` names the limit."""

    blocks: int
    warps: int
    most_warps: int
    limited_by: str

    @property
    def share(self) -> float:
        """Warps that can be resident, of those that fit at best."""
        return self.warps / self.most_warps


def occupancy(architecture: str, *, registers: int, shared_bytes: int, warps: int) -> Occupancy | None:
    """Occupancy of a kernel with these needs per thread and block; None for an architecture not in the table."""
    limits = limits_of(architecture)
    if isinstance(limits, Nvidia):
        return _nvidia(limits, registers, shared_bytes, warps)
    return _amd(limits, registers, shared_bytes, warps) if isinstance(limits, Amd) else None


def illegal(
    architecture: str,
    *,
    registers: int,
    shared_bytes: int,
    warps: int,
    grid: Sequence[int] | None = None,
    ctas: int = 1,
    tensor_memory_columns: int = 0,
) -> list[str]:
    """Why a launch would be refused by the driver; empty when nothing speaks against it."""
    limits = limits_of(architecture)
    if limits is None:
        return []
    lane = 32 if isinstance(limits, Nvidia) else 64
    found = []
    if warps * lane > limits.threads_per_block:
        found.append(f"{warps * lane} threads in a block, at most {limits.threads_per_block}")
    most_shared = limits.shared_per_block_bytes if isinstance(limits, Nvidia) else limits.shared_bytes
    if shared_bytes > most_shared:
        found.append(f"{shared_bytes} bytes of shared memory in a block, at most {most_shared}")
    if isinstance(limits, Nvidia):
        needed = _round_up(registers * 32, limits.register_unit) * warps
        if needed > limits.registers:
            found.append(f"{needed} registers in a block, at most {limits.registers}")
        if ctas > limits.clusters:
            found.append(f"a cluster of {ctas} blocks, at most {limits.clusters}")
        if tensor_memory_columns > limits.tensor_memory_columns:
            found.append(f"{tensor_memory_columns} columns of tensor memory, there are {limits.tensor_memory_columns}")
    for axis, extent in enumerate(grid or ()):
        most = GRID_X if axis == 0 else GRID_YZ
        if extent > most:
            found.append(f"grid axis {'xyz'[axis]} of {extent}, at most {most}")
    return found


def _nvidia(limits: Nvidia, registers: int, shared_bytes: int, warps: int) -> Occupancy:
    by_warps = limits.warps // warps
    per_warp = _round_up(max(registers, 1) * 32, limits.register_unit)
    per_partition = (limits.registers // limits.partitions) // per_warp
    by_registers = per_partition * limits.partitions // warps
    block_bytes = _round_up(shared_bytes, limits.shared_unit_bytes) + limits.reserved_per_block_bytes
    by_shared = limits.shared_bytes // block_bytes if block_bytes else limits.blocks
    return _least(
        {"blocks": limits.blocks, "warps": by_warps, "registers": by_registers, "shared memory": by_shared},
        warps, limits.warps,
    )  # fmt: skip


def _amd(limits: Amd, registers: int, shared_bytes: int, warps: int) -> Occupancy:
    waves = limits.vector_registers // _round_up(max(registers, 1), limits.vector_register_unit)
    most = limits.waves_per_simd * limits.simds
    by_registers = min(waves, limits.waves_per_simd) * limits.simds // warps
    by_barriers = most if warps == 1 else limits.barriers
    by_shared = limits.shared_bytes // shared_bytes if shared_bytes else most
    return _least(
        {"waves": most // warps, "barriers": by_barriers, "registers": by_registers, "shared memory": by_shared},
        warps, most,
    )  # fmt: skip


def _least(by: dict[str, int], warps: int, most_warps: int) -> Occupancy:
    limited_by = min(by, key=lambda name: by[name])
    return Occupancy(blocks=by[limited_by], warps=by[limited_by] * warps, most_warps=most_warps, limited_by=limited_by)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
