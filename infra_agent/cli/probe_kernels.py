"""`infra-agent probe run static|redundancy|roofline|numeric`: the options of the probes that need no server."""

from __future__ import annotations

from infra_agent.cli import kernel_options as k
from infra_agent.cli import load_options as o
from infra_agent.cli.options import JsonFlag, NoSandbox


def static(
    kernel: k.Kernel = "", call: k.Call = "", arch: k.Arch = None, set_: k.Set = None, warps: k.Warps = None,
    path: k.ImportPath = None, python: k.Python = "", as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """Compile kernels for cards that are not here. Exit 1 where one fails or cannot be judged.

    JSON keys: observation.
    """
    from infra_agent.cli import kernels

    wanted = kernels.KernelOptions(
        kernel=kernel, call=call, architectures=arch or (), settings=set_ or (), warps=warps or (), paths=path or (),
        python=python,
    )  # fmt: skip
    return kernels.static(wanted, as_json)


def redundancy(
    kernel: k.Kernel = "", call: k.Call = "", path: k.ImportPath = None, python: k.Python = "",
    as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """Count what a kernel's programs repeat, under the interpreter. Exit 1 where it cannot be judged.

    JSON keys: observation.
    """
    from infra_agent.cli import kernels

    wanted = kernels.KernelOptions(
        kernel=kernel, call=call, architectures=(), settings=(), warps=(), paths=path or (), python=python
    )
    return kernels.redundancy(wanted, as_json)


def roofline(
    model: o.Model = None, hardware: k.HardwareName = "H100", devices: k.Devices = 1, phase: k.Phase = "decode",
    batch: k.Batch = 1, context_tokens: k.ContextTokens = 4096, new_tokens: k.NewTokens = 1,
    weights: k.Weights = "bf16", drafts: k.Drafts = 0, dense: k.Dense = False, measured: k.Measured = None,
    share: k.Share = None, factor: k.Factor = None, noise: k.NoiseFloor = 0.01, as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """A model step's bytes and operations against a device's limits, or Amdahl's bound of a change (--share).

    JSON keys: observation; with --share: worth_trying, bound, sentence.
    """
    from infra_agent.cli import kernels

    said = {
        "model": model, "hardware": hardware, "devices": devices, "phase": phase, "batch": batch,
        "context_tokens": context_tokens, "new_tokens": new_tokens, "weights": weights, "drafts": drafts,
        "dense": dense, "measured": measured, "share": share, "factor": factor, "noise": noise,
    }  # fmt: skip
    return kernels.roofline(said, as_json)


def numeric(
    candidate: o.Candidate = None, command: o.Command = None, reference: o.Reference = None, spec: o.SpecFile = None,
    python: o.Python = None, fresh: o.Fresh = False, no_sandbox: NoSandbox = False, as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """One function against its reference, behind the walls (docs/numeric.md). Exit 1 for every verdict but `pass`.

    JSON keys: observation.
    """
    from infra_agent.cli import numeric as judging

    return judging.measure(candidate, command, reference, spec, python, fresh, no_sandbox, as_json)
