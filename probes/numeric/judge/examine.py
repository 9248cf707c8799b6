"""The examination of one candidate, from an empty directory to a verdict.

    result = Examination(spec, reference, source, runner=runner, python=python).run()

The seed is drawn after the candidate was loaded. The oracle is tested with broken outputs on exactly the cases that the
candidate gets; one that lets too many through says `weak` and nothing else.

Covered: order and meaning of all steps; every fault becomes a `Fault`, never an exit code or a printed word.
Not covered: turning the result into an observation (`observe`), remembering it (`cache`).
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from probes.numeric.inputs.shrink import shrink
from probes.numeric.judge.exchange import poison
from probes.numeric.judge.faults import CandidateFailure, Fault, Kind
from probes.numeric.judge.plan import Case, cases, make_trial, one_case
from probes.numeric.judge.process import CandidateProcess
from probes.numeric.judge.runner import Runner
from probes.numeric.judge.session import Called, Session, values_of
from probes.numeric.judge.source import Source
from probes.numeric.judge.spec import Sizes, Spec
from probes.numeric.precision import FORMATS, Array, is_float, ulp_distance
from probes.numeric.tolerance.derive import Derivation, allowed, derivation
from probes.numeric.tolerance.expected import Expected, Reference
from probes.numeric.tolerance.rules import CloseRule, DerivedRule, Difference, Rule
from probes.numeric.tolerance.strength import Strength, Trials

DELAY_S = 0.3
PAIRS = 6
_CLEARLY = 2.0
_FAULTS = {"nan": Kind.NAN, "infinity": Kind.INFINITY, "value": Kind.VALUE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The error of one tensor, relative to its size, and what was allowed there."""

    relative: float
    allowed: float
    case: str

    @property
    def share(self) -> float:
        """How much of what is allowed was used."""
        return self.relative / self.allowed


@dataclass(slots=True, kw_only=True)
class Result:
    """What an examination found. `strengths`: one per rule, the derived rule first."""

    fault: Fault | None = None
    strengths: tuple[Strength, ...] = ()
    derivations: tuple[Derivation, ...] = ()
    seed: int = 0
    calls: list[float] = field(default_factory=list)
    round_trip_s: float = 0.0
    worst: Worst = field(default_factory=lambda: Worst(relative=0.0, allowed=1.0, case=""))
    worst_ulp: float = 0.0
    cases: int = 0
    held_out: bool = False
    engaged: bool | None = None
    failing: Case | None = None
    shrunk: str = ""
    wall_s: float = 0.0

    @property
    def weak(self) -> Strength | None:
        """The first rule that is too weak, or that refuses honest outputs."""
        return next((each for each in self.strengths if not each.sufficient), None)


