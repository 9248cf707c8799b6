"""`infra-agent doctor --noise`: launches stock against itself and says what this machine can prove, in which time.

Covered: A/A blocks of fresh launches under the goal's load, the noise of every figure they give, the stored floor.
Not covered: noise of a load or a metric that was not measured; a goal of its own load needs its own calibration.
"""

from __future__ import annotations

import math
import secrets
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra_agent.agent.choose import Choice
from infra_agent.agent.start import Request, begin
from infra_agent.changes.change import STOCK, settings_digest
from infra_agent.errors import ConfigError, StackError, UsageError
from infra_agent.goal.model import Direction, Goal, Metric, Statistic, Target
from infra_agent.harness.evidence import valid_blocks
from infra_agent.harness.experiment.exact import may_be_exact
from infra_agent.harness.figure import quantity_name
from infra_agent.harness.memory import quantity_in
from infra_agent.harness.narrate import Narrator
from infra_agent.harness.noise import MDE_BLOCKS, percent
from infra_agent.harness.noisefloor import MetricNoise, NoiseFloor, key_of, store_floor
from infra_agent.harness.proving import measure_blocks
from infra_agent.harness.sandbox import hold_walls
from infra_agent.harness.session import Session
from infra_agent.harness.stalls import PREFIX, STALL_S, STALLS
from infra_agent.judge.calibrate import aa_noise, reach_of_effects
from infra_agent.judge.decide import provable_ratio
from infra_agent.ledger import kinds as k
from infra_agent.stack.cache import STATE_VARIABLE, state_dir
from infra_agent.stack.demo import prepare_demo
from infra_agent.stack.files import DEMO, resolve_stack, validate_paths
from infra_agent.stack.model import Stack

BLOCKS = 6
BUDGET_S = 4 * 3600.0
"""A calibration takes what it takes; this ends one that hangs together with its engine."""
NO_FIGURES = frozenset({STALLS, STALL_S, "failures"})
TWIN = "AA"
Pair = tuple[k.ObservationMade, k.ObservationMade]


def measure_noise(
    stack_ref: str | None,
    cwd: Path,
    no_sandbox: bool,
    narrator: Narrator,
    goal: Goal | None = None,
    blocks: int = BLOCKS,
) -> dict[str, Any]:
    """Launch stock twice per block, keep the floor for later runs, and say what it allows to be proved.

    Keys: metric, launches, blocks, sd_log (one launch), sd_block_log, drift_sd_log, mde_ratio, mde_blocks, block_s,
    stalled, measured_at, stored, effects[{ratio, blocks, minutes}] (None where 16 blocks do not prove it).
    """
    wanted = (goal or throughput_goal()).model_copy(update={"budget_s": BUDGET_S})
    if may_be_exact(wanted):
        raise ConfigError(f"{wanted.metric.value} is deterministic: it has no noise", where="--goal")
    stack = _prepared(stack_ref, cwd, narrator)
    with tempfile.TemporaryDirectory(prefix="infra-agent-noise-") as folder:
        request = Request(
            goal=wanted,
            stack=stack,
            brain=Choice(name="none", note="A/A only"),
            seed=secrets.randbelow(2**31),
            run_dir=Path(folder) / "run",
            walls=hold_walls(no_sandbox, stack.limits.memory_bytes),
            command=("infra-agent", "doctor", "--noise"),
        )
        with begin(request, narrator) as session:
            measure_against_itself(session, blocks)
            floor = _floor(session)
    return _document(floor, quantity_name(wanted.metric, wanted.statistic), _store(floor))


def throughput_goal() -> Goal:
    """What is calibrated when no goal is given: output tokens per second under the stack's own load."""
    return Goal(
        metric=Metric.OUTPUT_TOK_PER_S,
        statistic=Statistic.VALUE,
        direction=Direction.MAXIMISE,
        target=Target(kind="ratio", value=2.0),
        text="noise of the stock stack",
    )


def noise_lines(document: dict[str, Any]) -> Iterator[str]:
    """The noise for people: what varies, and what can be proved in which time."""
    yield (
        f"Noise of {document['metric']}, {document['blocks']} A/A blocks: one launch varies by "
        f"{100 * document['sd_log']:.2g} %, one block by {100 * document['sd_block_log']:.2g} % "
        f"(standard deviations); drift between blocks {100 * document['drift_sd_log']:.2g} %; "
        f"{document['stalled']} of {document['launches']} runs stalled"
    )
    smallest = percent(document["mde_ratio"])
    yield f"Smallest gain proved four times in five by {document['mde_blocks']} blocks: {smallest}"
    yield ""
    yield f"{'gain':>8}  {'blocks':>6}  {'minutes':>7}"
    for row in document["effects"]:
        blocks = "-" if row["blocks"] is None else f"{row['blocks']}"
        minutes = "not provable here" if row["minutes"] is None else f"{row['minutes']:.1f}"
        yield f"{percent(row['ratio']):>8}  {blocks:>6}  {minutes:>7}"
    yield ""
    yield f"Kept for runs with this stack and load in {document['stored']}"


