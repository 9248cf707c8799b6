"""Log patterns against lines of `transformers serve` 5.19: from its logs, or filled in from its message formats."""

from __future__ import annotations

import re

import pytest

from infra_agent.stack.engines import get_engine

PATTERNS = get_engine("transformers").log_patterns


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("Error: No such option '--continous-batching'.", "does not know an option"),
        ("Error: Invalid value for '--cb-num-blocks': 'x' is not a valid integer.", "does not know an option"),
        ("Error: Got unexpected extra argument (extra)", "belongs to no option"),
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 1): address already in use",
            "listens on the port",
        ),
        (
            "ImportError: Using `bitsandbytes` 8-bit quantization requires bitsandbytes: "
            "`pip install -U bitsandbytes>=0.46.1`",
            "needs bitsandbytes",
        ),
        (
            "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/nonexist/x'. "
            "Use `repo_type` argument if needed.",
            "neither a directory",
        ),
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the "
            "cached files.",
            "neither a directory",
        ),
        (
            "ContinuousBatchingLogger - WARNING - cb_config.use_cuda_graph = True but no graph "
            "backend is available: turning off accelerator graphs.",
            "turned off",
        ),
        ("[transformers] block_size is deprecated: please use page_size instead.", "page_size now"),
        (
            "ValueError: Implementation flex_attention is not supported for continuous batching. Use 'sdpa'",
            "cannot be used when batching",
        ),
        ("CBWorkerDeadError: CB worker is dead and cannot accept request 3: out of pages", "batching thread died"),
        ("MemoryError: Memory footprint 99 is more than available memory 9", "does not fit into memory"),
    ],
)
def test_a_line_is_recognised_by_exactly_one_pattern(line: str, meaning: str) -> None:
    found = [pattern for pattern in PATTERNS if re.search(pattern.regex, line)]
    assert len(found) == 1
    assert meaning in found[0].meaning


@pytest.mark.parametrize(
    "line",
    [
        "[transformers] Loading /models/m@main",
        "INFO:     Uvicorn running on http://127.0.0.1:9111 (Press CTRL+C to quit)",
        'INFO:     127.0.0.1:45492 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "[transformers] The following generation flags are not valid and may be ignored: ['temperature'].",
    ],
)
def test_an_ordinary_line_is_not_named(line: str) -> None:
    assert not [pattern for pattern in PATTERNS if re.search(pattern.regex, line)]
