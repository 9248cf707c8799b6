"""Block plans: balance, growth without change, and seeds that never meet."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

import numpy as np
import pytest

from infra_agent.judge.plan import LOOKS, MAX_INDEX, Stage, next_block, plan_blocks
from infra_agent.judge.types import Arm

STAGES: tuple[Stage, ...] = get_args(Stage)


def test_every_pair_of_blocks_has_both_orders():
    for seed in range(50):
        blocks = plan_blocks(seed, 16)
        for first, second in zip(blocks[::2], blocks[1::2], strict=True):
            assert first.order == tuple(reversed(second.order))
            assert set(first.order) == {Arm.BASE, Arm.CANDIDATE}


def test_the_order_is_random_over_seeds_and_over_pairs():
    firsts = [plan_blocks(seed, 1)[0].order[0] for seed in range(200)]
    assert 60 < firsts.count(Arm.BASE) < 140
    pairs = [block.order[0] for block in plan_blocks(7, 200)[::2]]
    assert 25 < pairs.count(Arm.BASE) < 75


def test_a_longer_plan_begins_with_the_shorter_one():
    for seed in (0, 1, 2**40):
        longest = plan_blocks(seed, 16)
        for look in LOOKS:
            assert plan_blocks(seed, look) == longest[:look]


def test_a_plan_can_go_on_where_another_ended():
    assert plan_blocks(3, 6) + plan_blocks(3, 10, start=6) == plan_blocks(3, 16)
    assert [block.index for block in plan_blocks(3, 2, start=5)] == [5, 6]


def test_the_same_run_seed_gives_the_same_plan_and_another_one_does_not():
    assert plan_blocks(11, 16) == plan_blocks(11, 16)
    assert [b.seed for b in plan_blocks(11, 16)] != [b.seed for b in plan_blocks(12, 16)]


def test_no_two_stages_of_a_run_share_a_measurement_seed():
    for run_seed in range(100):
        seeds = {stage: {block.seed for block in plan_blocks(run_seed, 32, stage=stage)} for stage in STAGES}
        for one, other in combinations(STAGES, 2):
            assert not seeds[one] & seeds[other], (run_seed, one, other)


def test_no_final_seed_of_any_run_is_a_search_seed_of_any_run():
    def pool(stage: Stage) -> set[int]:
        return {block.seed for run_seed in range(300) for block in plan_blocks(run_seed, 16, stage=stage)}

    final = pool("final")
    for stage in STAGES:
        assert stage == "final" or not final & pool(stage)


def test_no_seed_repeats_within_a_stage_and_all_fit_31_bits():
    for run_seed in range(20):
        seeds = [block.seed for block in plan_blocks(run_seed, MAX_INDEX + 1)]
        assert len(set(seeds)) == len(seeds)
        assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize(
    ("seed", "count", "start", "stage"),
    [(-1, 3, 0, "prove"), (1, -1, 0, "prove"), (1, 3, -1, "prove"), (1, 3, 254, "prove"), (1, 3, 0, "search")],
)
def test_a_plan_that_cannot_be_is_refused(seed, count, start, stage):
    with pytest.raises(ValueError):
        plan_blocks(seed, count, start, stage)


def test_no_blocks_is_an_empty_plan():
    assert plan_blocks(1, 0) == ()


def test_a_block_that_replaces_another_keeps_its_order_and_has_a_seed_of_its_own():
    for seed in range(20):
        planned = plan_blocks(seed, 8)
        first, again = next_block(seed, 3, 3), next_block(seed, 3, 4)
        assert first == planned[3]
        assert again.order == planned[3].order
        assert again.index == 4
        assert again.seed == planned[4].seed != planned[3].seed


def test_valid_blocks_have_both_orders_in_each_pair_whatever_was_voided():
    rng = np.random.default_rng(5)
    for seed in range(20):
        valid: list[tuple[Arm, Arm]] = []
        used = 0
        while len(valid) < 16:
            block = next_block(seed, len(valid), used)
            used += 1
            if rng.random() < 0.7:
                valid.append(block.order)
        assert all(one == tuple(reversed(other)) for one, other in zip(valid[::2], valid[1::2], strict=True))


def test_more_valid_blocks_than_seeds_used_cannot_be():
    with pytest.raises(ValueError, match="cannot have used"):
        next_block(1, 4, 3)
