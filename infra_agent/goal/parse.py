"""Text to Goal, by a deterministic grammar: the same text always gives the same goal, or the same refusal.

Covered: the language of docs/goals.md. Every word is read, or stands in a closed list of fillers, or is refused.
Not covered: guessing. What has two readings is refused with a corrected example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from infra_agent.errors import GoalError
from infra_agent.goal.build import build
from infra_agent.goal.declared import MetricSpec
from infra_agent.goal.declared_text import read_declared
from infra_agent.goal.draft import Draft
from infra_agent.goal.lexer import MAX_TEXT_LENGTH, Token, tokenize
from infra_agent.goal.model import HIGHER_IS_BETTER, LATENCIES, Direction, Goal, Metric, Statistic, Target
from infra_agent.goal.numerals import read_numerals
from infra_agent.goal.phrases import read_phrases
from infra_agent.goal.rules import apply_rules
from infra_agent.goal.say import NAMES, amount, level, plain, sentence
from infra_agent.goal.statements import read_statements

NONE_DECLARED: Mapping[str, MetricSpec] = MappingProxyType({})
_CARRIER = "double output tokens per second"
"""A complete goal to which the rest of a sentence about a declared metric is added, to be read by the same grammar."""
DECLARED_HINT = "say the metric and its level first, then e.g. ', code changes allowed, within 10 minutes'"
EXAMPLE = "raise output tokens per second by 30 % at 8 concurrent requests, within 20 minutes"


@dataclass(frozen=True, slots=True)
class Reading:
    """A goal with the assumptions made while reading it."""

    goal: Goal
    notes: tuple[str, ...]


def parse_goal(text: str, declared: Mapping[str, MetricSpec] = NONE_DECLARED) -> Goal:
    """The goal that the text states; GoalError names what is missing, and its hint is a sentence that parses.

    `declared`: metrics of the stack itself, by name; their words are read first.
    """
    return read_goal(text, declared).goal


def read_goal(text: str, declared: Mapping[str, MetricSpec] = NONE_DECLARED) -> Reading:
    """`parse_goal` with its notes; GoalError as there."""
    if len(text) > MAX_TEXT_LENGTH:
        raise GoalError(f"the goal is too long: {len(text)} characters, at most {MAX_TEXT_LENGTH}", hint=EXAMPLE)
    found = read_declared(text, declared)
    if found is None:
        return _served(text)
    rest = _rest(found.rest)
    limits = (*found.limits, *rest.constraints.limits)
    goal = Goal(
        metric=found.metric,
        statistic=Statistic.VALUE,
        direction=Direction(found.metric.direction),
        target=found.target,
        constraints=rest.constraints.model_copy(update={"limits": limits}),
        budget_s=rest.budget_s,
        budget=rest.budget,
        scope=rest.scope,
        text=text,
    )
    return Reading(goal, found.notes)


def _rest(text: str) -> Goal:
    """What a sentence about a declared metric says beside it: budget, scope, further limits; nothing else."""
    sound = _served(_CARRIER)
    try:
        rest = _served(f"{_CARRIER}, {text}" if text else _CARRIER)
    except GoalError as error:
        what = error.message.partition(". Understood:")[0]
        raise GoalError(f"{what}. Not read: '{text}'", where="goal", hint=DECLARED_HINT) from None
    same = (rest.goal.metric, rest.goal.statistic, rest.goal.target) == (
        sound.goal.metric, sound.goal.statistic, sound.goal.target,
    )  # fmt: skip
    if not same or rest.goal.load is not None or rest.goal.slo or rest.goal.constraints.answers_unchanged:
        message = f"the goal is not clear. '{text}' speaks of a server; an experiment has no requests and no answers"
        raise GoalError(message, where="goal", hint=DECLARED_HINT)
    return rest.goal


def _served(text: str) -> Reading:
    """A goal of a server, by the grammar alone."""
    tokens = tokenize(text)
    atoms, spelling = read_phrases(read_numerals(tokens))
    draft = build(read_statements(apply_rules(atoms)))
    draft.problems += [token.note for token in tokens if token.kind == "bad"]
    if draft.problems:
        raise _refusal(draft)
    return Reading(draft.goal(text), (*spelling, *_number_notes(tokens), *draft.notes))


def _number_notes(tokens: list[Token]) -> list[str]:
    return [token.note for token in tokens if token.kind == "num" and token.note]


def _refusal(draft: Draft) -> GoalError:
    problems = list(dict.fromkeys(draft.problems))
    known = "; ".join(_known(draft)) or "nothing"
    return GoalError(
        f"the goal is not clear. {'. '.join(problems)}. Understood: {known}", where="goal", hint=_hint(draft)
    )


def _known(draft: Draft) -> list[str]:
    parts: list[str] = []
    if draft.metric is not None:
        stat = draft.statistic.value + " " if draft.statistic not in (None, Statistic.VALUE) else ""
        parts.append(f"metric {stat}{NAMES[draft.metric]}")
        if draft.target is not None:
            value = draft.target.value
            parts.append(
                f"target x{value:.4g}" if draft.target.kind == "ratio" else f"target {level(draft.metric, value)}"
            )
    if draft.load is not None:
        rate = draft.load.rate_per_s
        parts.append(f"load {draft.load.concurrency} concurrent" if rate is None else f"load {plain(rate)} requests/s")
    limits = [*draft.slo, *draft.limits]
    parts += [
        f"{limit.metric.value} {limit.bound.replace('_', ' ')} {level(limit.metric, limit.value)}" for limit in limits
    ]
    if draft.answers:
        parts.append("answers unchanged")
    if draft.budget_s is not None:
        parts.append(f"budget {plain(draft.budget_s)} s")
    parts += [f"at most {amount(name, value)}" for name, value in draft.budget.model_dump(exclude_none=True).items()]
    return parts


def _hint(draft: Draft) -> str:
    """A sentence close to what was said, with the open parts filled by examples."""
    metric = draft.metric or Metric.OUTPUT_TOK_PER_S
    if metric is Metric.GOODPUT_PER_S and not draft.slo:
        metric = Metric.OUTPUT_TOK_PER_S
    if draft.metric is not metric:
        draft.target, draft.statistic = None, None
    draft.metric = metric
    draft.statistic = draft.statistic or (Statistic.P50 if metric in LATENCIES else Statistic.VALUE)
    draft.target = draft.target or Target(kind="ratio", value=1.3 if metric in HIGHER_IS_BETTER else 0.7)
    return sentence(draft.goal(""))
