"""Facts as rows and tables: one kernel after another, and two versions side by side.

Covered: text tables for a terminal, the same as JSON rows. Not covered: colours.
"""

from __future__ import annotations

from collections.abc import Sequence

from probes.base import Json
from probes.static.triton_compile.facts import Facts

COLUMNS = (
    "kernel", "arch", "warps", "regs", "spill st/ld B", "smem B", "barrier", "shuffle", "exp2", "matrix", "load bits",
    "blocks/SM", "occupancy",
)  # fmt: skip


def row(facts: Facts) -> dict[str, Json]:
    """One kernel as a flat JSON row; figures are absent when it does not compile."""
    head: dict[str, Json] = {
        "kernel": facts.kernel, "architecture": facts.architecture, "where": f"{facts.file}:{facts.line}",
        "constants": dict(facts.constants), "signature": dict(facts.signature), "options": dict(facts.options),
        "assumed": list(facts.notes), "key": facts.key, "cached": facts.cached, "wall_s": round(facts.wall_s, 3),
    }  # fmt: skip
    if facts.failure is not None:
        return head | {"verdict": "fail", "stage": facts.failure.stage, "error": facts.failure.message,
                       "lines": list(facts.failure.lines)}  # fmt: skip
    assert facts.resources is not None
    assert facts.instructions is not None
    body: dict[str, Json] = {
        "verdict": "fail" if facts.violations else "pass", "warps": facts.warps, "stages": facts.stages,
        "registers": facts.resources.registers, "spill_store_bytes": facts.resources.spill_store_bytes,
        "spill_load_bytes": facts.resources.spill_load_bytes, "stack_bytes": facts.resources.stack_bytes,
        "shared_bytes": facts.shared_bytes, "matrix": facts.instructions.matrix, "counts": facts.instructions.kinds,
        "loads_bits": {str(bits): n for bits, n in facts.instructions.loads_bits.items()},
        "stores_bits": {str(bits): n for bits, n in facts.instructions.stores_bits.items()},
        "dots": dict(facts.dots or {}), "illegal": list(facts.violations),
        "checks": [{"name": check.name, "ok": check.ok, "measured": check.measured} for check in facts.checks],
    }  # fmt: skip
    if facts.occupancy is not None:
        body |= {"blocks_per_sm": facts.occupancy.blocks, "occupancy": facts.occupancy.share,
                 "limited_by": facts.occupancy.limited_by}  # fmt: skip
    return head | body


def lines(found: Sequence[Facts]) -> list[str]:
    """A table of all, one line each; a kernel that does not compile has its reason in place of figures."""
    rows = [COLUMNS, *(_cells(facts) for facts in found)]
    widths = [max(len(cells[i]) for cells in rows if len(cells) == len(COLUMNS)) for i in range(len(COLUMNS))]
    text = []
    for cells in rows:
        if len(cells) < len(COLUMNS):
            text.append(f"{cells[0]:<{widths[0]}}  {cells[1]:<{widths[1]}}  {cells[2]}")
        else:
            first = [f"{cells[0]:<{widths[0]}}", f"{cells[1]:<{widths[1]}}"]
            text.append(
                "  ".join(first + [f"{cell:>{width}}" for cell, width in zip(cells[2:], widths[2:], strict=True)])
            )
    return text


def difference(before: Facts, after: Facts) -> list[tuple[str, str, str]]:
    """What differs between two versions: name, before, after. Equal figures are left out."""
    old, new = row(before), row(after)
    names = [name for name in dict.fromkeys([*old, *new]) if name not in ("wall_s", "cached", "key", "checks", "where")]
    found: list[tuple[str, str, str]] = []
    for name in names:
        a, b = old.get(name), new.get(name)
        if isinstance(a, dict) or isinstance(b, dict):
            keys = dict.fromkeys([*(a or {}), *(b or {})])
            pairs = [(f"{name} {key}", (a or {}).get(key, 0), (b or {}).get(key, 0)) for key in keys]
        else:
            pairs = [(name, a, b)]
        found += [(label, _say(x), _say(y)) for label, x, y in pairs if x != y]
    return found


def difference_lines(before: Facts, after: Facts) -> list[str]:
    """The difference as a table; one sentence when there is none."""
    rows = [("", "before", "after"), *difference(before, after)]
    if len(rows) == 1:
        return ["no difference in any compiled figure"]
    widths = [max(len(cells[i]) for cells in rows) for i in range(3)]
    return [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]


def _cells(facts: Facts) -> tuple[str, ...]:
    name = facts.kernel.rpartition(":")[2]
    if facts.failure is not None:
        return (name, facts.architecture, f"does not compile ({facts.failure.stage}): {facts.failure.message}")
    assert facts.resources is not None
    assert facts.instructions is not None
    kinds, resources, held = facts.instructions.kinds, facts.resources, facts.occupancy
    widths = "+".join(str(bits) for bits in facts.instructions.loads_bits)
    return (
        name, facts.architecture, str(facts.warps), str(resources.registers),
        f"{resources.spill_store_bytes}/{resources.spill_load_bytes}", str(facts.shared_bytes),
        str(kinds.get("barrier", 0)), str(kinds.get("shuffle", 0)), str(kinds.get("exp2", 0)),
        str(sum(facts.instructions.matrix.values())), widths or "-",
        str(held.blocks) if held else "?", f"{held.share:.0%}" if held else "?",
    )  # fmt: skip


def _say(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "-"
    return "-" if value is None else str(value)
