"""A conversation with one candidate: its tensors, its calls, and what the judge saw with its own eyes.

Covered: content at the same and at new addresses, poison before and fingerprints after every call, inputs hashed before
and after, a second look at everything that was returned, the judge's own clock.
Not covered: whether values are right (`examine`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from probes.base import Json
from probes.numeric.judge.exchange import BadFile, Shared, poison, read_foreign
from probes.numeric.judge.faults import CandidateFailure, Fault, Kind
from probes.numeric.judge.process import CandidateProcess
from probes.numeric.judge.source import Source
from probes.numeric.judge.spec import Result, Sizes, Spec
from probes.numeric.precision import Array, read, stored

_PLAIN = {"numpy": "numpy.ndarray", "torch": "torch.Tensor"}
_BAD_FILE = {"missing": Kind.NO_OUTPUT, "shape": Kind.SHAPE, "dtype": Kind.DTYPE, "cut": Kind.NO_OUTPUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One call: the judge's time for it, and its outputs as stored bytes. `key` names it for the second look."""

    key: str
    slot: str
    seconds: float
    outputs: tuple[Array, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the outputs."""
        return _fingerprint(self.outputs)


@dataclass(slots=True, kw_only=True)
class _Slot:
    sizes: Sizes
    folder: Path
    inputs: list[Shared]
    outputs: list[Shared]
    last: Called | None = None


class Session:
    """Wraps a started process. Files lie below `directory`; `close` lets go of them."""

    def __init__(self, process: CandidateProcess, spec: Spec, source: Source, directory: Path, copy: Path) -> None:
        self._process, self._spec, self._source = process, spec, source
        self._directory, self._copy = directory, copy
        self._slots: dict[str, _Slot] = {}
        self._calls: list[Called] = []
        self._again = 0

    @property
    def by_return(self) -> bool:
        """Whether results come back as new arrays (else they are written into files that the judge made)."""
        return self._source.command is None and self._spec.call.style == "return"

    def load(self) -> None:
        """Import the candidate in its process."""
        source, call = self._source, self._spec.call
        file = None
        if source.file is not None and source.root is not None:
            file = str(self._copy / source.file.relative_to(source.root))
        try:
            reply = self._process.ask(
                "load", timeout_s=self._spec.limits.load_s, file=file, module=source.module, name=source.name,
                paths=[str(self._copy)], command=source.command, framework=call.framework, device=call.device,
                style=call.style, constants=self._spec.constants, memory_bytes=self._spec.limits.memory_bytes,
                inputs=[tensor.dtype for tensor in self._spec.inputs],
                outputs=[result.dtype for result in self._spec.outputs],
            )  # fmt: skip
        except CandidateFailure as failure:
            raise _renamed(failure, Kind.LOAD) from failure
        self._refuse_changes(reply)

    def close(self) -> None:
        """Let go of all files."""
        for slot in self._slots.values():
            for shared in (*slot.inputs, *slot.outputs):
                shared.close()

    def call(self, slot: str, sizes: Sizes, inputs: Sequence[Array]) -> Called:
        """Fresh content in a slot (mapped when it is new), one call, and everything checked that needs no values."""
        place = self._fill(slot, sizes, inputs)
        before = [shared.digest() for shared in place.inputs]
        key = f"{slot}-{len(self._calls)}"
        names = [str(shared.path.relative_to(self._directory)) for shared in place.outputs]
        began = time.perf_counter()
        reply = self._process.ask("call", timeout_s=self._spec.limits.call_s, slot=slot, key=key, outputs=names)
        seconds = time.perf_counter() - began
        for tensor, shared, digest in zip(self._spec.inputs, place.inputs, before, strict=True):
            if shared.digest() != digest:
                self._fail(Kind.INPUT_CHANGED, f"input {tensor.name} is not what it was before the call")
        if self._source.command is None:
            self._check_returned(reply.get("returned"), sizes)
        outputs = self._outputs(place)
        called = Called(key=key, slot=slot, seconds=seconds, outputs=outputs)
        place.last = called
        self._calls.append(called)
        return called

    def second_look(self, called: Called) -> tuple[Array, ...]:
        """The outputs of a call, read again now."""
        if not self.by_return:
            return self._outputs(self._slots[called.slot])
        self._again += 1
        sizes = self._slots[called.slot].sizes
        shared = self._shared(f"again{self._again}", "out", self._spec.outputs, sizes, None)
        names = [str(each.path.relative_to(self._directory)) for each in shared]
        self._process.ask("recheck", timeout_s=self._spec.limits.call_s, key=called.key, outputs=names)
        found = tuple(each.read() for each in shared)
        for each in shared:
            each.close()
            each.path.unlink(missing_ok=True)
        return found

    def finish(self, delay_s: float) -> None:
        """Look at everything again, after a delay: a late write, a result used again, a changed state."""
        time.sleep(delay_s)
        last = {slot.last.key for slot in self._slots.values() if slot.last is not None}
        for called in self._calls:
            if self.by_return or called.key in last:
                self._same(called, Kind.ALIASED if self.by_return else Kind.LATE_WRITE)
        self.check_state()

    def check_state(self) -> None:
        """Refuse a candidate that changed flags, functions or settings of its process."""
        self._refuse_changes(self._process.ask("state", timeout_s=self._spec.limits.call_s))

    def scribble(self, called: Called) -> None:
        """Overwrite the arrays that a call returned, and forget the call."""
        if self.by_return:
            self._process.ask("scribble", timeout_s=self._spec.limits.call_s, key=called.key)
            self._calls.remove(called)

    def ask(self, operation: str, **fields: Json) -> dict[str, Any]:
        """Something else of the worker's."""
        return self._process.ask(operation, timeout_s=self._spec.limits.call_s, **fields)

    def round_trip_s(self) -> float:
        """What asking costs without any work."""
        began = time.perf_counter()
        self.ask("nothing")
        return time.perf_counter() - began

    def _fill(self, slot: str, sizes: Sizes, inputs: Sequence[Array]) -> _Slot:
        values = [stored(value, tensor.dtype) for value, tensor in zip(inputs, self._spec.inputs, strict=True)]
        if slot not in self._slots:
            return self._map(slot, sizes, values)
        place = self._slots[slot]
        if place.last is not None and not self.by_return:
            self._same(place.last, Kind.LATE_WRITE)
        for shared, value in zip(place.inputs, values, strict=True):
            shared.write(value)
        # A command makes its own output files: there is none of the judge's to poison.
        for shared, result in zip(place.outputs, self._spec.outputs, strict=self._source.command is None):
            shared.write(poison(result.at(sizes), result.dtype))
        if self._source.command is not None:
            for path in (place.folder / "out").iterdir():
                path.unlink()
        return place

    def _map(self, slot: str, sizes: Sizes, values: Sequence[Array]) -> _Slot:
        inputs = self._shared(slot, "in", self._spec.inputs, sizes, values)
        made = self._source.command is not None
        outputs = self._shared(slot, "out", () if made else self._spec.outputs, sizes, None)
        self._slots[slot] = _Slot(sizes=sizes, folder=self._directory / slot, inputs=inputs, outputs=outputs)
        names = [[str(each.path.relative_to(self._directory)) for each in files] for files in (inputs, outputs)]
        self._process.ask("map", timeout_s=self._spec.limits.call_s, slot=slot, inputs=names[0], outputs=names[1])
        return self._slots[slot]

    def _shared(
        self, slot: str, part: str, tensors: Sequence[Any], sizes: Sizes, values: Sequence[Array] | None
    ) -> list[Shared]:
        folder = self._directory / slot / part
        folder.mkdir(parents=True, exist_ok=True)
        filled = values or [poison(tensor.at(sizes), tensor.dtype) for tensor in tensors]
        pairs = zip(tensors, filled, strict=True)
        return [Shared(folder / f"{tensor.name}.npy", value) for tensor, value in pairs]

    def _outputs(self, place: _Slot) -> tuple[Array, ...]:
        try:
            if self._source.command is None:
                return tuple(shared.read() for shared in place.outputs)
            out = place.folder / "out"
            return tuple(read_foreign(out / f"{r.name}.npy", r.at(place.sizes), r.dtype) for r in self._spec.outputs)
        except BadFile as error:
            self._fail(_BAD_FILE.get(error.what, Kind.TYPE), str(error))

    def _same(self, called: Called, kind: Kind) -> None:
        if _fingerprint(self.second_look(called)) != called.fingerprint:
            what = "a later call has overwritten what this one returned" if kind is Kind.ALIASED else "it changed later"
            self._fail(kind, f"the output of call {called.key} was read twice and differs: {what}")

    def _check_returned(self, returned: object, sizes: Sizes) -> None:
        """Exactly the arrays that were promised. Subclasses are refused: they can compute when they are looked at."""
        found = returned if isinstance(returned, list) else []
        if len(found) != len(self._spec.outputs):
            self._fail(Kind.COUNT, f"it gives {len(found)} outputs, expected {len(self._spec.outputs)}")
        for said, result in zip(found, self._spec.outputs, strict=True):
            self._check_one(said, result, sizes)

    def _check_one(self, said: dict[str, Any], result: Result, sizes: Sizes) -> None:
        name, plain = result.name, _PLAIN[self._spec.call.framework]
        if said.get("type") != plain:
            self._fail(Kind.TYPE, f"{name} is a {said.get('type')}, expected {plain}", output=name)
        shape = tuple(said.get("shape", ()))
        if shape != result.at(sizes):
            self._fail(Kind.SHAPE, f"{name} has the shape {shape}, expected {result.at(sizes)}", output=name)
        dtype = said.get("dtype")
        wanted = "uint16" if result.dtype == "bfloat16" and plain == "numpy.ndarray" else result.dtype
        if dtype != wanted:
            self._fail(Kind.DTYPE, f"{name} is {dtype}, expected {wanted}", output=name)
        device = self._spec.call.device.partition(":")[0]
        if said.get("device") != device:
            self._fail(Kind.DEVICE, f"{name} lies on {said.get('device')}, expected {device}", output=name)

    def _refuse_changes(self, reply: dict[str, Any]) -> None:
        changed = reply.get("state")
        if changed:
            self._fail(Kind.STATE_CHANGED, f"it changed {', '.join(map(str, changed[:5]))}")

    def _fail(self, kind: Kind, message: str, *, output: str = "") -> NoReturn:
        raise CandidateFailure(Fault(kind=kind, message=message, output=output, lines=self._process.last_lines()))


def values_of(called: Called, spec: Spec) -> tuple[Array, ...]:
    """A call's outputs as numbers."""
    return tuple(read(array, result.dtype) for array, result in zip(called.outputs, spec.outputs, strict=True))


def _fingerprint(outputs: Sequence[Array]) -> str:
    total = hashlib.sha256()
    for output in outputs:
        total.update(np.ascontiguousarray(output).tobytes())
    return total.hexdigest()


def _renamed(failure: CandidateFailure, kind: Kind) -> CandidateFailure:
    fault = failure.fault
    if fault.kind not in (Kind.CRASH,):
        return failure
    return CandidateFailure(
        Fault(kind=kind, message=fault.message, file=fault.file, line=fault.line, lines=fault.lines)
    )
