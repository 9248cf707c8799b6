"""The Report: one versioned document that JSON, HTML and the terminal's end card are all made from.

Covered: every key of report.json, its type, and what may be absent; the rows stand in rows.py.
Not covered: how the values are derived (build.py and its sections), and how they look (html.py, text.py).
"""

from __future__ import annotations

from typing import Any, Literal

from infra_agent.goal.model import Goal
from infra_agent.publish.report.journey_rows import AttributionRow, JourneyPoint, RungCost
from infra_agent.publish.report.reason_rows import Claim, FamilyRow, HypothesisRow, Predictor
from infra_agent.publish.report.rows import (
    AcceptedRow,
    BeforeAfter,
    BlockRow,
    CandidateRow,
    Configuration,
    DecisionNeeded,
    DifferenceRow,
    EstimateRow,
    GuardRow,
    PersonRow,
    Row,
    Sources,
    VerdictRow,
)

SCHEMA_VERSION: Literal["1"] = "1"


class RunInfo(Row):
    """Which run this is. `status` is finished, running or interrupted."""

    id: str
    started: str
    status: Literal["finished", "running", "interrupted"]
    sessions: int
    phase: str
    brain: str
    brain_note: str
    fell_back: str | None
    seed: int
    command: list[str]
    version: str
    event: int


class GoalInfo(Goal):
    """The goal as the program understood it, and its target, load and constraints in words."""

    target_text: str
    load_text: str
    constraints_text: list[str]


class StackInfo(Row):
    """The system under test and the frozen workload."""

    name: str
    engine: str
    model: str
    served_model: str
    url: str | None
    health_path: str
    digest: str
    workload_sha256: str
    workload: dict[str, Any]


class Outcome(Row):
    """Was the goal met? `code` is the ledger's outcome, or running / interrupted while there is none."""

    met: bool
    code: str
    exit_code: int | None
    sentence: str
    event: int


class Answers(Row):
    """The answer check of the best configuration. `not_checked` is never a pass."""

    verdict: Literal["pass", "fail", "inconclusive", "invalid", "error", "not_checked", "not_needed"]
    candidate: str
    same: int | None
    near_ties: int | None
    changed: int | None
    detail: str
    sources: Sources


class Noise(Row):
    """The noise floor. `sd`: standard deviation of the log of one launch. `measured_at`: of a stored calibration."""

    sd: float
    mde_ratio: float
    blocks: int
    samples: int
    source: str
    measured_at: str
    event: int


class Honesty(Row):
    """Plain search with the same screening time, judged by the same judge."""

    method: str
    wall_s: float
    trials: int
    decision: str
    best: str | None
    shared_with: str | None
    estimate: EstimateRow | None
    reason: str
    event: int


class AgentCost(Row):
    """Screening time the brain's own candidates took: what the honesty row has to match."""

    wall_s: float


class Final(Row):
    """Winner and stock relaunched clean on seeds the search never saw."""

    candidate: str
    arms: list[str]
    seeds: list[int]
    estimate: EstimateRow
    stock_value: float
    candidate_value: float
    difference: DifferenceRow | None
    guards: list[GuardRow]
    blocks: list[BlockRow]
    event: int


class SearchInfo(Row):
    """Seeds used while searching and proving."""

    seeds: list[int]


class ObservationRow(Row):
    """One probe's result, as the ledger has it."""

    id: str
    candidate: str
    lane: str
    purpose: str
    launch: str
    probe: str
    rung: str
    verdict: str
    summary: str
    where: dict[str, Any]
    against: dict[str, Any]
    quantities: list[dict[str, Any]]
    checks: list[dict[str, Any]]
    cost: dict[str, Any]
    event: int


class Gap(Row):
    """Something that was not measured, and why."""

    what: str
    reason: str
    event: int


class Refused(Row):
    """An action that was asked for and not carried out."""

    action: str
    error: str
    event: int


class NoteRow(Row):
    """A line worth keeping."""

    topic: str
    text: str
    event: int


class FailedLaunch(Row):
    """An engine start that did not end by being stopped."""

    id: str
    candidate: str
    outcome: str
    message: str
    last_lines: list[str]
    wall_s: float
    event: int


class RungsSaved(Row):
    """Candidates the cheap rungs ended, and the proving time that this spared (estimate; None: no block to go by)."""

    candidates: list[str]
    mean_block_s: float | None
    estimated_s: float | None
    rule: str


SpentKind = Literal["usd", "tokens", "launches", "disk_bytes", "gpu_s", "turns"]


class SpentRow(Row):
    """One kind of spending. `cap` None: no ceiling. `open`: set aside by a process that died, so it counts in full."""

    kind: SpentKind
    spent: float
    cap: float | None
    open: float = 0.0


class CostInfo(Row):
    """What the run cost. Tokens and money are the brain's; None means not recorded."""

    total_s: float
    budget_s: float
    wall_s: dict[str, float]
    launches: int
    launches_by_purpose: dict[str, int]
    blocks: int
    blocks_invalid: int
    requests: int
    observations_s: float
    brain_tokens: int | None
    brain_usd: float | None
    spent: list[SpentRow]
    """Whatever was budgeted or used beside wall clock: launches, tokens, money, disk, GPU seconds."""
    rungs_saved: RungsSaved


class LlmCostRow(Row):
    """What the questions of one phase about one hypothesis (empty: about none) cost. `usd` None: no price is known."""

    phase: str
    hypothesis: str
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None


class LlmInfo(Row):
    """The language model of the run: how it was asked, what it got wrong, what it cost. `fell_back`: who took over."""

    model: str
    base_url: str
    mode: str
    calls: int
    faults: dict[str, int]
    retries: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_reasoning: int
    tokens_not_reported: int
    usd: float | None
    accepted_percent: float | None
    accepted_percent_per_usd: float | None
    seconds: float
    cost: list[LlmCostRow]
    fell_back: str | None
    event: int


class LedgerInfo(Row):
    """The chain's head: what the report was made from."""

    events: int
    head_seq: int
    head_hash: str


class Report(Row):
    """report.json."""

    schema_version: Literal["1"] = SCHEMA_VERSION
    run: RunInfo
    goal: GoalInfo
    stack: StackInfo
    outcome: Outcome
    baseline: Configuration
    best: Configuration
    before_after: list[BeforeAfter]
    accepted: list[AcceptedRow]
    decisions: list[DecisionNeeded]
    people: list[PersonRow]
    verdicts: list[VerdictRow]
    candidates: list[CandidateRow]
    proposals: int
    journey: list[JourneyPoint]
    rung_costs: list[RungCost]
    attribution: list[AttributionRow]
    hypotheses: list[HypothesisRow]
    predictor: Predictor
    claims: list[Claim]
    answers: Answers
    noise: Noise | None
    judge_error_rates: dict[str, float]
    families: list[FamilyRow]
    honesty_row: Honesty | None
    agent: AgentCost
    final: Final | None
    search: SearchInfo
    observations: list[ObservationRow]
    not_measured: list[Gap]
    degraded: list[NoteRow]
    notes: list[NoteRow]
    refused_actions: list[Refused]
    failed_launches: list[FailedLaunch]
    cost: CostInfo
    llm: LlmInfo | None
    environment: dict[str, str | int | float]
    walls: dict[str, str]
    reproduce: list[str]
    ledger: LedgerInfo
