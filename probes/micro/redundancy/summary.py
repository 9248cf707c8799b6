"""Inside the stack's interpreter: what a tracked launch amounts to, as plain data.

Covered: reuse per operand (overall, per grid axis, per index variable), repeated operations by kind, sectors,
alignment, addresses outside their operand, addresses written by several programs or read while another writes them.
Not covered: caches; a repeated load may well hit one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from probes.micro.redundancy.names import Names
from probes.micro.redundancy.tracker import Access, Root, Site, Tracker

SECTOR_BYTES = 32
VECTOR_BYTES = 16
SMALLEST_RUN = 32
"""Elements of an access below which its pattern says nothing."""
Programs = list[tuple[tuple[int, int, int], Access]]


def summarise(tracker: Tracker, operands: Mapping[int, str], function: Any) -> dict[str, Any]:
    """The document of one launch. `operands`: first address → name."""
    names = Names(function)
    axes = [axis for axis in index_axes(tracker) if len(tracker.roots[axis].values) > 1]
    return {
        "programs": tracker.programs,
        "operands": operand_rows(tracker, operands, axes, names),
        "work": work_rows(tracker, axes, names),
        "axes": [
            {"name": label(tracker.roots[axis], names), "line": tracker.roots[axis].place[0],
             "extent": len(tracker.roots[axis].values)} for axis in axes
        ],
        "access": pattern_rows(tracker, operands),
        "outside": outside_rows(tracker, operands),
        "races": race_rows(tracker, operands),
    }  # fmt: skip


def index_axes(tracker: Tracker) -> list[Site]:
    """Index variables that some access or operation depends on directly."""
    used: set[Site] = set()
    for _, access in (*tracker.loads, *tracker.stores, *tracker.atomics):
        used |= access.roots
    for work in tracker.work.values():
        used |= work.roots
    return [site for site in tracker.roots if site in used]


def related(tracker: Tracker, axis: Site) -> set[Site]:
    """The axis, what it is computed from, and what is computed from it."""
    found = {axis} | ancestors(tracker.roots, axis)
    return found | {site for site in tracker.roots if axis in ancestors(tracker.roots, site)}


def ancestors(roots: Mapping[Site, Root], site: Site) -> set[Site]:
    """All index variables that one is computed from."""
    found: set[Site] = set()
    pending = [site]
    while pending:
        root = roots.get(pending.pop())
        for parent in root.parents if root is not None else ():
            if parent not in found:
                found.add(parent)
                pending.append(parent)
    return found


def label(root: Root, names: Names) -> str:
    """The variable's name in the source, or its line."""
    return names.of(root.place) or f"line {root.place[0]}"


def operand_rows(
    tracker: Tracker, operands: Mapping[int, str], axes: Iterable[Site], names: Names
) -> list[dict[str, Any]]:
    """One row per operand and direction."""
    rows = []
    for direction, programs in (("load", tracker.loads), ("store", tracker.stores), ("atomic", tracker.atomics)):
        for base, found in sorted(by_base(programs).items(), key=lambda item: operands.get(item[0], "")):
            rows.append({"operand": operands.get(base, "?"), "direction": direction, **reuse(found)})
            roots = frozenset().union(*(access.roots for _, access in found))
            independent = [axis for axis in axes if not roots & related(tracker, axis)]
            rows[-1]["independent_of"] = {
                label(tracker.roots[axis], names): len(tracker.roots[axis].values) for axis in independent
            }
    return rows


def by_base(programs: Programs) -> dict[int, Programs]:
    """Accesses grouped by operand."""
    found: dict[int, Programs] = defaultdict(list)
    for program, access in programs:
        found[access.base].append((program, access))
    return found


def reuse(programs: Programs) -> dict[str, Any]:
    """Bytes issued, distinct bytes, and how often each is asked for by different programs."""
    import numpy as np

    width = programs[0][1].bytes_each
    per_program: dict[tuple[int, int, int], list[Any]] = defaultdict(list)
    for program, access in programs:
        per_program[program].append(access.addresses)
    touched = {program: np.unique(np.concatenate(parts)) for program, parts in per_program.items()}
    issued = sum(access.addresses.size * access.bytes_each for _, access in programs)
    asked = sum(one.size for one in touched.values())
    distinct = np.unique(np.concatenate(list(touched.values()))).size if touched else 0
    axes = {}
    for axis, name in enumerate("xyz"):
        groups: dict[Any, list[Any]] = defaultdict(list)
        for program, one in touched.items():
            groups[(*program[:axis], *program[axis + 1 :])].append(one)
        left = sum(np.unique(np.concatenate(parts)).size for parts in groups.values())
        axes[name] = asked / left if left else 1.0
    return {
        "issued_bytes": int(issued), "distinct_bytes": int(distinct * width),
        "asked_bytes": int(asked * width), "reuse": asked / distinct if distinct else 1.0, "reuse_by_axis": axes,
        "repeats_within_program": issued / (asked * width) if asked else 1.0,
    }  # fmt: skip


