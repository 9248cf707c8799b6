"""Upstream's own host code and kernels (`fla`), driven rank by rank on the CPU.

Covered: forward and backward state across ranks, both layouts of the state; the same within one card; the unsplit
kernels.
Only three things are stood in for: the process group (`turns`), and, in versions that ask for one, the check that a GPU
is present.
Not covered: the layer around the state kernels.

Tensors are (1, tokens, 1 head, dim), as upstream wants them. Results are float64 arrays (K, V).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from labs.kda_context_parallel.exact import SCALE
from labs.kda_context_parallel.inputs import CHUNK, ChunkInputs, Float64
from labs.kda_context_parallel.turns import Turns

CP = "fla.ops.cp.chunk_delta_h"
INTRACARD = "fla.ops.common.intracard_cp"
UNSPLIT = "fla.ops.common.chunk_delta_h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """The inputs as upstream gets them, and the same numbers in float64 for the exact recurrence."""

    given: dict[str, torch.Tensor]
    exact: ChunkInputs
    tokens: int

    def of_rank(self, rank: int, ranks: int) -> dict[str, torch.Tensor]:
        """The slice of one rank."""
        part = self.tokens // ranks
        return {name: value[:, rank * part : (rank + 1) * part].contiguous() for name, value in self.given.items()}


def tensors(inputs: ChunkInputs, dtype: str) -> Tensors:
    """Everything in `dtype`, except the decay: upstream keeps that in float32."""
    kinds = {"gk": torch.float32}
    given = {
        field.name: torch.from_numpy(getattr(inputs, field.name)).to(kinds.get(field.name, getattr(torch, dtype)))
        for field in fields(inputs)
    }
    exact = ChunkInputs(**{name: value.double().numpy() for name, value in given.items()})
    shaped = {name: value[None, :, None, :].contiguous() for name, value in given.items()}
    return Tensors(given=shaped, exact=exact, tokens=len(inputs.kg))


def forward(inputs: Tensors, ranks: int, *, v_first: bool = False) -> list[Float64]:
    """The state that enters each rank, as upstream's context-parallel path makes it."""
    module = importlib.import_module(CP)

    def work(rank: int) -> Float64:
        own = inputs.of_rank(rank, ranks)
        state = module.chunk_gated_delta_rule_fwd_h_pre_process(
            k=own["kg"], w=own["w"], u=own["u"], gk=own["gk"], state_v_first=v_first, chunk_size=CHUNK,
            cu_seqlens=_whole(inputs.tokens // ranks), context=_context(rank, ranks),
        )  # fmt: skip
        return _state(state[0, 0], v_first)

    return _with_group(module, ranks, work)


def backward(inputs: Tensors, ranks: int, *, v_first: bool = False) -> list[Float64]:
    """The gradient of the state that leaves each rank."""
    module = importlib.import_module(CP)

    def work(rank: int) -> Float64:
        own = inputs.of_rank(rank, ranks)
        state, _ = module.chunk_gated_delta_rule_bwd_dhu_pre_process(
            q=own["q"], k=own["kg"], w=own["w"], do=own["do"], dv=own["dv"], gk=own["gk"], scale=SCALE,
            state_v_first=v_first, chunk_size=CHUNK, cu_seqlens=_whole(inputs.tokens // ranks),
            context=_context(rank, ranks),
        )  # fmt: skip
        return _state(state[0, 0], v_first)

    return _with_group(module, ranks, work)


def within_card(inputs: Tensors, parts: int, *, v_first: bool = False) -> list[Float64]:
    """The state that enters each part when one card splits a sequence for itself."""
    module = importlib.import_module(INTRACARD)
    given, part = inputs.given, inputs.tokens // parts
    bounds = torch.arange(0, inputs.tokens + 1, part, dtype=torch.int32)
    with _without_device_check():
        # By position: the names of these arguments differ between versions, their order does not.
        scanned = module.intracard_pre_scan(
            given["kg"], given["w"], given["u"], None, given["gk"], bounds, parts, chunk_size=CHUNK
        )
        info = module.SplitSeqInfo(split_seq_ids=[0], start_subseq_idx=[0], num_subseqs=[parts])
        states, _ = module.intracard_merge(
            hm=scanned, split_info=info, num_non_first=parts - 1, merge_seq_offsets=[0, parts],
            merge_init_offsets=[0, parts - 1], device=scanned.device, state_v_first=v_first,
        )  # fmt: skip
    first = torch.zeros_like(states[:1])
    return [_state(state[0], v_first) for state in torch.cat([first, states])]


def unsplit(inputs: Tensors, ranks: int) -> Float64:
    """The state that would enter the last rank, by upstream's kernel for a sequence that is not split."""
    module = importlib.import_module(INTRACARD)
    length = inputs.tokens // ranks * (ranks - 1)
    own = {name: value[:, :length].contiguous() for name, value in inputs.given.items()}
    _, _, state = module._raw_chunk_gated_delta_rule_fwd_h(
        k=own["kg"], w=own["w"], u=own["u"], gk=own["gk"], output_final_state=True, chunk_size=CHUNK
    )
    return _state(state[0, 0], False)


def _whole(tokens: int) -> torch.Tensor:
    return torch.tensor([0, tokens], dtype=torch.int32)


def _state(state: torch.Tensor, v_first: bool) -> Float64:
    found: Float64 = (state.T if v_first else state).double().numpy()
    return found


def _context(rank: int, ranks: int) -> Any:
    """One sequence over all ranks. The group is any object: nothing looks into it."""
    context = importlib.import_module("fla.ops.cp.context").FLACPContext()
    known = {
        "group": object(), "is_first_rank": rank == 0, "is_last_rank": rank == ranks - 1,
        "pre_num_ranks": rank, "post_num_ranks": ranks - 1 - rank, "layout": "contiguous",
    }  # fmt: skip
    for name, value in known.items():
        if name != "layout" or hasattr(context, "layout"):
            setattr(context, name, value)
    return context


def _with_group(module: Any, ranks: int, work: Any) -> list[Float64]:
    turns: Turns[Float64] = Turns(ranks)

    def gather(inp: torch.Tensor, **_: Any) -> tuple[torch.Tensor, None]:
        return torch.stack(turns.gather(inp)), None

    group = SimpleNamespace(get_rank=lambda group=None: turns.rank(), get_world_size=lambda group=None: ranks)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(module, "dist", group))
        stack.enter_context(mock.patch.object(module, "all_gather_into_tensor", gather))
        stack.enter_context(_without_device_check())
        return turns.run(work)


@contextmanager
def _without_device_check() -> Iterator[None]:
    """Newer versions refuse to run without a GPU; the kernels themselves do not care."""
    with ExitStack() as stack:
        for name in (CP, "fla.ops.cp.chunk_merge", "fla.ops.cp.chunk_fwd", "fla.ops.cp.chunk_bwd", INTRACARD):
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            if hasattr(module, "_check_cp_device"):
                stack.enter_context(mock.patch.object(module, "_check_cp_device", return_value=None))
        yield
