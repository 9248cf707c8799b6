"""Several claims in one run: p-values corrected by Holm, so that twenty useless candidates are no way to one success.

Covered: Holm's step-down over any family of p-values, and the families of a run: gains, and stalls.
Not covered: deciding (each candidate is judged alone, the winner again on fresh seeds); a brain that stops proposing
once it likes what it sees (the family is what was judged until then).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjusted:
    """A claim's p-value alone and among all of its family. `survives`: still below 5 %."""

    p: float
    p_adjusted: float
    family: int

    @property
    def survives(self) -> bool:
        """Whether the claim stands among the others."""
        return self.p_adjusted <= ALPHA


def holm(p_values: Mapping[str, float]) -> dict[str, Adjusted]:
    """Each claim with its adjusted p: the k-th smallest of m times m - k + 1, and never below a smaller one's."""
    if any(not 0.0 <= p <= 1.0 for p in p_values.values()):
        raise ValueError("a p-value lies between 0 and 1")
    family, highest = len(p_values), 0.0
    adjusted = {}
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (family - rank) * p))
        adjusted[name] = Adjusted(p=p, p_adjusted=highest, family=family)
    return adjusted
