"""The Dossier: all that a brain sees before it decides. Built from the run's state, the same for every brain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from infra_agent.goal.model import Goal
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.model import ParameterValue


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisView:
    """A hypothesis and how it ended so far: `open`, `supported` or `refuted`."""

    id: str
    family: str
    cause: str
    source: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """The code that may be changed. `files` are paths as a diff names them, at most 200 of `total`.

    `closed`: why code cannot be changed in this run; empty when it can.
    """

    closed: str = "the goal's scope allows no code changes"
    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateView:
    """A candidate as the brain sees it. `ratio` values are None until measured."""

    id: str
    hypothesis: str
    family: str
    base: str
    changes: Mapping[str, ParameterValue]
    risk: str
    status: str
    """proposed, screened, accepted, rejected, inconclusive, invalid, or proved (on a base that is no longer the best);
    a gated one waiting, approved, rejected_by_person or changes_requested."""
    reason: str
    screen: str | None
    """promote, reject or unclear."""
    screen_ratio: float | None
    """Geometric mean over its screening launches."""
    measurements: int
    """Screening launches so far."""
    proved_ratio: float | None
    cost_s: float
    patched: tuple[str, ...] = ()
    """Files that its own diff changes."""


class ProbeView(NamedTuple):
    """A local probe, and the configurations that it has looked at."""

    name: str
    rung: str
    looked_at: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalView:
    """A change that a transform proposes. `digest` names its diff. Ranges are None where it predicts nothing."""

    transform: str
    digest: str
    diff: str
    claim: str
    place: str
    refuted_by: str
    low: float | None
    high: float | None


class PersonSaid(NamedTuple):
    """What a person decided against, or wants changed, and why."""

    candidate: str
    decision: Literal["reject", "request_changes"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """Facts only, in a fixed order. `signals` merge the newest valid observations of the best configuration."""

    goal: Goal
    concurrency: int
    parameters: tuple[Parameter, ...]
    stock_settings: Mapping[str, ParameterValue]
    best: str
    best_settings: Mapping[str, ParameterValue]
    space: Mapping[str, tuple[ParameterValue, ...]]
    signals: Mapping[str, float | str | bool]
    measured: bool
    noise_sd_log: float
    """Standard deviation of the log of one launch's figure, measured or assumed."""
    goal_reached: bool
    """Whether the accepted best already reaches the target by its proved estimate."""
    hypotheses: tuple[HypothesisView, ...]
    candidates: tuple[CandidateView, ...]
    refusals: tuple[str, ...]
    elapsed_s: float
    budget_s: float
    reserve_s: float
    """Budget kept back for the honesty row, the final relaunch and the report."""
    block_s: float
    """Wall time of one block as measured (or estimated) so far."""
    climb_s: float
    """Wall time of one candidate's climb to the screen as measured so far."""
    seed: int
    lane: str
    turn: int
    """Actions asked for so far in this lane."""
    launches_left: float | None = None
    """Engine starts left under the ceiling beside those that are kept back (`view.launches_left`); None: any number."""
    rejected_by_person: tuple[PersonSaid, ...] = ()
    """Proved changes that a person did not want, with the person's words."""
    code: CodeView = CodeView()
    figure_probe: str = "load"
    """The probe that measures the goal's metric on this stack."""
    probes: tuple[ProbeView, ...] = ()
    """Local probes that may be asked for by name."""
    transforms: tuple[str, ...] = ()
    """Transforms that may be asked for, as the probe `transform:NAME`."""
    transformed: tuple[str, ...] = ()
    """Transforms that have looked at the best configuration."""
    proposals: tuple[ProposalView, ...] = ()
    """What transforms propose for the best configuration."""
    refused_hypotheses: tuple[str, ...] = ()
    """Hypotheses whose candidate was refused: proposing it again would be refused again."""
