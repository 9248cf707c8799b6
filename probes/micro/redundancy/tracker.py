"""Inside the stack's interpreter: follows every value of a kernel back to the index variables it depends on.

Each value carries two sets. Its *key* holds the integers and addresses it was computed from, with their values: two
programs that execute the same instruction on equal keys compute the same thing. Its *roots* are the index variables
(program ids, and their quotients and remainders) it depends on: work without a root is repeated along that axis.
Covered: arithmetic, reductions, scans, loads, stores, atomics, dots, block pointers. Not covered: values that other
programs change in memory while the kernel runs (equal addresses count as equal values).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TRANSCENDENTALS = ("exp", "exp2", "log", "log2", "sqrt", "precise_sqrt", "rsqrt", "sin", "cos", "erf")
DIVISIONS = ("fdiv", "precise_divf", "frem")
FLOPS = ("fadd", "fsub", "fmul", "fma", "maximumf", "minimumf", "maxnumf", "minnumf")
SPLITS = ("srem", "urem", "sdiv", "udiv", "idiv", "and", "lshr", "ashr")
Site = tuple[tuple[int, int], ...]
EMPTY: frozenset[Any] = frozenset()


@dataclass(slots=True)
class Root:
    """An index variable: where it is computed, from which others, and the values it takes."""

    site: Site
    place: tuple[int, int, int]
    parents: frozenset[Site]
    values: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Work:
    """Elements of one kind of operation at one line: all of them, and those left when equal work is done once."""

    kind: str
    line: int
    total: int = 0
    distinct: int = 0
    without_axis: dict[int, int] = field(default_factory=Counter)
    roots: frozenset[Site] = EMPTY


@dataclass(slots=True)
class Access:
    """One memory access of one program."""

    line: int
    addresses: Any
    bytes_each: int
    roots: frozenset[Site]
    base: int
    outside: int


class Tracker:
    """What one launch did. `begin` at every program; hooks call `result`, `load`, `store`."""

    def __init__(self, entry_code: Any, ranges: dict[int, int]) -> None:
        """`ranges`: first address of every tensor argument, and the first address past it."""
        self._entry = entry_code
        self.ranges = ranges
        self.roots: dict[Site, Root] = {}
        self.work: dict[tuple[str, Site], Work] = {}
        self.loads: list[tuple[tuple[int, int, int], Access]] = []
        self.stores: list[tuple[tuple[int, int, int], Access]] = []
        self.atomics: list[tuple[tuple[int, int, int], Access]] = []
        self.program = (0, 0, 0)
        self.programs = 0
        self._seen: set[Any] = set()
        self._nth: Counter[Any] = Counter()

    def begin(self, program: tuple[int, int, int]) -> None:
        """A program starts."""
        self.program = program
        self.programs += 1
        self._nth.clear()

    def site(self) -> tuple[Site, tuple[int, int, int]]:
        """The instruction of the kernel that is running (through its helpers), and its line, column and end."""
        frame = sys._getframe(2)
        path = []
        while frame is not None and frame.f_code is not self._entry:
            path.append((id(frame.f_code), frame.f_lasti))
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return tuple(path), (0, 0, 0)
        path.append((id(frame.f_code), frame.f_lasti))
        return tuple(path), _position(frame)

    def program_id(self, handle: Any, axis: int) -> Any:
        """A program id: the first root of everything."""
        site, place = self.site()
        site = (*site, (-1 - axis, 0))
        self._root(site, place, EMPTY, int(handle.data.reshape(-1)[0]))
        return self._mark(handle, frozenset({(site, int(handle.data.reshape(-1)[0]))}), frozenset({site}))

    def result(self, name: str, operands: list[Any], found: Any) -> Any:
        """An operation's result, with what it depends on; counted when it costs something."""
        key = frozenset().union(*(getattr(one, "_key", EMPTY) for one in operands)) if operands else EMPTY
        roots = frozenset().union(*(getattr(one, "_roots", EMPTY) for one in operands)) if operands else EMPTY
        base = next((one._base for one in operands if hasattr(one, "_base")), None) if name != "load" else None
        for handle in found if isinstance(found, tuple) else (found,):
            if not hasattr(handle, "data"):
                continue
            if base is not None:
                handle._base = base
            if roots and handle.data.size == 1 and handle.data.dtype.kind in "iub":
                self._scalar(name, handle, key, roots)
            else:
                self._mark(handle, key, roots)
        kind = kind_of(name, found)
        if kind is not None:
            self.count(kind, elements_of(name, operands, found), key, roots)
        return found

    def count(self, kind: str, elements: int, key: frozenset[Any], roots: frozenset[Site]) -> None:
        """Add work done at the present instruction."""
        site, place = self.site()
        entry = self.work.get((kind, site))
        if entry is None:
            entry = self.work[kind, site] = Work(kind=kind, line=place[0])
        entry.total += elements
        entry.roots |= roots
        nth = self._nth[kind, site]
        self._nth[kind, site] += 1
        whole = (kind, site, nth, key)
        if whole not in self._seen:
            self._seen.add(whole)
            entry.distinct += elements
        for axis in range(3):
            others = (*self.program[:axis], *self.program[axis + 1 :])
            along = (axis, others, whole)
            if along not in self._seen:
                self._seen.add(along)
                entry.without_axis[axis] += elements

    def access(self, into: list[Any], pointers: Any, mask: Any, width: int) -> Any:
        """Remember which addresses one program touches; the mask without what lies outside the operand is returned."""
        import numpy as np

        addresses, wanted = np.broadcast_arrays(pointers.data, np.asarray(mask).astype(bool))
        base = self.base_of(pointers)
        inside = wanted
        if base in self.ranges:
            # numpy compares uint64 with uint64 only: a signed bound would go through float64.
            low, high = np.uint64(base), np.uint64(self.ranges[base])
            inside = wanted & (addresses.astype(np.uint64) >= low) & (addresses.astype(np.uint64) < high)
        kept = addresses[inside].reshape(-1).astype(np.uint64)
        _, place = self.site()
        access = Access(
            line=place[0], addresses=kept, bytes_each=width, roots=getattr(pointers, "_roots", EMPTY), base=base,
            outside=int(wanted.sum() - inside.sum()),
        )  # fmt: skip
        into.append((self.program, access))
        return inside

    def base_of(self, pointers: Any) -> int:
        """First address of the operand that a pointer was made from; -1 when that cannot be told."""
        base = getattr(pointers, "_base", None)
        if base is not None:
            return int(base)
        first = int(pointers.data.reshape(-1)[0]) if pointers.data.size else -1
        return next((low for low, high in self.ranges.items() if low <= first < high), -1)

    def _scalar(self, name: str, handle: Any, key: frozenset[Any], roots: frozenset[Site]) -> None:
        site, place = self.site()
        value = int(handle.data.reshape(-1)[0])
        if name in SPLITS and handle.data.dtype.kind != "b":
            self._root(site, place, roots, value)
            roots = frozenset({site})
        self._mark(handle, frozenset({(site, value)}), roots)

    def _root(self, site: Site, place: tuple[int, int, int], parents: frozenset[Site], value: int) -> None:
        root = self.roots.get(site)
        if root is None:
            root = self.roots[site] = Root(site=site, place=place, parents=parents)
        root.values.add(value)

    @staticmethod
    def _mark(handle: Any, key: frozenset[Any], roots: frozenset[Site]) -> Any:
        handle._key = key
        handle._roots = roots
        return handle


