"""Which `input_precision` is legal on which device, and what it becomes there: found by compiling one small product.

Covered: every precision and the default, on every device of `devices`, with the installed Triton.
Not covered: precisions that are legal for some block shapes only.

Alone: `python -m probes.numeric.triton legality` (in an environment with Triton; no GPU is needed).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from probes.numeric.triton.compiled import Compiled, compile_for
from probes.numeric.triton.devices import DEVICES, Device

ASKED = (None, "ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
"""None: the kernel says nothing."""
_SIDE = 32


def legality(devices: Iterable[Device] = tuple(DEVICES.values())) -> dict[str, dict[str, Compiled]]:
    """Device → precision asked (`default` for none) → what was compiled."""
    kernel = _kernel()
    pointers = dict.fromkeys(("left", "right", "out"), "*fp32")
    signature = {**pointers, "SIDE": "constexpr", "PRECISION": "constexpr"}
    return {
        device.name: {
            asked or "default": compile_for(kernel, signature, {"SIDE": _SIDE, "PRECISION": asked}, device)
            for asked in ASKED
        }
        for device in devices
    }


def _kernel() -> Any:
    from probes.numeric.triton.product_kernel import product_kernel

    return product_kernel


def table(found: dict[str, dict[str, Compiled]]) -> str:
    """One line per device; in brackets the counted instructions."""
    names = [asked or "default" for asked in ASKED]
    rows = [["device", *names]]
    rows += [[device, *(_cell(row[name]) for name in names)] for device, row in found.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cell(compiled: Compiled) -> str:
    counts = ", ".join(f"{number} {kind}" for kind, number in compiled.counts.items() if kind != "fma")
    return f"{compiled.reads} ({counts})" if counts else compiled.reads
