"""`python -m probes.numeric.operators`: how strong is the oracle, and which tolerances that people use are weak?

For every operator: the kill rate of the derived tolerance on the cases that a candidate would get, and of a list of
fixed tolerances. A weak one is reported; none of them is ever used by the judge.

Exit codes: 0 the derived tolerance is strong everywhere · 1 it is not · 2 usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from probes.clean import clean, one_line, to_json
from probes.numeric.judge.plan import cases
from probes.numeric.judge.spec import Spec
from probes.numeric.operators.specs import OPERATORS
from probes.numeric.tolerance.expected import Function, Reference
from probes.numeric.tolerance.rules import CloseRule, CosineRule, DerivedRule, FrobeniusRule, Rule
from probes.numeric.tolerance.strength import Strength, Trials

FIXED: tuple[Rule, ...] = (
    CloseRule(rtol=1e-2, atol=1e-2),
    CloseRule(rtol=1e-3, atol=1e-3),
    CloseRule(rtol=1e-3, atol=1e-5),
    FrobeniusRule(most=1e-2),
    FrobeniusRule(most=8e-3),
    CosineRule(least=0.99),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operator: the derived rule, and the fixed ones."""

    operator: str
    cases: int
    derived: Strength
    fixed: tuple[Strength, ...]

    @property
    def weak(self) -> list[Strength]:
        """Fixed tolerances that let broken outputs through or refuse honest ones."""
        return [each for each in self.fixed if not each.sufficient]


def weigh(spec: Spec, function: Function, seed: int, fixed: Sequence[Rule] = FIXED) -> Row:
    """All rules on one operator's cases."""
    reference = Reference(function, spec)
    plan = cases(spec, reference, np.random.default_rng(seed))
    trials = Trials(reference=reference, spec=spec, trials=[case.trial for case in plan])
    return Row(
        operator=spec.name, cases=len(plan), derived=trials.weigh(DerivedRule()),
        fixed=tuple(trials.weigh(rule) for rule in fixed),
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    options = _parser().parse_args(argv)
    known = {spec.name: (spec, function) for spec, function in OPERATORS}
    unknown = [name for name in options.operators if name not in known]
    if unknown:
        sys.stderr.write(f"error: no operator {one_line(', '.join(unknown))}; there are {', '.join(known)}\n")
        return 2
    rows = []
    for name in options.operators or known:
        row = weigh(*known[name], options.seed)
        rows.append(row)
        if not options.json:
            sys.stdout.write(clean("\n".join(_lines(row))) + "\n")
            sys.stdout.flush()
    weak = sum(len(row.weak) for row in rows)
    strong = all(row.derived.sufficient for row in rows)
    if options.json:
        sys.stdout.write(to_json({"operators": [_document(row) for row in rows]}) + "\n")
    else:
        text = f"{len(rows)} operators, {weak} of {len(rows) * len(FIXED)} fixed tolerances weak, none of them used"
        sys.stdout.write(clean(f"{text}; derived: {'strong everywhere' if strong else 'weak somewhere'}") + "\n")
    return 0 if strong else 1


def _lines(row: Row) -> Iterator[str]:
    derived = row.derived
    text = f"{row.operator:18}{derived.caught:4}/{derived.made:<4}{derived.rate:5.2f}"
    yield text + ("" if derived.sufficient else f"   WEAK: {derived.sentence()}")
    for each in row.weak:
        why = f"lets through {', '.join(each.survivors[:3])}" if each.survivors else ""
        more = f" and {len(each.survivors) - 3} more" if len(each.survivors) > 3 else ""
        honest = f"refuses {len(each.refused_honest)} of {each.honest} honest" if each.refused_honest else ""
        yield f"    weak: {each.rule:34}{each.rate:5.2f}  {'; '.join(part for part in (why + more, honest) if part)}"


def _document(row: Row) -> dict[str, object]:
    return {
        "operator": row.operator,
        "cases": row.cases,
        "kill_rate": row.derived.rate,
        "derived": asdict(row.derived),
        "weak": [asdict(each) | {"rate": each.rate} for each in row.weak],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m probes.numeric.operators", description="Mutation test of the oracle on known operators"
    )
    parser.add_argument("operators", nargs="*", help="names; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return parser


if __name__ == "__main__":
    sys.exit(main())
