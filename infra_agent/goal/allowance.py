"""Constraints against what a metric was before the change: "with TTFT within 5 %".

Covered: the ratio that a share allows, on the side on which the metric gets worse; shares that make no sense.
Not covered: levels (`build`), and judging whether the ratio holds (`judge.evidence`).
"""

from __future__ import annotations

from fractions import Fraction

from infra_agent.goal.model import HIGHER_IS_BETTER, Metric
from infra_agent.goal.phrases import Atom
from infra_agent.goal.targets import TargetProblem

RELATIVE = "rel"
"""Name of a target atom that is a share of what the metric was."""


def allowed_ratio(share: Atom, metric: Metric, words: str, *, in_slo: bool) -> Fraction:
    """The ratio to what it was before that a metric must keep. Raises TargetProblem."""
    higher = metric in HIGHER_IS_BETTER
    if share.prep in ({"up", "more"} if higher else {"down", "less"}):
        raise TargetProblem(f"contradiction: '{words}' limits {metric.value} from the wrong side")
    if in_slo:
        raise TargetProblem(f"constraint unclear: '{words}'; an SLO is a level that each request keeps")
    if not 0 < share.number < 1:
        raise TargetProblem(f"number out of range: '{share.text}' must lie between 0 and 100 %")
    return 1 - share.number if higher else 1 + share.number
