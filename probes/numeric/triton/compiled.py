"""What the compiler really made of a kernel's float32 products, for devices that this machine does not have.

Covered: compilation for a target without the device; counts of matrix instructions by the type they read, of `cvt.rna`
conversions to TF32 and of plain multiply-adds, in PTX and in AMD assembly; refusals by the compiler, with their reason.
Not covered: SASS; what a matrix unit does with the bits that it does not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from probes.numeric.triton.devices import Device, standing_in

_PTX = {
    "tf32": re.compile(r"(?:mma|wgmma)\S*\.tf32|kind::tf32"),
    "bf16": re.compile(r"(?:mma|wgmma)\S*\.bf16"),
    "f16": re.compile(r"(?:mma|wgmma)\S*\.f16\.f16|kind::f16"),
    "cvt.rna": re.compile(r"cvt\.rna\.tf32\.f32"),
    "fma": re.compile(r"\bfma\.rn\.f32(?:x2)?\b"),
}
_AMD = {
    "tf32": re.compile(r"v_mfma_f32_\w+_xf32"),
    "bf16": re.compile(r"v_mfma_f32_\w+bf16"),
    "f16": re.compile(r"v_mfma_f32_\w+(?<!b)f16"),
    "f32": re.compile(r"v_mfma_f32_\w+x\d+_?f32"),
    "fma": re.compile(r"\bv_(?:pk_)?(?:fma|fmac|mac)_f32"),
}
_MATRIX_LINE = re.compile(r"^\s*(?:@\S+\s+)?(?:wgmma\.mma_async|mma\.sync|tcgen05\.mma|v_mfma)")
_REASON_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Instruction counts by kind, or the compiler's refusal."""

    device: str
    counts: Mapping[str, int] = field(default_factory=dict)
    refusal: str = ""

    @property
    def reads(self) -> str:
        """What the products are made of: `tf32`, `3 x tf32`, `bf16`, `f32` or `refused`."""
        if self.refusal:
            return "refused"
        if self.counts.get("tf32"):
            return "tf32x3" if self.counts.get("cvt.rna") else "tf32"
        return "bf16" if self.counts.get("bf16") else "f32"


def compile_for(
    kernel: Any, signature: Mapping[str, str], constants: Mapping[str, Any], device: Device, **options: Any
) -> Compiled:
    """Compile a kernel (decorators around it are taken off) and count. `signature`: type of each argument.

    Raises RuntimeError under TRITON_INTERPRET=1: kernels are then plain Python.
    """
    import triton
    from triton.compiler import ASTSource

    if triton.knobs.runtime.interpret:
        raise RuntimeError("compiling needs a process without TRITON_INTERPRET=1")
    source = ASTSource(fn=bare(kernel), signature=dict(signature), constexprs=dict(constants))
    try:
        with standing_in(device):
            done = triton.compile(source, target=device.target(), options=dict(options) or None)
    except Exception as error:
        return Compiled(device=device.name, refusal=_reason(error))
    return Compiled(device=device.name, counts=count(done.asm["ptx" if device.backend == "cuda" else "amdgcn"]))


def bare(kernel: Any) -> Any:
    """The function that Triton compiles, without autotuning and heuristics."""
    from triton.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


def count(assembly: str) -> dict[str, int]:
    """Instructions of each kind; kinds that do not occur are left out."""
    kinds = _AMD if "amdgcn" in assembly[:4000] or "v_mfma" in assembly else _PTX
    found: Counter[str] = Counter()
    for line in assembly.splitlines():
        for kind, pattern in kinds.items():
            plain = kind in ("fma", "cvt.rna")
            if (plain or _MATRIX_LINE.match(line)) and pattern.search(line):
                found[kind] += 1
                break
    return dict(found)


def _reason(error: BaseException) -> str:
    causes: list[str] = []
    current: BaseException | None = error
    while current is not None:
        lines = [line.strip() for line in str(current).splitlines() if line.strip()]
        causes += lines[-1:]
        current = current.__cause__ or current.__context__
    return f"{type(error).__name__}: {causes[-1] if causes else ''}"[:_REASON_LENGTH]
