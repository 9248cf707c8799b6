"""The parts of context parallelism that carry a state, each with its exact answer.

Covered: forward over ranks, backward over ranks, forward within one card; the state stored key-first and value-first.
Not covered: outputs and weight gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labs.kda_context_parallel import exact, upstream
from labs.kda_context_parallel.inputs import Float64


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`compute` gives upstream's merged state where most ranks went into it; `answer` is the exact one."""

    name: str
    compute: Callable[[upstream.Tensors, int], Float64]
    answer: Callable[[upstream.Tensors, int], Float64]


def _last_forward(inputs: upstream.Tensors, ranks: int) -> Float64:
    return exact.forward_states(inputs.exact, ranks)[-1]


def _first_backward(inputs: upstream.Tensors, ranks: int) -> Float64:
    return exact.backward_states(inputs.exact, ranks)[0]


STAGES = {
    stage.name: stage
    for stage in (
        Stage(name="forward", compute=lambda given, ranks: upstream.forward(given, ranks)[-1], answer=_last_forward),
        Stage(
            name="forward, value-first",
            compute=lambda given, ranks: upstream.forward(given, ranks, v_first=True)[-1],
            answer=_last_forward,
        ),
        Stage(name="backward", compute=lambda given, ranks: upstream.backward(given, ranks)[0], answer=_first_backward),
        Stage(
            name="one card", compute=lambda given, ranks: upstream.within_card(given, ranks)[-1], answer=_last_forward
        ),
        Stage(
            name="one card, value-first",
            compute=lambda given, ranks: upstream.within_card(given, ranks, v_first=True)[-1],
            answer=_last_forward,
        ),
    )
}
"""Value-first comes after its key-first twin: the launches that they share are then remembered."""
