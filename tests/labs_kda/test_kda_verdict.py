"""What the lab makes of measured figures: growth with its interval, culprits, verdicts; ranks that take turns."""

from __future__ import annotations

import numpy as np
import pytest
from labs.kda_context_parallel import exact, inputs
from labs.kda_context_parallel.turns import Turns
from labs.kda_context_parallel.verdict import growth, judge_stage

LENGTHS = (2048, 4096, 8192, 16384, 32768)
FLOAT32 = dict.fromkeys(LENGTHS, 1e-6)


def stage(errors: dict[int, float]):
    found = {n: {"shipped": error, "left": 0.0, "against_exact": {}} for n, error in errors.items()}
    return judge_stage("forward", found, FLOAT32)


def test_a_power_law_is_found_again_with_its_exponent_inside_the_interval() -> None:
    random = np.random.default_rng(2)
    found = growth({n: 1e-6 * n**0.8 * np.exp(random.normal(0, 0.1)) for n in LENGTHS})
    assert found.low < 0.8 < found.high
    assert found.high - found.low < 0.6


def test_two_lengths_give_an_exponent_without_an_interval_and_one_gives_none() -> None:
    assert growth({2048: 1e-3, 4096: 2e-3}).high == np.inf
    assert growth({2048: 1e-3}) is None
    assert growth({2048: 0.0, 4096: 1e-3, 8192: 1e-3}) is None


def test_an_error_that_grows_one_that_stays_and_one_of_float32_get_three_verdicts() -> None:
    assert stage({n: 1e-6 * n for n in LENGTHS}).verdict == "grows with context length"
    wavering = (1.0, 1.1, 0.9, 1.05, 1.0)
    assert stage({n: 2e-3 * w for n, w in zip(LENGTHS, wavering, strict=True)}).verdict == (
        "above float32, growth not shown"
    )
    assert stage({n: 3e-6 for n in LENGTHS}).verdict == "clean"


def test_the_chunk_form_gives_the_state_that_the_delta_rule_gives_token_by_token() -> None:
    tokens = inputs.draw(512, 16, seed=4)
    chunked = inputs.chunked(tokens, seed=4)
    doubled = inputs.ChunkInputs(
        **{name: np.concatenate([getattr(chunked, name)] * 2) for name in ("kg", "w", "u", "gk", "q", "do", "dv")}
    )
    entering = exact.forward_states(doubled, 2)[1]
    assert np.allclose(entering, exact.state_after(tokens), rtol=1e-12, atol=1e-13)


def test_every_rank_gathers_what_all_ranks_gave_and_one_runs_at_a_time() -> None:
    turns: Turns[list[int]] = Turns(4)
    running = []

    def work(rank: int) -> list[int]:
        running.append(rank)
        first = turns.gather(turns.rank() * 10)
        second = turns.gather(sum(first) + rank)
        return [*first, *second]

    assert turns.run(work) == [[0, 10, 20, 30, 60, 61, 62, 63]] * 4
    assert running == [0, 1, 2, 3]


def test_a_rank_that_fails_ends_all_of_them_with_its_error() -> None:
    turns: Turns[None] = Turns(3)

    def work(rank: int) -> None:
        if rank == 1:
            raise ValueError("rank 1")
        turns.gather(rank)

    with pytest.raises(ValueError, match="rank 1"):
        turns.run(work)
