"""What `probe run static`, `redundancy` and `roofline` do: the kernel probes, with the environment they need.

Covered: the stack's interpreter (given, or prepared once), results as table or JSON, exit codes. Not covered: any
logic of the probes. Exit 0 pass · 1 fail or inconclusive · 2 usage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra_agent.cli.output import print_json, print_lines, print_notes
from infra_agent.errors import ExitCode, UsageError
from infra_agent.stack.cache import cache_dir
from infra_agent.stack.kernels import kernels_python
from probes.base import Observation, Verdict

_ROOFLINE_HINT = "infra-agent probe run roofline --model glm-5.2 --hardware H200 --devices 16 --weights fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOptions:
    """What the command line said about a kernel."""

    kernel: str
    call: str
    architectures: Sequence[str]
    settings: Sequence[str]
    warps: Sequence[int]
    paths: Sequence[str]
    python: str


def static(options: KernelOptions, as_json: bool) -> int:
    """Compile without a card; one observation."""
    from probes.static.cuda_compile import observe_cuda
    from probes.static.triton_compile.__main__ import parse_setting
    from probes.static.triton_compile.architectures import DEFAULT_ARCHITECTURES
    from probes.static.triton_compile.probe import Ask, observe

    if not options.kernel and not options.call:
        raise UsageError(
            "name a kernel", where="probe run static",
            hint="infra-agent probe run static --kernel fla.ops.kda.gate:kda_gate_fwd_kernel --arch sm_90",
        )  # fmt: skip
    architectures = tuple(options.architectures) or DEFAULT_ARCHITECTURES
    if options.kernel.partition(":")[0].endswith(".cu"):
        return _show(observe_cuda(Path(options.kernel.partition(":")[0]), architectures), as_json)
    try:
        given = dict(parse_setting(text) for text in options.settings)
    except ValueError as error:
        raise UsageError(str(error), where="probe run static --set", hint="for example --set BLOCK=64") from error
    wanted = Ask(
        python=_python(options.python), cache=cache_dir() / "kernel-facts", architectures=architectures,
        kernel=options.kernel, call=options.call, given=given, paths=_paths(options.paths),
        variants=tuple({"options": {"num_warps": warps}} for warps in options.warps),
    )  # fmt: skip
    return _show(observe(wanted), as_json)


def redundancy(options: KernelOptions, as_json: bool) -> int:
    """Count under the interpreter; one observation."""
    from probes.micro.redundancy.probe import observe

    if not options.call:
        raise UsageError(
            "redundancy needs a call that launches the kernel", where="probe run redundancy",
            hint="write a function without arguments and name it: --call FILE.py:FUNCTION",
        )  # fmt: skip
    found = observe(_python(options.python), options.call, options.kernel, paths=_paths(options.paths))
    return _show(found, as_json)


def roofline(said: Mapping[str, Any], as_json: bool) -> int:
    """Bytes, operations and limits of a model step, or Amdahl's bound alone."""
    from probes.capacity.roofline import sparse
    from probes.capacity.roofline.__main__ import read_hardware, read_shape
    from probes.capacity.roofline.bound import amdahl, worth_trying
    from probes.capacity.roofline.report import lines, observe
    from probes.capacity.roofline.report import roofline as roof
    from probes.capacity.roofline.step import BYTES, Setting

    if said["share"] is not None:
        factor = said["factor"] or math.inf
        worth, sentence = worth_trying(said["share"], factor, said["noise"])
        bound = amdahl(said["share"], factor)
        document = {"worth_trying": worth, "bound": bound if math.isfinite(bound) else None, "sentence": sentence}
        print_json(document) if as_json else print_lines([sentence])
        return int(ExitCode.OK)
    if said["weights"] not in BYTES or said["phase"] not in ("decode", "prefill"):
        raise UsageError("--weights or --phase has an unknown value", where="probe run roofline", hint=_ROOFLINE_HINT)
    try:
        shape, device = read_shape(said["model"] or "glm-5.2"), read_hardware(said["hardware"])
    except (KeyError, ValueError, OSError) as error:
        text = str(error.args[0] if isinstance(error, KeyError) else error)
        raise UsageError(text, where="probe run roofline", hint=_ROOFLINE_HINT) from error
    setting = Setting(
        batch=said["batch"], context=said["context_tokens"], new_tokens=said["new_tokens"], weights=said["weights"],
        drafts=said["drafts"], dense_attention=said["dense"],
    )  # fmt: skip
    found = roof(shape, setting, said["phase"], device, said["devices"])
    observation = observe(found, said["measured"])
    if as_json:
        print_json({"observation": asdict(observation)})
    else:
        readings = sparse.readings(shape, setting.context) if shape.indexer is not None else []
        print_lines([*lines(found, said["measured"]), *(sparse.lines(readings, setting.context) if readings else [])])
    return int(ExitCode.OK if observation.verdict is Verdict.PASS else ExitCode.NOT_MET)


def _python(given: str) -> str:
    return given or kernels_python(lambda text: print_notes([text]))


def _paths(given: Sequence[str]) -> tuple[str, ...]:
    # A module of the project is named as the user stands in it; a worker starts elsewhere.
    return (*given, str(Path.cwd()))


def _show(found: Observation, as_json: bool) -> int:
    if as_json:
        print_json({"observation": asdict(found)})
    else:
        detail = found.detail
        print_lines([f"{found.verdict}: {found.summary}", *detail.get("table", ())])
        print_lines([f"  {line}" for line in detail.get("lines", ())])
        if detail.get("hint"):
            print_lines([f"  try {detail['hint']}"])
    return int(ExitCode.OK if found.verdict is Verdict.PASS else ExitCode.NOT_MET)
