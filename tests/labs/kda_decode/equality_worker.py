"""Worker (through `probes.kernels.run_file`): do two versions of the decode kernel give the same bits? Interpreted.

Elements that a version reads or writes outside its operands are not carried out (a read gives 0) and are counted: what
lies there is not part of either version's meaning.
Request: changed (path of the changed module), seeds. Answer: cases[{case, equal, values, differing, outside}].
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from probes.kernels import bf16
from probes.kernels.launches import interpreter
from probes.micro.redundancy.worker import MOST_PROGRAMS, Watch

UPSTREAM = "fla.ops.kda.fused_recurrent"
FUNCTION = "fused_recurrent_kda_fwd"


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Compare over all cases and seeds."""
    import torch

    bf16.install(interpreter())
    watch = Watch(interpreter(), "", MOST_PROGRAMS)
    watch.install()
    upstream = importlib.import_module(UPSTREAM)
    spec = importlib.util.spec_from_file_location("changed_kernel", request["changed"])
    assert spec is not None
    assert spec.loader is not None
    changed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(changed)
    rows = []
    for seed in range(int(request.get("seeds", 2))):
        for name, arguments in cases(torch, seed):
            watch.launches.clear()
            before = run(getattr(upstream, FUNCTION), arguments)
            after = run(getattr(changed, FUNCTION), arguments)
            differing = sum(count_differing(torch, a, b) for a, b in zip(before, after, strict=True))
            size = sum(one.numel() for one in before)
            outside = [one for launch in watch.launches for one in launch["outside"]]
            rows.append({
                "case": name, "seed": seed, "equal": differing == 0, "values": size, "differing": differing,
                "outside": outside,
            })  # fmt: skip
    return {"cases": rows}


def run(function: Any, arguments: dict[str, Any]) -> list[Any]:
    """Outputs and final state; inputs are copied, since a state may be updated in place."""
    copied = {name: value.clone() if hasattr(value, "clone") else value for name, value in arguments.items()}
    output, state = function(**copied)
    return [output, state]


def count_differing(torch: Any, a: Any, b: Any) -> int:
    """Values whose bits differ; NaN is equal to the same NaN, 0 is not equal to -0."""
    width = {2: torch.int16, 4: torch.int32}[a.element_size()]
    return int((a.view(width) != b.view(width)).sum())


def cases(torch: Any, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Random inputs, other shapes and types, and inputs made to break an equality that is not exact."""
    base = {"K": 128, "V": 128, "H": 1, "HV": 1, "N": 1, "T": 1}
    yield "random, one head", inputs(torch, seed, **base)
    yield "random, bfloat16", inputs(torch, seed, **base, dtype=torch.bfloat16)
    yield "grouped heads, two sequences", inputs(torch, seed, **{**base, "H": 1, "HV": 2, "N": 2})
    yield "three tokens", inputs(torch, seed, **{**base, "T": 3})
    yield "keys 96, values 80: masked ends", inputs(torch, seed, **{**base, "K": 96, "V": 80})
    yield "keys first", inputs(torch, seed, **base) | {"state_v_first": False}
    yield "gate by softplus, no bound", inputs(torch, seed, **base) | {"lower_bound": None}
    for name, scale in (("huge values", 1e18), ("tiny values", 1e-30), ("zeros", 0.0)):
        made = inputs(torch, seed, **base)
        for operand in ("q", "k", "v"):
            made[operand] = made[operand] * scale
        yield name, made
    made = inputs(torch, seed, **base)
    made["initial_state"][0, 0, ::3] = -0.0
    made["q"][0, 0, 0, ::2] = -0.0
    yield "negative zeros", made
    made = inputs(torch, seed, **base)
    made["initial_state"][0, 0, 5, 7] = float("inf")
    made["v"][0, 0, 0, 3] = float("nan")
    yield "infinity in the state, NaN in a value", made
    made = inputs(torch, seed, **base)
    made["k"] = torch.where(torch.arange(128) % 2 == 0, 1e8, -1e8).expand_as(made["k"]).contiguous() + made["k"]
    yield "keys that cancel", made


def inputs(
    torch: Any, seed: int, *, K: int, V: int, H: int, HV: int, N: int, T: int, dtype: Any = None
) -> dict[str, Any]:
    """Arguments of the launcher for one case."""
    torch.manual_seed(1000 + seed)
    kind = dtype or torch.float32
    made = {
        "q": torch.randn(N, T, H, K), "k": torch.randn(N, T, H, K), "v": torch.randn(N, T, HV, V),
        "g": torch.randn(N, T, HV, K), "beta": torch.randn(N, T, HV),
    }  # fmt: skip
    return {name: value.to(kind) for name, value in made.items()} | {
        "A_log": torch.randn(HV), "dt_bias": torch.randn(HV * K), "initial_state": torch.randn(N, HV, V, K),
        "output_final_state": True, "inplace_final_state": False,
        "use_qk_l2norm_in_kernel": True, "use_gate_in_kernel": True, "use_beta_sigmoid_in_kernel": True,
        "lower_bound": -5.0, "state_v_first": True,
    }  # fmt: skip
