"""Lines of the `transformers serve` log that are worth naming: seen in logs of 5.19, or in its messages' source.

Covered: why it did not start, why answers fail, and where it silently does something else than asked.
Not covered: tracebacks without a known cause; the harness shows their last lines as they are.
"""

from __future__ import annotations

from infra_agent.stack.engines.base import LogPattern

LOG_PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        regex=r"CUDA out of memory|OutOfMemoryError|Cannot allocate memory|DefaultCPUAllocator: can't allocate",
        meaning="the engine ran out of memory",
        hint="lower cb_num_blocks, cb_max_batch_tokens or cb_max_memory_percent, or use a smaller model",
    ),
    LogPattern(
        regex=r"Memory footprint \d+ is more than available memory \d+",
        meaning="the KV cache asked for does not fit into memory",
        hint="lower cb_num_blocks or cb_max_batch_tokens",
    ),
    LogPattern(
        regex=r"address already in use",
        meaning="another process listens on the port",
        hint="stop it, or let the harness choose another port",
    ),
    LogPattern(
        regex=r"No such option|unrecognized arguments|Invalid value for",
        meaning="this version of the engine does not know an option or its value",
        hint="compare launch.extra_args with `transformers serve --help` in the stack's environment",
    ),
    LogPattern(
        regex=r"Got unexpected extra argument",
        meaning="a value on the command line belongs to no option",
        hint="look for a flag that takes no value in launch.extra_args",
    ),
    LogPattern(
        regex=r"is not supported for continuous batching",
        meaning="this attention implementation cannot be used when batching; every request fails",
        hint="use sdpa or eager, or a flash implementation that is installed",
    ),
    LogPattern(
        regex=r"Unsupported attention implementation|Unsupported dtype|Unsupported quantization method",
        meaning="the engine does not know this value",
        hint="use one of the parameter table's choices",
    ),
    LogPattern(
        regex=r"FlashAttention\S* has been toggled on, but it cannot be used|flash_attn\S* seems to be not installed",
        meaning="flash attention is not installed in the stack's environment",
        hint="install it there, or use sdpa",
    ),
    LogPattern(
        regex=r"CB worker (is dead|died)",
        meaning="the batching thread died; all further requests fail with 503",
        hint="look for the first traceback above this line",
    ),
    LogPattern(
        regex=r"does not support continuous batching\. Falling back to sequential generation",
        meaning="batching was asked for, but this model is served one request at a time",
        hint="the model's class cannot batch: batching cannot engage with it",
    ),
    LogPattern(
        regex=r"no graph backend is available: turning off accelerator graphs",
        meaning="accelerator graphs were asked for and turned off",
        hint="this device has none: leave cb_use_cuda_graph unset",
    ),
    LogPattern(
        regex=r"Continuous batching is much better when using flash attention\. Switching from \w+ to \w+",
        meaning="the engine replaced the attention implementation when batching started",
        hint="the value asked for is not in effect",
    ),
    LogPattern(
        regex=r"requires bitsandbytes|No package metadata was found for bitsandbytes",
        meaning="quantisation needs bitsandbytes, which the stack's environment lacks",
        hint="install bitsandbytes there, or leave quantization unset",
    ),
    LogPattern(
        regex=r"block_size is deprecated",
        meaning="the engine calls this setting page_size now; it is still honoured",
        hint="nothing to do",
    ),
    LogPattern(
        regex=r"is not a local folder and is not a valid model identifier|does not appear to have a file named"
        r"|Cannot find an appropriate cached snapshot folder|couldn't find it in the cached files|OfflineModeIsEnabled"
        r"|couldn't connect to 'https://huggingface\.co'|Repo id must",
        meaning="the model is neither a directory with config.json nor in the local Hugging Face cache",
        hint="set stack.model to a directory, or fetch the model first: the engine is started offline",
    ),
    LogPattern(
        regex=r"Missing dependencies for serving",
        meaning="the stack's environment lacks the serving packages",
        hint='pip install "transformers[serving]" in it',
    ),
    LogPattern(
        regex=r"No module named '?transformers",
        meaning="launch.python has no transformers installed",
        hint="name the interpreter of the stack's own environment in launch.python",
    ),
    LogPattern(
        regex=r"operator torchvision::nms does not exist",
        meaning="torchvision in the stack's environment does not fit its torch",
        hint="pip uninstall torchvision torchaudio in it",
    ),
)