def work_rows(tracker: Tracker, axes: Iterable[Site], names: Names) -> list[dict[str, Any]]:
    """Operations by kind: all, distinct, repeated along each grid axis and index variable, and the lines of it."""
    rows: dict[str, dict[str, Any]] = {}
    axes = list(axes)
    near = {axis: related(tracker, axis) for axis in axes}
    for work in tracker.work.values():
        row = rows.setdefault(
            work.kind, {"kind": work.kind, "total": 0, "distinct": 0, "along": {}, "along_index": {}, "lines": {}}
        )
        row["total"] += work.total
        row["distinct"] += work.distinct
        if work.total > work.distinct:
            row["lines"][str(work.line)] = row["lines"].get(str(work.line), 0) + work.total - work.distinct
        for axis, name in enumerate("xyz"):
            row["along"][name] = row["along"].get(name, 0) + work.total - work.without_axis[axis]
        for index in axes:
            if not work.roots & near[index]:
                extent = len(tracker.roots[index].values)
                name = label(tracker.roots[index], names)
                repeated = min(work.total - work.distinct, work.total - work.total // extent)
                row["along_index"][name] = row["along_index"].get(name, 0) + repeated
    return sorted(rows.values(), key=lambda row: -row["total"])


def pattern_rows(tracker: Tracker, operands: Mapping[int, str]) -> list[dict[str, Any]]:
    """Lines whose accesses move much more than they use, or start off a 16-byte boundary though their rows are long."""
    import numpy as np

    seen: dict[tuple[str, int, str], dict[str, Any]] = {}
    for direction, programs in (("load", tracker.loads), ("store", tracker.stores)):
        for _, access in programs:
            if access.addresses.size < SMALLEST_RUN:
                continue
            addresses = np.unique(access.addresses)
            sectors = np.unique(addresses // np.uint64(SECTOR_BYTES)).size
            key = (operands.get(access.base, "?"), access.line, direction)
            row = seen.setdefault(key, {
                "operand": key[0], "line": key[1], "direction": direction, "used_bytes": 0, "moved_bytes": 0,
                "misaligned": 0, "accesses": 0,
            })  # fmt: skip
            row["used_bytes"] += int(addresses.size * access.bytes_each)
            row["moved_bytes"] += int(sectors * SECTOR_BYTES)
            row["accesses"] += 1
            whole = addresses[-1] - addresses[0] == np.uint64((addresses.size - 1) * access.bytes_each)
            row["misaligned"] += int(bool(whole) and int(addresses[0]) % VECTOR_BYTES != 0)
    for row in seen.values():
        row["efficiency"] = row["used_bytes"] / row["moved_bytes"]
    return list(seen.values())


def outside_rows(tracker: Tracker, operands: Mapping[int, str]) -> list[dict[str, Any]]:
    """Accesses outside their operand, by line. They were not carried out."""
    found: dict[tuple[str, int, str], int] = defaultdict(int)
    for direction, programs in (("load", tracker.loads), ("store", tracker.stores), ("atomic", tracker.atomics)):
        for _, access in programs:
            if access.outside:
                found[operands.get(access.base, "?"), access.line, direction] += access.outside
    return [{"operand": a, "line": b, "direction": c, "elements": n} for (a, b, c), n in found.items()]


def race_rows(tracker: Tracker, operands: Mapping[int, str]) -> list[dict[str, Any]]:
    """Addresses that several programs write, or that one reads and another writes, without atomics."""
    rows = []
    reads, writes = by_base(tracker.loads), by_base(tracker.stores)
    for base, found in writes.items():
        owners = first_and_last(found)
        shared = {address for address, (low, high) in owners.items() if low != high}
        if shared:
            lines = sorted({access.line for _, access in found})
            rows.append({"operand": operands.get(base, "?"), "kind": "written by several programs",
                         "elements": len(shared), "lines": lines})  # fmt: skip
        read = first_and_last(reads.get(base, []))
        crossed = [a for a, owner in read.items() if a in owners and set(owner) | set(owners[a]) != {owner[0]}]
        if crossed:
            lines = sorted({access.line for _, access in (*found, *reads[base])})
            rows.append({"operand": operands.get(base, "?"), "kind": "read by one program and written by another",
                         "elements": len(crossed), "lines": lines})  # fmt: skip
    return rows


def first_and_last(programs: Programs) -> dict[int, tuple[Any, Any]]:
    """Per address: the smallest and the largest program that touches it."""
    found: dict[int, tuple[Any, Any]] = {}
    for program, access in programs:
        for address in access.addresses.tolist():
            low, high = found.get(address, (program, program))
            found[address] = (min(low, program), max(high, program))
    return found
