"""Plain search over the allowed space: random sampling, then successive halving on repeated launches.

The honest comparator of every run, and a brain of its own. It looks at nothing but the screened figures.
Source of the method: Jamieson and Talwalkar 2016 (successive halving); here the budget of a rung is launches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np

from infra_agent.agent.actions import (
    Action,
    ConcludeAction,
    MeasureAction,
    ParameterChange,
    ProposeAction,
    ProveAction,
)
from infra_agent.agent.brains.spending import launches_fit
from infra_agent.agent.dossier import CandidateView, Dossier
from infra_agent.agent.levers import skip_all
from infra_agent.stack.model import ParameterValue

SAMPLING_SHARE = 0.7
"""Share of the screening time spent on new configurations; the rest re-measures the better half."""
MAX_DRAWS = 1000

Config = tuple[tuple[str, ParameterValue], ...]


class SearchBrain:
    """Deterministic for a given seed: draw number n is always the same configuration."""

    name = "search"

    def __init__(self, screen_s: float | None = None, judges: bool = True) -> None:
        self._screen_s = screen_s
        self._judges = judges

    def next(self, dossier: Dossier) -> Action:
        """Sample while time allows, re-measure the better half, then prove the best."""
        if not dossier.measured:
            return MeasureAction(probe=dossier.figure_probe, target="stock")
        screen_s = self._screen_s if self._screen_s is not None else (dossier.budget_s - dossier.reserve_s) / 2
        spent_s = sum(candidate.cost_s for candidate in dossier.candidates)
        fits = launches_fit(dossier, 2)
        fresh = self._draw(dossier) if fits and spent_s < SAMPLING_SHARE * screen_s else None
        if fresh is not None:
            changes = tuple(ParameterChange(parameter=name, value=value) for name, value in fresh)
            return ProposeAction(hypothesis="", changes=changes, base="stock")
        again = _next_to_remeasure(dossier.candidates) if fits and spent_s < screen_s else None
        if again is not None:
            return MeasureAction(probe=dossier.figure_probe, target=again.id)
        return _finish(dossier, self._judges)

    def _draw(self, dossier: Dossier) -> Config | None:
        """The next configuration that was not tried yet; None when the space is exhausted."""
        options = {
            name: [value for value in values if value != dossier.stock_settings.get(name)]
            for name, values in sorted(dossier.space.items())
        }
        total = math.prod(len(values) + 1 for values in options.values()) - 1
        tried = {tuple(sorted(candidate.changes.items())) for candidate in dossier.candidates}
        if len(tried) >= total:
            return None
        rng = np.random.default_rng([dossier.seed, 1])
        for _ in range(MAX_DRAWS):
            config = _sample(rng, options)
            if config and config not in tried:
                return config
        return next((config for config in _all(options) if config and config not in tried), None)


def _sample(rng: np.random.Generator, options: Mapping[str, list[ParameterValue]]) -> Config:
    chosen = []
    for name, values in options.items():
        index = int(rng.integers(len(values) + 1))
        if index:
            chosen.append((name, values[index - 1]))
    return tuple(chosen)


def _all(options: Mapping[str, list[ParameterValue]]) -> itertools.chain[Config]:
    names = list(options)
    grids = itertools.product(*([None, *values] for values in options.values()))
    configs = (tuple((n, v) for n, v in zip(names, grid, strict=True) if v is not None) for grid in grids)
    return itertools.chain(configs)


def _ranked(candidates: tuple[CandidateView, ...]) -> list[CandidateView]:
    alive = [c for c in candidates if c.screen_ratio is not None and c.status in ("screened", "rejected")]
    return sorted(alive, key=lambda c: c.screen_ratio or 0.0, reverse=True)


def _next_to_remeasure(candidates: tuple[CandidateView, ...]) -> CandidateView | None:
    """Halving: rung r measures the best 1/2^r of the first sample once more."""
    ranked = [c for c in _ranked(candidates) if c.screen == "promote"]
    for rung in itertools.count(1):
        keep = len(ranked) >> rung
        if keep < 1:
            return None
        behind = [c for c in ranked[:keep] if c.measurements <= rung]
        if behind:
            return behind[0]
    return None


def _finish(dossier: Dossier, judges: bool) -> Action:
    ranked = _ranked(dossier.candidates)
    left = skip_all(dossier, "the search drew no configuration of it")
    if not judges:
        return ConcludeAction(reason="the screening time is used up or the space exhausted", skipped=left)
    if any(c.status in ("accepted", "proved", "inconclusive", "waiting", "approved") for c in dossier.candidates):
        return ConcludeAction(reason="the search's best configuration was judged", skipped=left)
    if ranked and ranked[0].screen == "promote" and ranked[0].status == "screened":
        return ProveAction(candidate=ranked[0].id)
    return ConcludeAction(reason="the search found nothing that screens better than stock", skipped=left)