def kind_of(name: str, found: Any) -> str | None:
    """Which resource an operation costs: transcendental, division, flop, reduction, dot; None for none that counts."""
    if name in TRANSCENDENTALS:
        return name.removeprefix("precise_")
    if name in DIVISIONS:
        return "divide"
    if name in FLOPS:
        return "flop"
    return {"dot": "dot flop", "dot_scaled": "dot flop", "reduce": "reduce", "scan": "reduce"}.get(name)


def elements_of(name: str, operands: list[Any], found: Any) -> int:
    """Elements (a dot: two per multiply-add, a reduction: its inputs) of an operation."""
    if name == "dot":
        return int(2 * operands[0].data.shape[-1] * found.data.size)
    if name in ("reduce", "scan"):
        return int(operands[0].data.size)
    handle = found[0] if isinstance(found, tuple) else found
    return int(handle.data.size) * (2 if name == "fma" else 1)


def _position(frame: Any) -> tuple[int, int, int]:
    for index, place in enumerate(frame.f_code.co_positions()):
        if index == frame.f_lasti // 2:
            line, _, column, end = place
            return (line or frame.f_lineno, column or 0, end or 0)
    return (frame.f_lineno, 0, 0)


Wrapped = Callable[..., Any]


def install(module: Any, current: Callable[[], Tracker | None]) -> None:
    """Wrap the interpreter's builder once; `current` gives the tracker of the launch that runs, or None."""
    builder = module.InterpreterBuilder
    if getattr(builder, "is_tracked", False):
        return
    special = ("create_load", "create_store", "create_masked_load", "create_masked_store", "create_get_program_id",
               "create_atomic_rmw", "create_atomic_cas", "create_print", "create_assert", "create_assume",
               "create_barrier", "create_make_block_ptr", "create_advance", "create_make_tensor_descriptor",
               "create_tensor_pointer_load", "create_tensor_pointer_store", "create_descriptor_load",
               "create_descriptor_store")  # fmt: skip
    for name in dir(builder):
        if name.startswith("create_") and name not in special:
            setattr(builder, name, _operation(name.removeprefix("create_"), getattr(builder, name), current))
    builder.create_get_program_id = _program_id(builder.create_get_program_id, current)
    builder.create_masked_load = _load(builder.create_masked_load, current)
    builder.create_masked_store = _store(builder.create_masked_store, current)
    builder.create_atomic_rmw = _atomic(builder.create_atomic_rmw, current, pointer_at=1, value_at=2, mask_at=3)
    builder.create_atomic_cas = _atomic(builder.create_atomic_cas, current, pointer_at=0, value_at=2, mask_at=None)
    builder.create_make_block_ptr = _block_pointer(builder.create_make_block_ptr)
    _wrap_materialise(module)
    _wrap_transpose(module)
    for kind, owner in (("reduce", module.ReduceOps), ("scan", module.ScanOps)):
        owner.apply_impl = _reduction(kind, owner.apply_impl, current)
    module.GridExecutor.is_tracked = builder.is_tracked = True


