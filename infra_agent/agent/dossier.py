"""The Dossier: all that a brain sees before it decides. Built from the run's state, the same for every brain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from infra_agent.goal.model import Goal
from infra_agent.stack.engines.base import Parameter
from infra_agent.stack.model import ParameterValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionView:
    """A stated range of a ratio, and what was then measured (None: not yet)."""

    rung: str
    metric: str
    low: float
    high: float
    measured: float | None = None
    inside: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisView:
    """A hypothesis and how it ended so far: `open`, `supported` or `refuted`."""

    id: str
    family: str
    cause: str
    source: str
    status: str
    place: str = ""
    refuted_by: str = ""
    refuting_probe: str = ""
    predictions: tuple[PredictionView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """The code that may be changed. `files` are paths as a diff names them, at most 200 of `total`.

    `closed`: why code cannot be changed in this run; empty when it can.
    """

    closed: str = "the goal's scope allows no code changes"
    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    total: int = 0
    kernels: bool = False
    """Whether any of the files is a kernel's."""


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
class StackView:
    """What is tuned and with which work, in words."""

    name: str = ""
    engine: str = ""
    model: str = ""
    machine: str = ""
    workload: str = ""
    sources: tuple[str, ...] = ()
    """Names of the sources whose files may be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationView:
    """One probe's result. `figures` are its headline quantities, value and unit in words."""

    id: str
    rung: str
    probe: str
    candidate: str
    purpose: str
    verdict: str
    summary: str
    figures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyView:
    """A lever family: `tried`, `untried`, `skipped` with the brain's reason, or `closed` for this run with ours."""

    family: str
    group: str
    """parameter, environment, code, kernels or workload."""
    status: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingView:
    """Something that was asked for and shown. `text` is data from outside, empty when it is no longer carried along."""

    id: str
    turn: int
    source: str
    text: str
    lines: int
    total: int
    left_out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionView:
    """An action of this lane and how it ended."""

    turn: int
    action: str
    result: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookView:
    """A playbook whose symptom was observed."""

    name: str
    symptom: str
    families: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationView:
    """How the stated ranges fared on one rung."""

    rung: str
    scored: int
    inside: int
    mean_score: float


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
    noise_source: str = "assumed"
    mde_ratio: float | None = None
    """Smallest gain that `mde_blocks` blocks would show with power 0.8; None until noise is known."""
    mde_blocks: int = 0
    stack: StackView = StackView()
    observations: tuple[ObservationView, ...] = ()
    families: tuple[FamilyView, ...] = ()
    readings: tuple[ReadingView, ...] = ()
    actions: tuple[ActionView, ...] = ()
    playbooks: tuple[PlaybookView, ...] = ()
    calibration: tuple[CalibrationView, ...] = ()
    measurable: tuple[str, ...] = ()
    """What `measure` can run, by name."""
