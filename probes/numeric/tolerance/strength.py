"""How strong is a rule on a given set of cases? Broken outputs that it must refuse, honest ones that it must accept.

A mutant counts as caught when one of the cases refuses it: a candidate has to pass them all, too.

Covered: the kill rate with the names of survivors; honest outputs that are refused.
Not covered: what is done about a weak rule (the judge answers `invalid`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from probes.numeric.judge.spec import Sizes, Spec
from probes.numeric.precision import Array
from probes.numeric.tolerance.expected import Expected, Reference
from probes.numeric.tolerance.mutants import mutants
from probes.numeric.tolerance.rules import Rule

NEEDED = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One set of inputs with everything that the reference says about it, and what an honest rewrite gives."""

    name: str
    sizes: Sizes
    inputs: tuple[Array, ...]
    expected: tuple[Expected, ...]
    rewrite: tuple[Array, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """What became of the mutants and of the honest outputs under one rule."""

    rule: str
    caught: int
    made: int
    survivors: tuple[str, ...]
    honest: int
    refused_honest: tuple[str, ...]

    @property
    def rate(self) -> float:
        """Mutants caught / made; 0 when none could be made."""
        return self.caught / self.made if self.made else 0.0

    @property
    def sufficient(self) -> bool:
        """Whether a `pass` under this rule means something."""
        return self.made > 0 and self.rate >= NEEDED and not self.refused_honest

    def sentence(self) -> str:
        """For people."""
        text = f"{self.caught} of {self.made} broken outputs refused ({self.rate:.2f})"
        text += f"; let through: {', '.join(self.survivors[:3])}" if self.survivors else ""
        text += f" and {len(self.survivors) - 3} more" if len(self.survivors) > 3 else ""
        refused = self.refused_honest
        return text + (f"; honest outputs refused: {len(refused)}, such as {refused[0]}" if refused else "")


@dataclass(slots=True)
class Trials:
    """Collects trials and weighs rules on them. Mutants are made once."""

    reference: Reference
    spec: Spec
    trials: list[Trial] = field(default_factory=list)

    def weigh(self, rule: Rule) -> Strength:
        """The rule's strength on all trials so far."""
        killed: dict[str, bool] = {}
        refused: list[str] = []
        for trial in self.trials:
            for mutant in mutants(self.reference, self.spec, trial.expected, trial.inputs, trial.sizes):
                if not killed.get(mutant.name):
                    killed[mutant.name] = _refuses(rule, trial.expected, mutant.outputs)
            for what, outputs in (("working precision", _working(trial)), ("rewrite", trial.rewrite)):
                if _refuses(rule, trial.expected, outputs):
                    refused.append(f"{what} at {trial.name}")
        return Strength(
            rule=rule.name,
            caught=sum(killed.values()),
            made=len(killed),
            survivors=tuple(name for name, dead in killed.items() if not dead),
            honest=2 * len(self.trials),
            refused_honest=tuple(refused),
        )


def _working(trial: Trial) -> tuple[Array, ...]:
    return tuple(each.working for each in trial.expected)


def _refuses(rule: Rule, expected: Sequence[Expected], outputs: Sequence[Array]) -> bool:
    return any(rule.refuse(each, output) is not None for each, output in zip(expected, outputs, strict=True))
