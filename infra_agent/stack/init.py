"""The commented `infra-agent.toml` that `infra-agent init` writes. It loads as it is.

Covered: one text per engine, with the engine's own parameter table as the menu for `[space]`.
Not covered: finding out what is installed; `infra-agent doctor` does that.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tomli_w

from infra_agent.errors import ConfigError
from infra_agent.stack.engines import get_engine
from infra_agent.stack.engines.base import Engine, Parameter
from infra_agent.stack.engines.command import COMMAND, EXPERIMENT
from infra_agent.stack.hashing import write_atomically
from infra_agent.stack.model import ParameterValue, Reference, StackLimits, Workload

_DEFAULT_MODEL = {
    "transformers": "./model",
    "openai": "the-name-that-the-server-uses",
    "command": "the-name-that-the-server-uses",
}
_ORACLE: Literal["transformers-float32"] = "transformers-float32"
_DEFAULT_URL = "http://127.0.0.1:8000"


def init_text(engine: str, model: str | None = None, url: str | None = None) -> str:
    """The file's text for an engine. Raises ConfigError for an unknown engine."""
    url = url or None
    described = get_engine(engine)
    if engine == EXPERIMENT:
        if url is not None:
            raise ConfigError("an experiment is run, not attached to", where="--url", hint="leave it out")
        return _EXPERIMENT
    parts = [_head(described, model or _DEFAULT_MODEL[engine], url)]
    if engine == COMMAND and url is None:
        parts.append(_COMMAND)
    elif described.launches and url is None:
        parts += [_LAUNCH, _space(described.parameters())]
    parts.append(_tail(weights=engine != COMMAND and described.launches and url is None))
    return "\n".join(parts)


def write_init(path: Path, text: str, force: bool = False) -> None:
    """Write the file. Raises ConfigError when one is there already, unless `force`."""
    if path.exists() and not force:
        raise ConfigError(f"{path.name} exists already", where=str(path), hint="--force replaces it")
    try:
        if force:
            write_atomically(path, text)
            return
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        raise ConfigError(f"{path.name} exists already", where=str(path), hint="--force replaces it") from None
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}", where=str(path)) from None
    with os.fdopen(handle, "w", encoding="utf-8") as sink:
        sink.write(text)