def _prepared(stack_ref: str | None, cwd: Path, narrator: Narrator) -> Stack:
    stack, source = resolve_stack(stack_ref, cwd)
    if source == DEMO:
        return prepare_demo(lambda text: narrator.line("Set-up", text))
    validate_paths(stack)
    if stack.url is not None:
        raise ConfigError(
            "an attached server is not launched, so its launch noise cannot be measured",
            where="stack.url",
            hint="give a stack that is launched here",
        )
    return stack


def measure_against_itself(session: Session, blocks: int) -> None:
    """Blocks of stock against stock under another name: planned, gated and voided like all others."""
    if TWIN not in session.state.candidates:
        session.ledger.append(_twin(session))
    measure_blocks(session, TWIN, STOCK, "prove", "agent", blocks)


def _twin(session: Session) -> k.CandidateProposed:
    settings = dict(session.stock_settings)
    return k.CandidateProposed(
        id=TWIN,
        title="stock again",
        hypothesis="",
        base=STOCK,
        changes=(),
        settings=settings,
        digest=settings_digest(session.state.started.stack_digest, settings),
        risk="routine",
        risk_reasons=(),
        family="none",
        lane="agent",
    )


def _floor(session: Session) -> NoiseFloor:
    blocks = valid_blocks(session.state, TWIN, "prove")
    pairs = [
        (session.state.observations[block.base_observation], session.state.observations[block.candidate_observation])
        for block in blocks
    ]
    names = {str(q["name"]) for pair in pairs for made in pair for q in made.observation["quantities"]}
    series = {name: _series(pairs, name) for name in sorted(names) if _is_figure(name)}
    metrics = {}
    for name, values in series.items():
        if values is not None:
            noise = aa_noise(values)
            metrics[name] = MetricNoise(block_sd=noise.block_sd, drift_sd=noise.drift_sd, degrees=noise.blocks)
    return NoiseFloor(
        key=key_of(session.state.started),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        blocks=len(pairs),
        block_s=sum(block.wall_s for block in blocks) / len(blocks),
        stalled=sum((quantity_in(made, STALLS) or 0) > 0 for pair in pairs for made in pair),
        metrics=metrics,
    )


def _series(pairs: list[Pair], name: str) -> list[tuple[float, float]] | None:
    """Logs of a figure block by block, without stalls as the judge compares it; None unless every window has it."""
    rows = []
    for first, second in pairs:
        logs = [_log(made, name) for made in (first, second)]
        if logs[0] is None or logs[1] is None:
            return None
        rows.append((logs[0], logs[1]))
    return rows


def _log(made: k.ObservationMade, name: str) -> float | None:
    value = quantity_in(made, f"{PREFIX}{name}") or quantity_in(made, name)
    return math.log(value) if value is not None and value > 0 else None


def _is_figure(name: str) -> bool:
    return not name.startswith(PREFIX) and name not in NO_FIGURES


def _store(floor: NoiseFloor) -> Path:
    try:
        return store_floor(floor)
    except OSError as error:
        raise UsageError(
            f"the noise floor cannot be kept: {error.strerror or error}",
            where=str(state_dir()),
            hint=f"set {STATE_VARIABLE} to a directory that can be written",
        ) from error


def _document(floor: NoiseFloor, metric: str, stored: Path) -> dict[str, Any]:
    noise = floor.metrics.get(metric)
    if noise is None:
        raise StackError(f"no launch gave a figure of {metric}", hint="choose a metric that this stack can show")
    effects = reach_of_effects(noise.block_sd, floor.block_s)
    return {
        "metric": metric,
        "launches": 2 * floor.blocks,
        "blocks": floor.blocks,
        "sd_log": noise.block_sd / math.sqrt(2),
        "sd_block_log": noise.block_sd,
        "drift_sd_log": noise.drift_sd,
        "mde_ratio": provable_ratio(noise.block_sd, MDE_BLOCKS, 0.0),
        "mde_blocks": MDE_BLOCKS,
        "block_s": floor.block_s,
        "stalled": floor.stalled,
        "measured_at": floor.measured_at,
        "stored": str(stored),
        "effects": [
            {
                "ratio": effect,
                "blocks": reach.blocks if reach is not None else None,
                "minutes": reach.wall_s / 60 if reach is not None else None,
            }
            for effect, reach in effects.items()
        ],
    }