def _operation(name: str, operation: Wrapped, current: Callable[[], Tracker | None]) -> Wrapped:
    def run(self: Any, *args: Any, **named: Any) -> Any:
        found = operation(self, *args, **named)
        tracker = current()
        if tracker is None or found is None:
            return found
        operands = [one for one in (*args, *named.values()) if hasattr(one, "data") and hasattr(one, "dtype")]
        return tracker.result(name, operands, found)

    return run


def _program_id(operation: Wrapped, current: Callable[[], Tracker | None]) -> Wrapped:
    def run(self: Any, axis: int) -> Any:
        found = operation(self, axis)
        tracker = current()
        return found if tracker is None else tracker.program_id(found, axis)

    return run


def _load(operation: Wrapped, current: Callable[[], Tracker | None]) -> Wrapped:
    def run(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        tracker = current()
        if tracker is None:
            return operation(self, ptrs, mask, other, *rest, **named)
        width = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
        inside = Mask(tracker.access(tracker.loads, ptrs, mask_data(mask), width))
        found = operation(self, ptrs, inside, other, *rest, **named)
        return tracker.result("load", [one for one in (ptrs, mask, other) if hasattr(one, "_key")], found)

    return run


def _store(operation: Wrapped, current: Callable[[], Tracker | None]) -> Wrapped:
    def run(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        tracker = current()
        if tracker is None:
            return operation(self, ptrs, value, mask, *rest, **named)
        inside = tracker.access(tracker.stores, ptrs, mask_data(mask), value.data.itemsize)
        return operation(self, ptrs, value, Mask(inside), *rest, **named)

    return run


def _atomic(
    operation: Wrapped, current: Callable[[], Tracker | None], *, pointer_at: int, value_at: int, mask_at: int | None
) -> Wrapped:
    def run(self: Any, *args: Any) -> Any:
        import numpy as np

        tracker = current()
        if tracker is None:
            return operation(self, *args)
        pointers = args[pointer_at]
        mask = mask_data(args[mask_at]) if mask_at is not None else np.ones_like(pointers.data, dtype=bool)
        tracker.access(tracker.atomics, pointers, mask, args[value_at].data.itemsize)
        return tracker.result("atomic", [pointers, args[value_at]], operation(self, *args))

    return run


def _reduction(name: str, operation: Wrapped, current: Callable[[], Tracker | None]) -> Wrapped:
    def run(self: Any, operands: Any) -> Any:
        found = operation(self, operands)
        tracker = current()
        if tracker is None:
            return found
        results = found if isinstance(found, list | tuple) else [found]
        tracker.result(name, [one.handle for one in operands], tuple(one.handle for one in results))
        return found

    return run


def _block_pointer(operation: Wrapped) -> Wrapped:
    def run(self: Any, *args: Any) -> Any:
        found = operation(self, *args)
        # The interpreter clones offsets into new handles: what they depend on goes along.
        for fresh, given in zip(found.offsets, args[3], strict=True):
            fresh._key, fresh._roots = getattr(given, "_key", EMPTY), getattr(given, "_roots", EMPTY)
        return found

    return run


def _wrap_materialise(module: Any) -> None:
    for owner in (module.BlockPointerHandle, module.TensorDescHandle):
        original = owner.materialize_pointers

        def run(self: Any, given: Any, original: Wrapped = original) -> Any:
            found = original(self, given)
            offsets = [one for one in (*getattr(self, "offsets", ()), *given) if hasattr(one, "data")]
            parts = [self.base, *offsets]
            found[0]._key = frozenset().union(*(getattr(one, "_key", EMPTY) for one in parts))
            values = frozenset((("offset", i), int(one.data.reshape(-1)[0])) for i, one in enumerate(offsets))
            found[0]._key |= values
            found[0]._base = getattr(self.base, "_base", int(self.base.data.reshape(-1)[0]))
            found[0]._roots = frozenset().union(*(getattr(one, "_roots", EMPTY) for one in parts))
            return found

        owner.materialize_pointers = run


def _wrap_transpose(module: Any) -> None:
    original = module._patch_lang_tensor

    def patch(tensor: Any, *scope: Any) -> None:
        original(tensor, *scope)
        plain = tensor.T.fget

        def transposed(self: Any) -> Any:
            found = plain(self)
            for name in ("_key", "_roots", "_base"):
                if hasattr(self.handle, name):
                    setattr(found.handle, name, getattr(self.handle, name))
            return found

        if scope:
            scope[0].set_attr(tensor, "T", property(transposed))
        else:
            tensor.T = property(transposed)

    module._patch_lang_tensor = patch


class Mask:
    """What the interpreter wants of a mask: its data."""

    def __init__(self, data: Any) -> None:
        self.data = data


def mask_data(mask: Any) -> Any:
    """The mask as an array; the interpreter passes a handle, or an array for block pointers."""
    return mask.data if hasattr(mask, "get_element_ty") or isinstance(mask, Mask) else mask
