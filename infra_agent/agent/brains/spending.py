"""What a brain may still spend: is there room for another candidate, and is a proof worth its blocks?"""

from __future__ import annotations

from infra_agent.agent.dossier import CandidateView, Dossier
from infra_agent.judge.calibrate import block_sd_from_launches
from infra_agent.judge.decide import blocks_needed

SMALL_GAIN = 0.05
"""Once the goal is reached, gains below this are not pursued further in the run."""


def time_left_s(dossier: Dossier) -> float:
    """Budget left for tuning, after the reserve for honesty row, final relaunch and report."""
    return dossier.budget_s - dossier.elapsed_s - dossier.reserve_s


def room_for_candidate(dossier: Dossier) -> bool:
    """Whether one more climb fits, in time and launches."""
    return time_left_s(dossier) >= dossier.climb_s and launches_fit(dossier, 2)


def launches_fit(dossier: Dossier, count: int) -> bool:
    """Whether so many engine starts fit under the ceiling. A climb takes one, and one more of the honesty row's."""
    return dossier.launches_left is None or dossier.launches_left >= count


def worth_proving(candidate: CandidateView, dossier: Dossier) -> bool:
    """Whether the screened gain can be shown in the time left, and is large enough to matter."""
    if candidate.screen_ratio is None or candidate.screen_ratio <= 1:
        return False
    if dossier.goal_reached and candidate.screen_ratio < 1 + SMALL_GAIN:
        return False
    blocks = blocks_needed(candidate.screen_ratio, block_sd_from_launches(dossier.noise_sd_log))
    if blocks is None or not launches_fit(dossier, 2 * blocks):
        return False
    return blocks * dossier.block_s <= time_left_s(dossier)
