"""Worker: what the compiler makes of the state-merging kernel on devices that are not here. A JSON result on stdout.

Run as `python -m labs.kda_context_parallel.compile_check`, without TRITON_INTERPRET, the version first on the path.

Covered: fla-core 0.5.x's kernel that pushes the state through every rank, and the chain of transition matrices, for
sm_75, sm_80, sm_90, gfx90a and gfx942.
Not covered: later versions, whose kernels have other arguments.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import asdict
from typing import Any

from probes.numeric.triton.compiled import compile_for
from probes.numeric.triton.devices import DEVICES

NAMES = ("sm_75", "sm_80", "sm_90", "gfx90a", "gfx942")
SHAPE = {"HV": 1, "K": 64, "V": 64}


def kernels() -> dict[str, tuple[Any, dict[str, str], dict[str, Any]]]:
    """Name → kernel, types of its arguments, values of its constants."""
    from fla.ops.cp import chunk_delta_h as module

    absent = dict.fromkeys(("seq_offsets", "init_offsets", "h0_seq_ids", "h0"))
    merge = {
        **SHAPE, **absent, "BV": 32, "BK": 64, "FORWARD": True, "INTRACARD_MODE": False, "HAS_H0": False,
        "STATE_V_FIRST": False,
    }  # fmt: skip
    chain = {
        **SHAPE, "g": None, "bg": None, "H": 1, "BT": 64, "BLOCK_SIZE": 32, "BK1": 64, "USE_G": False, "USE_GK": True,
        "USE_BG": False, "IS_VARLEN": True, "MULTI_SEQS": False,
    }  # fmt: skip
    merge_types = {
        "h": "*fp32",
        "ag_hm": "*fp32",
        "pre_or_post_num_ranks": "i32",
        "rank": "i32",
        "NUM_SEQ_ENTRIES": "i32",
    }
    chain_types = {**dict.fromkeys("kvwu", "*bf16"), "gk": "*fp32", "hm": "*fp32", "cu_seqlens": "*i32", "T": "i32"}
    return {
        "merge_fwd_bwd_kernel": (module.merge_fwd_bwd_kernel, merge_types, merge),
        "pre_process_fwd_kernel_merged": (module.pre_process_fwd_kernel_merged, chain_types, chain),
    }


def main() -> int:
    """Compile both for every device."""
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, Any]] = {}
    for name, (kernel, types, constants) in kernels().items():
        signature = {**types, **dict.fromkeys(constants, "constexpr")}
        done = {device: compile_for(kernel, signature, constants, DEVICES[device]) for device in NAMES}
        found[name] = {device: {**asdict(one), "reads": one.reads} for device, one in done.items()}
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
