"""The real engine behind the real walls: what it reports about itself, and a flag that it accepts and ignores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness_help import FakeEngine, parameter

from infra_agent.changes.change import LaunchChange
from infra_agent.harness.engagement import judge_engagement
from infra_agent.harness.launch_errors import LaunchFailed
from infra_agent.harness.ports import free_port
from infra_agent.harness.sandbox import hold_walls
from infra_agent.harness.server import Server, serve
from infra_agent.stack.engines.base import Engagement, LaunchPlan
from infra_agent.stack.model import Stack
from probes.base import Cost, Verdict

pytestmark = pytest.mark.engine
TABLE = (
    parameter("continuous_batching", "--continuous-batching", engagement=Engagement(signal="cb.running")),
    parameter("cb_use_cuda_graph", "--cb-use-cuda-graph", engagement=Engagement(signal="cb.use_cuda_graph")),
    parameter("compile", "--compile", engagement=Engagement(signal="compile.active")),
)


class Transformers(FakeEngine):
    name = "transformers"

    def parameters(self):
        return TABLE


@contextmanager
def transformers(stack: Stack, folder: Path, *flags: str) -> Iterator[Server]:
    assert stack.launch.python is not None
    port = free_port()
    command = (stack.launch.python, "-m", "transformers.cli.transformers", "serve", stack.model)
    argv = (*command, "--host", "127.0.0.1", "--port", str(port), "--cb-num-blocks", "64")
    plan = LaunchPlan(
        argv=(*argv, *flags), env={"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}, host="127.0.0.1", port=port
    )
    with serve(
        plan, Transformers(), stack, walls=hold_walls(no_sandbox=False), scratch=folder / "scratch",
        log_path=folder / "engine.log", with_reporter=True,
    ) as server:  # fmt: skip
        yield server


def engagement(stock: dict[str, float | str | bool], candidate: dict[str, float | str | bool], name: str):
    change = LaunchChange(parameter=name, value=True)
    return judge_engagement([change], TABLE, stock, stock, candidate, Cost(wall_s=0))


def test_stock_and_batched_engines_report_what_is_in_effect(demo_stack: Stack, tmp_path: Path) -> None:
    with transformers(demo_stack, tmp_path / "stock") as server:
        stock = server.snapshot()
        assert server.health_s < server.ready_s
        assert server.answered_model.startswith(demo_stack.model)
        assert (server.memory_bytes() or 0) > 300_000_000
    expected = {
        "model.dtype": "bfloat16", "model.attn_implementation": "sdpa", "model.quantization": "none",
        "model.device": "cpu", "cb.running": False, "compile.active": False,
        "generation.cache_implementation": "dynamic", "torch.num_threads": 1,
    }  # fmt: skip
    assert {name: stock.get(name) for name in expected} == expected
    assert not [name for name in stock if name.startswith("cb.") and name != "cb.running"]

    flags = ("--continuous-batching", "--cb-use-cuda-graph", "--compile", "--attn-implementation", "eager")
    small = ("--cb-max-batch-tokens", "64", "--cb-max-memory-percent", "0.5", "--dtype", "float32")
    with transformers(demo_stack, tmp_path / "batched", *flags, *small) as server:
        batched = server.snapshot()
    expected = {
        "cb.running": True, "cb.num_blocks": 64, "cb.page_size": 256, "cb.max_batch_tokens": 64,
        "cb.use_cuda_graph": False, "compile.active": False, "model.attn_implementation": "eager",
        "model.dtype": "float32", "generation.cache_implementation": "paged",
    }  # fmt: skip
    assert {name: batched.get(name) for name in expected} == expected
    # With a fixed number of blocks the share of memory sizes nothing, so it is not reported as if it did.
    assert "cb.max_memory_percent" not in batched

    assert engagement(stock, batched, "continuous_batching").verdict is Verdict.PASS
    ignored = engagement(stock, batched, "cb_use_cuda_graph")
    assert ignored.verdict is Verdict.FAIL
    assert ignored.summary.startswith("not engaged: --cb-use-cuda-graph was accepted, but")
    assert engagement(stock, batched, "compile").verdict is Verdict.FAIL


def test_the_real_engine_s_refusal_of_a_flag_names_the_nearest(demo_stack: Stack, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed) as caught, transformers(demo_stack, tmp_path, "--continous-batching"):
        pytest.fail("the flag is misspelt")
    assert caught.value.outcome == "died"
    assert caught.value.hint == "did you mean --continuous-batching?"
