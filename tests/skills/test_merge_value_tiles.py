"""The transform proposes only what the facts speak for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SKILL = Path(__file__).parents[2] / "skills" / "merge-value-tiles" / "transform.py"
LAUNCHER = """import triton

def launch(q, v):
    V = v.shape[-1]
    BV = {tile}
    kernel[(triton.cdiv(V, BV),)](
        q, v,
        BV=BV,
        num_warps=4,
    )
"""
LEGAL = [
    {"value_tile": 128, "warps": 1, "spill_bytes": 8184}, {"value_tile": 128, "warps": 4, "spill_bytes": 192},
    {"value_tile": 128, "warps": 8, "spill_bytes": 0}, {"value_tile": 32, "warps": 4, "spill_bytes": 0},
]  # fmt: skip
FACTS = {"kernel": "kernel", "reuse": 4.0, "value_dim": 128, "legal": LEGAL}


def propose(tree: Path, facts: dict[str, Any]) -> list[str]:
    spec = importlib.util.spec_from_file_location("transform", SKILL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.propose(tree, facts))


@pytest.mark.parametrize("tile", ["32", "min(triton.next_power_of_2(V), 32)"])
def test_the_tile_is_widened_and_the_fewest_warps_without_spills_are_taken(tmp_path: Path, tile: str) -> None:
    (tmp_path / "k.py").write_text(LAUNCHER.replace("{tile}", tile).replace("min(triton.", "min("))
    (diff,) = propose(tmp_path, FACTS)
    assert "+    BV = triton.next_power_of_2(V)" in diff
    assert "+        num_warps=8," in diff


@pytest.mark.parametrize(
    "facts",
    [FACTS | {"reuse": 1.0}, FACTS | {"legal": LEGAL[:2]}, FACTS | {"value_dim": 0}, FACTS | {"kernel": "another"}],
    ids=["nothing repeated", "only with spills", "no dimension", "other kernel"],
)
def test_nothing_is_proposed_without_the_facts_for_it(tmp_path: Path, facts: dict[str, Any]) -> None:
    (tmp_path / "k.py").write_text(LAUNCHER.replace("{tile}", "32"))
    assert propose(tmp_path, facts) == []
