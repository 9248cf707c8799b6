"""Hugging Face `transformers serve`, as of 5.19: how it is launched, what can be set, and how to see that it took.

Covered: one text model pinned on the command line, on any device that the stack's torch can use.
Not covered: serving without a pinned model (it then loads and unloads on demand, which no measurement survives).

The engine has no metrics endpoint and answers `/v1/models` with an error offline, so effective state comes from the
in-process reporter. It answers under the name `MODEL@main` when asked for MODEL.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra_agent.errors import ConfigError
from infra_agent.stack.engines import table as t
from infra_agent.stack.engines.base import Engagement, LaunchPlan, LogPattern, Parameter, RiskClass
from infra_agent.stack.engines.transformers_log import LOG_PATTERNS
from infra_agent.stack.model import ParameterValue, Stack

_HOST = "127.0.0.1"
_OWNED = ("--host", "--port")
_VERSION_CODE = "import importlib.metadata as m; print('transformers', m.version('transformers'))"
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # The command line looks for its own newer release once a day: a launch that differs from its twin by a download.
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "PYTHONUNBUFFERED": "1",
}

EXCLUDED: Mapping[str, str] = {
    "force_model": "the stack's model: always pinned, so that no request can load another one",
    "host": "owned by the harness: it listens on the loopback interface only",
    "port": "owned by the harness: every launch gets a free port",
    "chat_template_kwargs": "changes the prompt itself, hence the work that is measured; goes into launch.extra_args",
    "non_blocking": "hidden option of the engine's own tests",
}
"""Options of the engine that are not in the table, each with its reason."""

_MINOR, _NUMERICS = RiskClass.NUMERICS_MINOR, RiskClass.NUMERICS
_MEMORY, _TRADE, _PRODUCTION = RiskClass.MEMORY, RiskClass.TRADE, RiskClass.PRODUCTION

_SPEED = (
    Parameter(
        name="continuous_batching",
        title="continuous batching",
        flag="--continuous-batching",
        type="bool",
        default=False,
        risk=_MINOR,
        family="batching",
        evidence="Requests are served one after another: with several in flight, only one produces tokens at a time.",
        engagement=Engagement(signal="cb.running"),
    ),
    Parameter(
        name="attn_implementation",
        title="attention implementation",
        flag="--attn-implementation",
        type="str",
        default=None,
        risk=_MINOR,
        family="attention",
        evidence="Attention takes a large share of a step; batching accepts eager, sdpa and flash only.",
        choices=("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"),
        engagement=Engagement(signal="model.attn_implementation"),
    ),
    Parameter(
        name="compile",
        title="torch.compile",
        flag="--compile",
        type="bool",
        default=False,
        risk=_MINOR,
        family="compile",
        evidence="Launch gaps between kernels; the flag acts on sequential generation on an accelerator only.",
        engagement=Engagement(signal="compile.active"),
    ),
    Parameter(
        name="cb_use_cuda_graph",
        title="accelerator graphs when batching",
        flag="--cb-use-cuda-graph",
        type="bool",
        default=None,
        risk=_MINOR,
        family="graphs",
        evidence="Launch gaps in batched decode on an accelerator; without a graph backend the engine turns it off.",
        engagement=Engagement(signal="cb.use_cuda_graph"),
    ),
    Parameter(
        name="omp_num_threads",
        title="matmul threads",
        flag="env:OMP_NUM_THREADS",
        type="int",
        default=None,
        # Threads split a sum differently for some shapes, so bits may move even though most products stay identical.
        risk=_MINOR,
        family="threads",
        evidence="CPU use is below the cores available, or cores are oversubscribed; torch caps it at the core count.",
        low=1,
        high=1024,
        engagement=Engagement(signal="torch.num_threads"),
    ),
)

_NUMBERS = (
    Parameter(
        name="dtype",
        title="data type",
        flag="--dtype",
        type="str",
        default="auto",
        risk=_NUMERICS,
        family="dtype",
        evidence="Decode is bound by reading weights, or the processor has no fast path for the present type.",
        choices=("auto", "bfloat16", "float16", "float32"),
        engagement=Engagement(signal="model.dtype"),
    ),
    Parameter(
        name="quantization",
        title="weight quantisation",
        flag="--quantization",
        type="str",
        default=None,
        risk=_NUMERICS,
        family="quantization",
        evidence="Weights do not fit, or decode is bound by reading them; needs bitsandbytes in the stack.",
        choices=("bnb-4bit", "bnb-8bit"),
        # The engine names the method, not the width.
        engagement=Engagement(
            signal="model.quantization", expect={"bnb-4bit": "bitsandbytes", "bnb-8bit": "bitsandbytes"}
        ),
    ),
    Parameter(
        name="device",
        title="device",
        flag="--device",
        type="str",
        default="auto",
        risk=_PRODUCTION,
        family="topology",
        evidence="The model runs on another device than the one that was paid for.",
        engagement=Engagement(signal="model.device", expect={"cuda": "cuda:0"}),
    ),
)

_CACHE = (
    Parameter(
        name="cb_num_blocks",
        title="KV cache pages when batching",
        flag="--cb-num-blocks",
        type="int",
        default=None,
        risk=_MEMORY,
        family="memory",
        evidence="Unset, 90 % of free memory is reserved at the first request; too few, and requests wait for pages.",
        low=1,
        high=2**31 - 1,
        engagement=Engagement(signal="cb.num_blocks"),
    ),
    Parameter(
        name="cb_block_size",
        title="tokens per KV cache page",
        flag="--cb-block-size",
        type="int",
        default=None,
        risk=_MEMORY,
        family="memory",
        evidence="Short requests leave most of a page of 256 tokens empty while others wait for pages.",
        low=4,
        high=2**31 - 1,
        engagement=Engagement(signal="cb.page_size"),
    ),
    Parameter(
        name="cb_max_memory_percent",
        title="share of free memory for the KV cache",
        flag="--cb-max-memory-percent",
        type="float",
        default=None,
        risk=_MEMORY,
        family="memory",
        evidence="Sizes the cache while cb_num_blocks is unset: too much starves others, too little queues requests.",
        low=0.01,
        high=1.0,
        engagement=Engagement(signal="cb.max_memory_percent"),
    ),
    Parameter(
        name="cb_max_batch_tokens",
        title="token budget of a batched step",
        flag="--cb-max-batch-tokens",
        type="int",
        default=None,
        risk=_TRADE,
        family="limits",
        evidence="Long prompts delay running answers (lower it), or first tokens come late under load (raise it).",
        low=1,
        high=2**31 - 1,
        engagement=Engagement(signal="cb.max_batch_tokens"),
    ),
)

_SERVICE = (
    Parameter(
        name="model_timeout",
        title="idle unload",
        flag="--model-timeout",
        type="int",
        default=300,
        risk=_PRODUCTION,
        family="service",
        evidence="First answers after a pause include a reload; ignored while the model is pinned, as it is here.",
        low=-1,
        high=2**31 - 1,
    ),
    Parameter(
        name="default_seed",
        title="seed of sampled answers",
        flag="--default-seed",
        type="int",
        default=None,
        risk=_PRODUCTION,
        family="service",
        evidence="Sampled answers must be repeatable; greedy answers do not depend on it.",
        low=0,
        high=2**32 - 1,
    ),
    Parameter(
        name="reasoning",
        title="reasoning mode",
        flag="--reasoning",
        type="str",
        default="auto",
        risk=_PRODUCTION,
        family="service",
        evidence="The model thinks aloud before it answers, and users see or wait for it.",
        choices=("on", "off", "auto"),
    ),
    Parameter(
        name="trust_remote_code",
        title="code from the model directory",
        flag="--trust-remote-code",
        type="bool",
        default=False,
        risk=_PRODUCTION,
        family="service",
        evidence="The model brings its own Python code, and refuses to load without it.",
    ),
    Parameter(
        name="enable_cors",
        title="cross-origin requests",
        flag="--enable-cors",
        type="bool",
        default=False,
        risk=_PRODUCTION,
        family="service",
        evidence="A browser on another origin must reach the server; costs one middleware per request.",
    ),
    Parameter(
        name="log_level",
        title="log level",
        flag="--log-level",
        type="str",
        default="warning",
        risk=_PRODUCTION,
        family="service",
        evidence="Operators miss or drown in messages; every request logs a line at warning.",
        choices=("detail", "debug", "info", "warning", "error", "critical"),
    ),
)

TABLE: tuple[Parameter, ...] = (*_SPEED, *_NUMBERS, *_CACHE, *_SERVICE)


class TransformersEngine:
    """`transformers serve` with one pinned model."""

    name = "transformers"
    launches = True
    health_path = "/health"
    metrics_path: str | None = None
    log_patterns: Sequence[LogPattern] = LOG_PATTERNS

    def parameters(self) -> Sequence[Parameter]:
        """The parameter table."""
        return TABLE

    def plan(self, stack: Stack, settings: Mapping[str, ParameterValue], port: int) -> LaunchPlan:
        """Argv and environment. Raises ConfigError for settings or a stack that cannot be launched."""
        _check_launchable(stack)
        t.check(TABLE, settings, where="launch.parameters")
        t.check_side_doors(TABLE, stack.launch.extra_args, stack.launch.env, _OWNED)
        argv = (
            _python(stack), "-m", "transformers.cli.transformers", "serve", stack.model,
            "--host", _HOST, "--port", str(port),
            *t.arguments(TABLE, settings), *stack.launch.extra_args,
        )  # fmt: skip
        env = {**_ENVIRONMENT, **stack.launch.env, **t.environment(TABLE, settings)}
        return LaunchPlan(argv=argv, env=env, host=_HOST, port=port)

    def version_argv(self, stack: Stack) -> tuple[str, ...] | None:
        """Prints the installed version from package metadata, without loading torch."""
        return (_python(stack), "-c", _VERSION_CODE)

    def reporter(self) -> str | None:
        """The in-process reporter for this engine."""
        return "transformers"

    def model_in_request(self, stack: Stack) -> str:
        """The pinned model's name: the server refuses any other."""
        return stack.model


def _python(stack: Stack) -> str:
    return stack.launch.python or sys.executable


def _check_launchable(stack: Stack) -> None:
    if stack.url is not None:
        hint = "remove stack.url to have it launched"
        raise ConfigError(f"stack {stack.name} is attached to {stack.url} and cannot be launched", hint=hint)
    if not stack.model:
        raise ConfigError("no model is set", where="stack.model", hint="give a directory with config.json and weights")
    if stack.model.startswith("-"):
        raise ConfigError(f"the model {stack.model!r} would be read as an option", where="stack.model")
    if Path(stack.model).is_absolute() and "@" in stack.model:
        # The server splits its model argument at the first @ into name and revision.
        hint = "move or link the directory to a path without @"
        raise ConfigError(f"transformers serve cannot load a path with an @: {stack.model}", hint=hint)
