"""The case as text for a terminal.

Covered: the four tables of `case`. Not covered: HTML; reports are made from a run's ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labs.kda_context_parallel.quantities import LENGTHS, RANKS, Quantities
from labs.kda_context_parallel.verdict import OVER_FLOAT32


def text(case: Mapping[str, Any]) -> str:
    """All of it."""
    before = next(iter(case["versions"].values()))
    parts = [
        _errors(case),
        _sites(before),
        _versions(case["versions"]),
        _compiled(case["compiled"]),
        "Proposed patch:\n\n" + "".join(case["diffs"]),
        f"{case['wall_s']:.0f} s, Triton {case['triton']} in its interpreter, no GPU.",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _errors(case: Mapping[str, Any]) -> str:
    rows = [
        ["all float32 products in", *map(_tokens, LENGTHS), "growth exponent [95 %]", f"unsplit {_tokens(LENGTHS[-1])}"]
    ]
    for name, law in case["growth"].items():
        cells = [f"{case['errors'][n][name]['split']:.1e}" for n in LENGTHS]
        rows.append([name, *cells, str(law), f"{case['errors'][LENGTHS[-1]][name]['unsplit']:.1e}"])
    lengths = ", ".join(map(_tokens, sorted(case["errors"])))
    state = f"state after {RANKS - 1} of {RANKS} ranks"
    title = f"fla-core 0.5.2, merged {state}, float32 inputs: relative error against float64"
    return f"{title}\n\n{_table(rows)}\n\nExponents are fitted to {lengths} tokens."


def _sites(found: Quantities) -> str:
    rows = [["call site", "kernel", "stage", *(f"alone {_tokens(n)}" for n in LENGTHS), "growth exponent [95 %]",
             f"put back {_tokens(LENGTHS[-1])}"]]  # fmt: skip
    for site in sorted(found.sites, key=lambda one: (one.line, one.stage)):
        rows.append(
            [
                f"{site.file}:{site.line}", site.kernels[0], site.stage, *(f"{site.alone[n]:.1e}" for n in LENGTHS),
                str(site.growth), f"{site.without[LENGTHS[-1]]:.1e}",
            ]
        )  # fmt: skip
    shipped = ", ".join(f"{stage.stage} {stage.shipped[LENGTHS[-1]]:.1e}" for stage in found.stages)
    left = max(stage.left[LENGTHS[-1]] for stage in found.stages)
    lines = ", ".join(str(site.line) for site in found.culprits)
    return (
        "Call sites of float32 products, bfloat16 inputs as in production, tf32 truncated: "
        "the error each causes alone\n\n"
        f"{_table(rows)}\n\n"
        f"alone: only this site as shipped, all others exact. put back: all as shipped, only this site exact.\n"
        f"As shipped at {_tokens(LENGTHS[-1])}: {shipped}. All of them put back: {left:.1e}.\n"
        f"Culprits (alone more than {OVER_FLOAT32} times float32's own error): lines {lines}."
    )


def _versions(versions: Mapping[str, Quantities]) -> str:
    rows = [["version", "stage", *map(_tokens, LENGTHS), "growth exponent [95 %]", "verdict"]]
    for name, found in versions.items():
        for stage in found.stages:
            cells = [f"{stage.shipped[n]:.1e}" for n in LENGTHS]
            rows.append([name, stage.stage, *cells, str(stage.growth or "none"), stage.verdict])
    verdicts = "\n".join(f"{name}: {found.verdict}" for name, found in versions.items())
    return f"As shipped: the error that narrow products cause in each stage\n\n{_table(rows)}\n\n{verdicts}"


def _compiled(compiled: Mapping[str, Any]) -> str:
    names = list(compiled)
    rows = [["compiled, without a device", "device", *names]]
    for kernel, devices in compiled[names[0]].items():
        for device in devices:
            rows.append([kernel, device, *(_counts(compiled[name][kernel][device]) for name in names)])
    return _table(rows)


def _counts(done: Mapping[str, Any]) -> str:
    return done["refusal"] or ", ".join(f"{number} {kind}" for kind, number in done["counts"].items())


def _tokens(length: int) -> str:
    return f"{length // 1024}K"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
