"""Asks a transform what it would change: in the sandbox, on a read-only copy of a configuration's sources.

A transform reads files and facts and returns proposals: a diff, what it claims, and what it predicts. It applies
nothing; a proposal goes the way of every diff (scope, risk class, engagement, probes, judge, gate).

Covered: the facts it gets, deadline, size and shape of its answer.
Not covered: whether a diff fits (`agent.propose_transform`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from infra_agent.errors import StackError
from infra_agent.harness.code import launch_sources
from infra_agent.harness.command import run_command
from infra_agent.harness.environment import child_env
from infra_agent.harness.local_probes import trees_of
from infra_agent.harness.session import Session
from infra_agent.library.transforms import find_transform
from infra_agent.stack.engines.command import python_of

PREFIX = "transform:"
TIMEOUT_S = 60.0
MOST_PROPOSALS = 20
MOST_DIFF_BYTES = 200_000
"""As for the diffs of every brain (`agent.actions`)."""
ANSWER_BYTES = 4 << 20
_FACT_PURPOSES = ("baseline", "engagement", "screen", "measure", "probe")
_WORKER = Path(__file__).with_name("transform_worker.py")


class Proposal(BaseModel):
    """A change that a transform proposes. `low`, `high`: expected ratio of the goal's metric, above 1 is better."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    diff: str = Field(min_length=1)
    claim: str = Field(min_length=1, max_length=500)
    place: str = Field(default="", max_length=200)
    refuted_by: str = Field(default="", max_length=300)
    low: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    high: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @field_validator("diff")
    @classmethod
    def _not_too_large(cls, value: str) -> str:
        if len(value.encode("utf-8", "surrogatepass")) > MOST_DIFF_BYTES:
            raise ValueError(f"the diff has more than {MOST_DIFF_BYTES} bytes")
        return value


_PROPOSALS: TypeAdapter[tuple[Proposal, ...]] = TypeAdapter(
    Annotated[tuple[Proposal, ...], Field(max_length=MOST_PROPOSALS)]
)


def ask_transform(session: Session, name: str, candidate: str) -> tuple[Proposal, ...]:
    """What a transform proposes for stock or a candidate. Raises ConfigError for an unknown one, StackError when it
    fails, takes too long or answers with something else.
    """
    folder = find_transform(name, session.stack.skills)
    sources = launch_sources(session.workspace, session.stack, session.state, session.walls, candidate)
    trees = trees_of(session, candidate, sources)
    tree = next(iter(trees.values())) if len(trees) == 1 else next(iter(trees.values())).parent
    scratch = session.run_dir.absolute() / "scratch" / f"transform-{name}"
    scratch.mkdir(parents=True, exist_ok=True)
    worker = Path(shutil.copy(_WORKER, scratch))
    skill = scratch / "skill"
    shutil.copytree(folder, skill, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    done = run_command(
        [python_of(session.stack), "-I", str(worker), str(skill), str(tree)],
        walls=session.walls,
        cwd=scratch,
        env=child_env(os.environ, {**session.stack.launch.env, "PYTHONDONTWRITEBYTECODE": "1"}, scratch),
        timeout_s=min(TIMEOUT_S, max(1.0, session.budget.remaining_s())),
        stdin=json.dumps(facts_of(session, candidate)).encode(),
        readable=[tree, scratch],
        answer_bytes=ANSWER_BYTES,
    )
    where = f"transform {name}"
    if not done.ok or done.answer_error:
        ended = f"ended with exit code {done.exit_code}" if done.exit_code else f"gave no answer: {done.answer_error}"
        why = "took too long" if done.timed_out else ended
        raise StackError(f"{where} {why}", where=where, lines=done.stderr.lines(5))
    try:
        return _PROPOSALS.validate_python(done.answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise StackError(f"{where} gave no proposals: {place}: {first['msg']}", where=where) from None


def facts_of(session: Session, candidate: str) -> Mapping[str, Any]:
    """What a transform is told: signals and observations of a configuration, newest last, and the goal's metric."""
    made = [m for m in session.state.standing if m.candidate == candidate and m.purpose in _FACT_PURPOSES]
    told: Sequence[dict[str, Any]] = [m.observation for m in made if not m.observation["probe"].startswith(PREFIX)]
    signals: dict[str, Any] = {}
    for observation in told:
        signals.update(observation.get("signals", {}))
    return {"metric": session.goal.metric.value, "signals": signals, "observations": list(told)}
