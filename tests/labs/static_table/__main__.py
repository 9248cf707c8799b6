"""`make static-tests`: registers, spills, stack and shared memory, three ways. Exit 1 when one differs or few compile.

The probe's figures come from the log of the ptxas that made the binary. Here ptxas is run again on the stored PTX (the
new binary must be the stored one, byte for byte) and cuobjdump reads the stored binary.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from infra_agent.stack.cache import cache_dir
from infra_agent.stack.kernels import kernels_python
from probes.kernels.process import KernelProbeError
from probes.static.triton_compile.facts import Facts
from probes.static.triton_compile.probe import Ask, compile_kernels

MODULES = (
    "fla.modules.l2norm", "fla.modules.layernorm", "fla.ops.utils.cumsum", "fla.ops.utils.softmax",
    "fla.ops.kda.gate", "fla.ops.kda.fused_recurrent", "fla.ops.common.chunk_h", "fla.ops.common.fused_recurrent",
    "fla.ops.gated_delta_rule.fused_recurrent", "fla.ops.utils.pooling",
    "fla.modules.activations", "fla.modules.rotary",
)  # fmt: skip
WANTED = 20
Figures = tuple[int, int, int, int]


def main() -> int:
    """Compile, compare, print."""
    parser = argparse.ArgumentParser(prog="make static-tests", description=__doc__)
    parser.add_argument("--python", help="an interpreter with torch, triton and fla-core")
    parser.add_argument("--arch", default="sm_90")
    options = parser.parse_args()
    python = options.python or kernels_python(note)
    tell(f"{'kernel':<52}{'probe':>22}{'ptxas -v':>22}{'cuobjdump':>18}  same binary")
    tell(f"{'':<52}{'regs/spill st/ld/stack':>22}{'regs/spill st/ld/stack':>22}{'regs/stack':>18}")
    good = total = 0
    for module in MODULES:
        for facts in compiled(python, module, options.arch):
            if facts.resources is None or total == WANTED:
                continue
            total += 1
            good += compare(facts)
    tell(f"{good} of {total} kernels equal in every figure; {WANTED} wanted")
    return 0 if good == total == WANTED else 1


def compiled(python: str, module: str, architecture: str) -> list[Facts]:
    """Facts of all kernels of a module under stated assumptions; what cannot be assumed is said and left out."""
    wanted = Ask(python=python, cache=cache_dir() / "kernel-facts", architectures=(architecture,), kernel=module)
    try:
        return compile_kernels(wanted)
    except KernelProbeError as error:
        tell(f"{module}: left out, {error.kind}: {error.message}")
        return []


def compare(facts: Facts) -> bool:
    """Print one row; whether all agree."""
    assert facts.resources is not None
    place, one = Path(facts.directory), facts.resources
    mine: Figures = (one.registers, one.spill_store_bytes, one.spill_load_bytes, one.stack_bytes)
    again, same_binary, tool = ptxas_again(place)
    table = subprocess.run(
        [str(Path(tool).with_name("cuobjdump")), "--dump-resource-usage", str(place / "kernel.cubin")],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    found = re.search(r"REG:(\d+) STACK:(\d+)", table)
    theirs = (int(found[1]), int(found[2])) if found else (-1, -1)
    name = facts.kernel.replace("fla.", "").replace("ops.", "")
    tell(f"{name[-50:]:<52}{say(mine):>22}{say(again):>22}{say(theirs):>18}  {'yes' if same_binary else 'NO'}")
    return mine == again and (mine[0], mine[3]) == theirs and same_binary


def ptxas_again(place: Path) -> tuple[Figures, bool, str]:
    """Figures of a second run of ptxas with the first one's options, whether it made the same binary, and its path."""
    command = shlex.split((place / "ptxas.log").read_text(encoding="utf-8").splitlines()[0].removeprefix("$ "))
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "again.cubin"
        options = [one for one in command[1:-3] if one != "-lineinfo"] + ["-lineinfo"]
        argv = [command[0], *options, str(place / "kernel.ptx"), "-o", str(output)]
        log = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300).stderr
        same = output.read_bytes() == (place / "kernel.cubin").read_bytes()
    registers = re.search(r"Used (\d+) registers", log)
    spill = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert registers is not None
    assert spill is not None
    return (int(registers[1]), int(spill[2]), int(spill[3]), int(spill[1])), same, command[0]


def tell(text: str) -> None:
    """One line of the table."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Progress of the preparation."""
    sys.stderr.write(text + "\n")


def say(figures: tuple[int, ...]) -> str:
    """Figures with slashes between them."""
    return "/".join(str(one) for one in figures)


if __name__ == "__main__":
    sys.exit(main())
