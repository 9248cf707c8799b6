"""The options of the kernel probes: `probe run static`, `redundancy`, `roofline`."""

from __future__ import annotations

from typing import Annotated

import typer

_KERNELS = "Kernels (static, redundancy)"
_ROOFLINE = "Roofline"

Kernel = Annotated[
    str,
    typer.Option(help="MODULE:NAME, FILE.py:NAME, MODULE for all its kernels, or FILE.cu.", rich_help_panel=_KERNELS),
]
Call = Annotated[
    str,
    typer.Option(help="MODULE:FUNCTION without arguments; its launches are traced.", rich_help_panel=_KERNELS),
]
Arch = Annotated[
    list[str] | None,
    typer.Option(help="sm_80, sm_90, sm_100, gfx942, ... (repeatable; default: five).", rich_help_panel=_KERNELS),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="NAME=VALUE: a compile-time constant, or a pointer's type.", rich_help_panel=_KERNELS),
]
Warps = Annotated[
    list[int] | None, typer.Option(help="Compile with so many warps (repeatable).", rich_help_panel=_KERNELS)
]
ImportPath = Annotated[
    list[str] | None, typer.Option("--path", help="A folder to import from.", rich_help_panel=_KERNELS)
]
Python = Annotated[
    str,
    typer.Option(
        help="The stack's interpreter, with triton in it. Default: one that is prepared once.", rich_help_panel=_KERNELS
    ),
]
HardwareName = Annotated[
    str,
    typer.Option(
        "--hardware", help="A100, H100, H200, B200, RTX4090, MI300X, Ascend910B, Ascend910C, or cpu (measured).",
        rich_help_panel=_ROOFLINE,
    ),
]  # fmt: skip
Devices = Annotated[int, typer.Option(min=1, help="Devices that share the work evenly.", rich_help_panel=_ROOFLINE)]
Phase = Annotated[str, typer.Option(help="decode or prefill.", rich_help_panel=_ROOFLINE)]
Batch = Annotated[int, typer.Option(min=1, help="Sequences in the step.", rich_help_panel=_ROOFLINE)]
ContextTokens = Annotated[int, typer.Option("--context", min=0, help="Tokens in the cache.", rich_help_panel=_ROOFLINE)]
NewTokens = Annotated[int, typer.Option(min=1, help="Tokens of a prefill.", rich_help_panel=_ROOFLINE)]
Weights = Annotated[str, typer.Option(help="bf16, fp8, int8, int4, fp4, fp32.", rich_help_panel=_ROOFLINE)]
Drafts = Annotated[int, typer.Option(min=0, help="Tokens predicted ahead in a step.", rich_help_panel=_ROOFLINE)]
Dense = Annotated[bool, typer.Option(help="As if attention were dense.", rich_help_panel=_ROOFLINE)]
Measured = Annotated[
    float | None, typer.Option(min=0.0, help="A measured time of the step in seconds.", rich_help_panel=_ROOFLINE)
]
Share = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Only Amdahl's bound: a part's share of the step.", rich_help_panel=_ROOFLINE),
]
Factor = Annotated[
    float | None, typer.Option(min=1.0, help="With --share: how much faster the part gets.", rich_help_panel=_ROOFLINE)
]
NoiseFloor = Annotated[
    float,
    typer.Option("--noise", min=0.0, help="With --share: smallest gain that can be proved.", rich_help_panel=_ROOFLINE),
]
