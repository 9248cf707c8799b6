"""What each architecture gives a kernel: registers, warps, blocks and shared memory of one multiprocessor.

Sources: CUDA C++ Programming Guide, table "technical specifications per compute capability"; AMD CDNA2 and CDNA3 ISA
guides and LLVM's AMDGPU subtarget rules. Covered: the NVIDIA and AMD generations below; an unknown one has no
occupancy, and says so. Not covered: clock rates and bandwidth (`probes.capacity.roofline.hardware`).
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvidia:
    """Limits of one streaming multiprocessor. Four sub-partitions hold a quarter of registers and warps each."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_per_block_bytes: int
    reserved_per_block_bytes: int = KIB
    registers: int = 64 * KIB
    registers_per_thread: int = 255
    register_unit: int = 256
    shared_unit_bytes: int = 128
    partitions: int = 4
    threads_per_block: int = 1024
    clusters: int = 8
    tensor_memory_columns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Amd:
    """Limits of one compute unit: four SIMDs, vector registers shared by its waves, local data share."""

    waves_per_simd: int
    vector_registers: int
    vector_register_unit: int
    shared_bytes: int
    simds: int = 4
    barriers: int = 16
    threads_per_block: int = 1024


NVIDIA: dict[int, Nvidia] = {
    70: Nvidia(warps=64, blocks=32, shared_bytes=96 * KIB, shared_per_block_bytes=96 * KIB,
               reserved_per_block_bytes=0, shared_unit_bytes=256),
    75: Nvidia(warps=32, blocks=16, shared_bytes=64 * KIB, shared_per_block_bytes=64 * KIB,
               reserved_per_block_bytes=0, shared_unit_bytes=256),
    80: Nvidia(warps=64, blocks=32, shared_bytes=164 * KIB, shared_per_block_bytes=163 * KIB),
    86: Nvidia(warps=48, blocks=16, shared_bytes=100 * KIB, shared_per_block_bytes=99 * KIB),
    89: Nvidia(warps=48, blocks=24, shared_bytes=100 * KIB, shared_per_block_bytes=99 * KIB),
    90: Nvidia(warps=64, blocks=32, shared_bytes=228 * KIB, shared_per_block_bytes=227 * KIB, clusters=16),
    100: Nvidia(warps=64, blocks=32, shared_bytes=228 * KIB, shared_per_block_bytes=227 * KIB, clusters=16,
                tensor_memory_columns=512),
    103: Nvidia(warps=64, blocks=32, shared_bytes=228 * KIB, shared_per_block_bytes=227 * KIB, clusters=16,
                tensor_memory_columns=512),
    120: Nvidia(warps=48, blocks=24, shared_bytes=100 * KIB, shared_per_block_bytes=99 * KIB),
}  # fmt: skip

AMD: dict[str, Amd] = {
    "gfx90a": Amd(waves_per_simd=8, vector_registers=512, vector_register_unit=8, shared_bytes=64 * KIB),
    "gfx942": Amd(waves_per_simd=8, vector_registers=512, vector_register_unit=8, shared_bytes=64 * KIB),
    "gfx950": Amd(waves_per_simd=8, vector_registers=512, vector_register_unit=8, shared_bytes=160 * KIB),
}

DEFAULT_ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "gfx942", "gfx90a")


def limits_of(architecture: str) -> Nvidia | Amd | None:
    """The limits of `sm_NN` or `gfxNNN`, or None when they are not in the table."""
    if architecture.startswith("sm_"):
        digits = architecture[3:].rstrip("af")
        return NVIDIA.get(int(digits)) if digits.isdigit() else None
    return AMD.get(architecture)