def _toml(value: ParameterValue | list[ParameterValue]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return tomli_w.dumps({"v": value}).strip().removeprefix("v = ")


def _head(engine: Engine, model: str, url: str | None) -> str:
    lines = [
        "# What infra-agent tunes, how it is started, and what may change. Reference: docs/stacks.md",
        "# Relative paths start at this file's directory.",
        "",
        "[stack]",
        'name = "my-stack"                  # shown in reports',
        f"engine = {_toml(engine.name)}",
    ]
    if engine.launches and engine.name != COMMAND:
        lines.append(
            f"model = {_toml(model)}  # a directory with config.json and weights, or a name in the local hub cache"
        )
    else:
        lines.append(f"model = {_toml(model)}  # the name that requests carry and answers echo")
    if not engine.launches or url is not None:
        lines += [
            f"url = {_toml(url or _DEFAULT_URL)}  # the running server, without /v1",
            "# A server attached to by url is measured and diagnosed, never changed or restarted.",
        ]
    lines += [
        '# served_model = "other-name"      # when answers carry another name than model',
        '# sources = ["./engine-src"]       # what may be patched, when the goal says that code may change',
        "",
    ]
    return "\n".join(lines)


_LAUNCH = """\
[launch]
# python = "./venv/bin/python"      # interpreter of the engine's own environment; default: infra-agent's own
# extra_args = ["--some-flag"]      # flags that the table below does not know

[launch.parameters]
# The stock configuration: what you run today. Everything is proved against it. Names as in [space].

[launch.env]
# Environment variables of the engine, e.g. HF_HOME = "/data/hf". The engine is started with HF_HUB_OFFLINE = "1".
"""


_COMMAND = """\
[launch]
# Words in braces are put in: {port} {host} {python} {model} {source} {parameters}. docs/stacks.md explains them.
command = ["{python}", "server.py", "--port", "{port}"]
# python = "./venv/bin/python"      # what {python} is; default: infra-agent's own interpreter
# health_path = "/health"           # answers 200 when the server is up
# state_path = "/state"             # answers a JSON object of what is in effect: it proves parameters

# [parameters.workers]              # one table per parameter that may be set
# flag = "--workers"                # or "env:NAME"
# type = "int"                      # bool, int, float or str
# risk = "concurrency"              # not stated: waits for a person's approval
# signal = "state.workers"          # the key of state_path's answer that shows it

# [space]
# workers = [1, 2, 4]
"""


_EXPERIMENT = """\
# A program that measures one thing and ends. Reference: docs/experiments.md
# Relative paths start at this file's directory.

[stack]
name = "my-experiment"              # shown in reports
engine = "experiment"
# sources = ["./src"]               # what may be patched, when the goal says that code may change
# playbooks = "./playbooks"         # pages of its own: which probe, then which transform
# skills = "./skills"               # NAME/transform.py of its own

[launch]
# One run. Words in braces are put in: {python} {source} {seed} {result} {parameters}.
command = ["{python}", "measure.py", "{seed}", "{result}"]
# python = "./venv/bin/python"      # what {python} is; default: infra-agent's own interpreter

[metrics.error]                     # one table per metric: what goals may ask for
unit = "1"                          # "1" when it has none
direction = "minimise"              # or maximise
kind = "deterministic"              # equal runs give equal figures (asserted); "measured" for times
meaning = "largest relative error against a float64 reference"
# names = ["relative error"]        # what goals call it, beside its own name
# judged = "high"                   # the upper end of its interval is judged
# resolution = 1e-12                # figures are not told apart below it

# [[metrics.error.sentences]]       # whole sentences that state a target
# says = "the error must not grow with length"
# at_most = 0.1

[experiment]
timeout_s = 120                     # deadline of one run
# needs = ["./reference"]           # what a run reads beside the sources

# [probes.reference]                # a local probe: it writes observations to {result}
# rung = "numeric"                  # static, numeric, micro or trace
# required = true                   # every candidate must pass it before it is measured
# command = ["{python}", "look.py", "{source}", "{result}"]

[limits]
budget_s = 1200                     # used when the goal names no budget
"""


def _space(table: Sequence[Parameter]) -> str:
    lines = [
        "[space]",
        "# What may be tried: parameter = [values]. A parameter that is not listed is never changed.",
        "# Uncomment what you would accept. The word in brackets is the risk class: numerics and production wait for",
        "# a person's approval, the others are decided by measurement and checks alone.",
    ]
    for parameter in table:
        if parameter.family == "service":
            continue  # changes what users and operators see, not how fast it is
        note = f"({parameter.risk.value}) {parameter.evidence}"
        lines += textwrap.wrap(note, 110, initial_indent="#   ", subsequent_indent="#   ")
        lines.append(f"# {parameter.name} = {_toml(_examples(parameter))}")
    return "\n".join([*lines, ""])


_EXAMPLES: dict[str, list[ParameterValue]] = {
    "omp_num_threads": [1, 2, 4],
    "cb_num_blocks": [64, 256],
    "cb_block_size": [32, 128],
    "cb_max_memory_percent": [0.5, 0.8],
    "cb_max_batch_tokens": [64, 512, 2048],
    "device": ["cpu"],
}


def _examples(parameter: Parameter) -> list[ParameterValue]:
    """Values that show the form: the table's choices, the other side of a switch, or numbers that people use."""
    if parameter.choices:
        return list(parameter.choices)
    if parameter.type == "bool":
        return [not parameter.default]
    return _EXAMPLES[parameter.name]


def _tail(weights: bool) -> str:
    # The oracle needs the weights on this machine, which neither a server by URL nor one's own promises.
    work, reference, limits = Workload(), Reference(oracle=_ORACLE if weights else "none"), StackLimits()
    return f"""\
[workload]
# One measured window. Every arm of a comparison gets the same prompts, lengths and seeds.
prompts = {_toml(work.prompts)}  # builtin:NAME, or a JSONL file of {{"prompt": "..."}}
requests = {work.requests}
warmup_requests = {work.warmup_requests}                 # sent before the window, part of start-up time
max_tokens = {work.max_tokens}
concurrency = {work.concurrency}                     # used when the goal names no load
endpoint = {_toml(work.endpoint)}                   # chat or completions
stream = {_toml(work.stream)}                       # false: no time to first token can be measured
request_timeout_s = {work.request_timeout_s}

[reference]
# What "the same answers" means. The oracle is a float32 run of the same weights that decides close calls.
oracle = {_toml(reference.oracle)}  # transformers-float32, or none: then any difference counts
prompts = {_toml(reference.prompts)}
max_tokens = {reference.max_tokens}
tolerance_nat = {reference.tolerance_nat}                 # largest gap in the oracle that still is a near-tie

[limits]
start_timeout_s = {limits.start_timeout_s}               # from launch to the first answered request
stop_timeout_s = {limits.stop_timeout_s}
budget_s = {limits.budget_s}                    # used when the goal names no budget
# memory_bytes = 8000000000          # the engine is ended above this; default: 85 % of the machine's memory
neighbours = {_toml(limits.neighbours)}                 # a neighbour busier than before voids a block; or "record"

# Who approves changes that wait for a person. Without this table it is you. Reference: docs/review.md
# [[review.reviewers]]
# name = "alice"
# key = "ssh-ed25519 AAAA... alice"  # `infra-agent review key` prints yours; an SSH key will do
"""
