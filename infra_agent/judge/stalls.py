"""Stalled runs: when their figures may be taken without the stall, and whether a candidate stalls more than its base.

A run has two figures: the plain one, and the one by a clock that stands still during a stall (`probes.load.robust`);
the *loss* is how far apart they are. A stall that strikes a run now and then says nothing about the change under test,
so the second figures are compared. What keeps a change from hiding its cost in stalls:

- stalls in more than a quarter of all runs, both arms together, are no exception: then the plain figures are compared;
- a candidate whose runs stall more often than its base's is rejected (one-sided exact test on the blocks in which one
  arm stalled and the other did not, p <= 2.5 %), and is not accepted while there is some sign of it (p <= 10 %);
- a gain that does not outweigh what the candidate's stalls cost beyond the base's, on average, is not accepted.

Which figures are compared depends on both arms alike, so that it favours none and the error rates hold.
Covered: one candidate, and many rows at once for simulation.
Not covered: runs that are slow from end to end: nothing inside them tells a stall from a slow launch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from infra_agent.judge.estimate import FloatArray
from infra_agent.judge.types import Guard

BoolArray = NDArray[np.bool_]

RARE_SHARE = 0.25
HARM_P = 0.025
DOUBT_P = 0.1
NAME = "stalls"


def rare(base_stalled: BoolArray, candidate_stalled: BoolArray) -> BoolArray:
    """Per row of (rows, blocks): whether so few runs stalled that a stall is an exception."""
    return np.asarray((base_stalled.mean(axis=1) + candidate_stalled.mean(axis=1)) / 2 <= RARE_SHARE)


def net_of_losses(gain_log: FloatArray, base_loss: FloatArray, candidate_loss: FloatArray) -> FloatArray:
    """Per row: the stall-free gain with what stalls took from each arm on average, in logs."""
    return np.asarray(gain_log + np.log(np.exp(-candidate_loss).mean(axis=1) / np.exp(-base_loss).mean(axis=1)))


def more_stalls_p(base_stalled: BoolArray, candidate_stalled: BoolArray) -> FloatArray:
    """One-sided exact p per row that the candidate does not stall more: a coin for each block where just one did."""
    only_candidate = (candidate_stalled & ~base_stalled).sum(axis=1)
    only_one = (candidate_stalled ^ base_stalled).sum(axis=1)
    return np.asarray(stats.binom.sf(only_candidate - 1, only_one, 0.5), dtype=np.float64)


def stall_guard(base_stalled: Sequence[bool], candidate_stalled: Sequence[bool]) -> Guard:
    """Whether the candidate stalls more, on the blocks measured so far."""
    n = len(candidate_stalled)
    p = float(more_stalls_p(_row(base_stalled), _row(candidate_stalled))[0])
    seen = f"stalled in {sum(candidate_stalled)} of {n} runs, the base in {sum(base_stalled)} (p {p:.3g})"
    if p <= HARM_P:
        return Guard(name=NAME, state="broken", reason=f"it stalls more: {seen}", cause="stalls", p=p)
    if p <= DOUBT_P:
        return Guard(name=NAME, state="open", reason=f"it may stall more: {seen}", cause="stalls", p=p)
    return Guard(name=NAME, state="holds", reason=f"no sign of more stalls: {seen}", cause="stalls", p=p)


def _row(stalled: Sequence[bool]) -> BoolArray:
    return np.asarray(stalled, dtype=np.bool_)[None, :]
