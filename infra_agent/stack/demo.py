"""The embedded demo stack: `transformers serve` on the CPU with SmolLM2-135M-Instruct.

Covered: the stack's definition with its reasons, and its preparation in the user cache.
Not covered: starting it (harness.server).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from infra_agent.stack.cache import cache_dir
from infra_agent.stack.model import LaunchSpec, Reference, Stack, StackLimits, Workload
from infra_agent.stack.recipe import demo_recipe
from infra_agent.stack.setup import PreparedPaths, paths_of, prepare

KV_PAGES = 64
"""Stock's `cb_num_blocks`: 64 pages of 256 tokens, room for 16 384 tokens. Inert until batching is on.

Unset, the engine reserves 90 % of free memory for the cache when the first request arrives and fills it with zeros:
27 s on a machine with 23 GB, against 0.7 s with 64 pages. Every launch of a batching candidate would pay that.
"""


def demo_paths(cache: Path | None = None) -> PreparedPaths:
    """Where the demo's parts are, or will be. Nothing is created."""
    return paths_of(demo_recipe(), cache if cache is not None else cache_dir())


def prepare_demo(narrate: Callable[[str], None], cache: Path | None = None, offline: bool = False) -> Stack:
    """The demo stack, ready to be launched. Builds what is missing and says first what it fetches.

    `offline`: nothing is fetched. Raises StackSetupError with cause and next step.
    """
    directory = cache if cache is not None else cache_dir()
    return demo_stack(prepare(demo_recipe(), directory, narrate, offline=offline))


def demo_stack(paths: PreparedPaths) -> Stack:
    """The demo's definition. The space holds what could plausibly help somewhere, and what people would try.

    Left out: float16 (between bfloat16 and float32 in speed here, and narrower in range), flex_attention (refused when
    batching), graphs (no backend on a CPU), quantisation (needs bitsandbytes), the page size and memory share.
    """
    return Stack(
        name="demo",
        engine="transformers",
        model=str(paths.model),
        launch=LaunchSpec(python=str(paths.python), parameters={"cb_num_blocks": KV_PAGES}),
        space={
            "continuous_batching": (True,),
            "dtype": ("float32",),
            "omp_num_threads": (1, 4),
            "attn_implementation": ("eager", "sdpa"),
            "compile": (True,),
            "cb_max_batch_tokens": (64, 512),
        },
        workload=Workload(prompts="builtin:short-chat", requests=12, warmup_requests=2, max_tokens=32, concurrency=4),
        reference=Reference(oracle="transformers-float32"),
        limits=StackLimits(start_timeout_s=120, budget_s=1200),
    )