@dataclass(slots=True, kw_only=True)
class Examination:
    """One candidate against one reference. `hidden`: files that its process must never see."""

    spec: Spec
    reference: Reference
    source: Source
    runner: Runner
    python: str
    hidden: Sequence[Path] = ()
    draw_seed: Callable[[], int] = lambda: secrets.randbits(63)
    shrink: bool = True
    result: Result = field(default_factory=Result)

    def run(self) -> Result:
        """Everything. JudgeFailure and ReferenceFailure when the judge itself cannot work."""
        began = time.monotonic()
        with self._session() as session:
            fault = self._loads(session)
            plan = self._plan()
            if self.result.weak is None:
                fault = fault or self._judged(session, plan)
                if fault is None and self.spec.call.kernel is not None:
                    fault = self._engaged(plan[0])
        self.result.fault = fault
        self.result.wall_s = time.monotonic() - began
        return self.result

    def _plan(self) -> list[Case]:
        """Cases for a seed that nobody knew before, and the strength of the rules on them."""
        self.result.seed = self.draw_seed()
        plan = cases(self.spec, self.reference, np.random.default_rng(self.result.seed))
        trials = Trials(reference=self.reference, spec=self.spec, trials=[case.trial for case in plan])
        self.result.strengths = tuple(trials.weigh(rule) for rule in self._rules)
        floats = [each for each in plan[0].trial.expected if is_float(each.spec.dtype)]
        self.result.derivations = tuple(derivation(each) for each in floats)
        self.result.cases = len(plan)
        self.result.held_out = bool(self.spec.held_out) or self.spec.fixed_sizes
        return plan

    @property
    def _rules(self) -> tuple[Rule, ...]:
        fixed = self.spec.tolerance
        return (DerivedRule(),) if fixed is None else (DerivedRule(), CloseRule(rtol=fixed.rtol, atol=fixed.atol))

    def _loads(self, session: Session) -> Fault | None:
        try:
            session.load()
            return None
        except CandidateFailure as failure:
            return failure.fault

    def _judged(self, session: Session, plan: Sequence[Case]) -> Fault | None:
        try:
            self.result.round_trip_s = min(session.round_trip_s() for _ in range(3))
            deadline = time.monotonic() + self.spec.limits.total_s
            for case in plan:
                self._case(session, case)
                if time.monotonic() > deadline:
                    raise CandidateFailure(
                        Fault(kind=Kind.HANG, message=f"all calls together took more than {self.spec.limits.total_s} s")
                    )
            session.finish(DELAY_S)
            self._pairs(session)
            session.check_state()
        except CandidateFailure as failure:
            return failure.fault
        return None

    def _case(self, session: Session, case: Case) -> Called:
        """One call, compared. A wrong output is looked at again: one that became right was written late."""
        try:
            called = session.call(case.slot, case.trial.sizes, case.trial.inputs)
            self.result.calls.append(called.seconds)
            found = self._difference(case, called)
            if found is not None:
                self._wrong(session, case, called, found)
        except CandidateFailure as failure:
            self.result.failing = case
            raise CandidateFailure(replace(failure.fault, case=case.trial.name)) from failure
        return called

    def _difference(self, case: Case, called: Called) -> Difference | None:
        for each, got in zip(case.trial.expected, values_of(called, self.spec), strict=True):
            for rule in self._rules:
                found = rule.refuse(each, got)
                if found is not None:
                    return found
            self._note(each, got, case.trial.name)
        return None

    def _note(self, expected: Expected, got: Array, name: str) -> None:
        """Keep the error that came closest to what is allowed."""
        if not is_float(expected.spec.dtype):
            return
        error = float(np.linalg.norm(np.where(expected.fit, got - expected.exact, 0.0)))
        size = float(np.linalg.norm(expected.exact[expected.fit]))
        if size > FORMATS[expected.spec.dtype].smallest_normal * 2**20:
            worst = Worst(relative=error / size, allowed=allowed(expected).tensor_norm / size, case=name)
            self.result.worst = max(self.result.worst, worst, key=lambda each: each.share)
            ulps = np.where(expected.fit, ulp_distance(got, expected.exact, expected.spec.dtype), 0.0)
            self.result.worst_ulp = max(self.result.worst_ulp, float(ulps.max(initial=0.0)))

    def _wrong(self, session: Session, case: Case, called: Called, found: Difference) -> None:
        untouched = self._unwritten(called, found)
        time.sleep(DELAY_S)
        later = session.second_look(called)
        changed = any(a.tobytes() != b.tobytes() for a, b in zip(later, called.outputs, strict=True))
        kind = Kind.LATE_WRITE if changed else Kind.UNWRITTEN if untouched else _FAULTS[found.fault]
        text = f"{found}; shape {called.outputs[0].shape}" if not changed else "its output was not there at its return"
        if not changed and self.shrink:
            self._shrink(session, case)
        raise CandidateFailure(
            Fault(
                kind=kind, message=text, output=found.output, index=found.index, got=f"{found.got:.9g}",
                expected=f"{found.expected:.9g}",
            )
        )  # fmt: skip

    def _unwritten(self, called: Called, found: Difference) -> bool:
        at = next(n for n, result in enumerate(self.spec.outputs) if result.name == found.output)
        raw, dtype = called.outputs[at], self.spec.outputs[at].dtype
        if dtype == "bool":
            return False
        return bool(raw[found.index].tobytes() == poison(raw.shape, dtype)[found.index].tobytes())

    def _shrink(self, session: Session, case: Case) -> None:
        def fails(inputs: tuple[Array, ...], sizes: Sizes, slot: str) -> bool:
            rng = np.random.default_rng(0)
            small = Case(slot=slot, trial=make_trial(self.spec, self.reference, sizes, "small", inputs, rng))
            return self._difference(small, session.call(slot, sizes, inputs)) is not None

        self.result.shrunk = shrink(self.spec, case.trial, fails)

    def _pairs(self, session: Session) -> None:
        """Fresh content, then the same content again. What comes back much faster, or spoiled, was remembered."""
        fresh, repeated = [], []
        rng = np.random.default_rng(self.draw_seed())
        for _ in range(PAIRS):
            case = one_case(self.spec, self.reference, "fixed0", self.spec.sizes[0], rng)
            first = self._case(session, case)
            session.scribble(first)
            second = session.call(case.slot, case.trial.sizes, case.trial.inputs)
            if self._difference(case, second) is not None:
                text = "the second of two equal calls gave back the array of the first, which its caller had changed"
                raise CandidateFailure(Fault(kind=Kind.REPLAY, message=text, case=case.trial.name))
            fresh.append(first.seconds)
            repeated.append(second.seconds)
        faster = min(fresh) / max(repeated)
        if faster > _CLEARLY and min(fresh) - max(repeated) > 5e-4:
            text = f"equal content comes back {faster:.1f} times as fast as fresh content, in {PAIRS} of {PAIRS} pairs"
            raise CandidateFailure(Fault(kind=Kind.REPLAY, message=text))

    def _engaged(self, case: Case) -> Fault | None:
        """Two more processes: one counts the kernel's calls that end well, in the other the kernel does nothing."""
        kernel = str(self.spec.call.kernel)
        try:
            with self._session() as session:
                session.load()
                session.ask("ghost", kernel=kernel, how="count")
                self._case(session, case)
                counted = session.ask("engaged")
            if not counted.get("completed") or counted.get("completed") != counted.get("calls"):
                text = (
                    f"{kernel} was called {counted.get('calls')} times and ended well {counted.get('completed')} times"
                )
                return Fault(kind=Kind.NOT_ENGAGED, message=text, case=case.trial.name)
            if self._same_without(kernel, case):
                text = f"the result is the same when {kernel} does nothing"
                return Fault(kind=Kind.NOT_ENGAGED, message=text, case=case.trial.name)
        except CandidateFailure as failure:
            return failure.fault
        self.result.engaged = True
        return None

    def _same_without(self, kernel: str, case: Case) -> bool:
        with self._session() as session:
            session.load()
            session.ask("ghost", kernel=kernel, how="nothing")
            try:
                called = session.call(case.slot, case.trial.sizes, case.trial.inputs)
            except CandidateFailure:
                return False
            return self._difference(case, called) is None

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """A process in fresh directories: what one wrote, no other can read."""
        with tempfile.TemporaryDirectory(prefix="numeric-") as name:
            base = Path(name).resolve()
            exchange = base / "exchange"
            exchange.mkdir()
            copy = self.source.stage(base)
            limits = self.spec.limits
            process = CandidateProcess(self.python, self.runner, exchange, limits.memory_bytes, self.spec.call.env)
            session = Session(process, self.spec, self.source, exchange, copy)
            try:
                process.start([copy], self.hidden, limits.load_s)
                yield session
            finally:
                process.stop()
                session.close()
