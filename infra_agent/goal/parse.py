"""Text to Goal, by a deterministic grammar: the same text always gives the same goal, or the same refusal.

Covered: the language of docs/goals.md. Every word is read, or stands in a closed list of fillers, or is refused.
Not covered: guessing. What has two readings is refused with a corrected example.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra_agent.errors import GoalError
from infra_agent.goal.build import build
from infra_agent.goal.draft import Draft
from infra_agent.goal.lexer import MAX_TEXT_LENGTH, Token, tokenize
from infra_agent.goal.model import HIGHER_IS_BETTER, LATENCIES, Goal, Metric, Statistic, Target
from infra_agent.goal.numerals import read_numerals
from infra_agent.goal.phrases import read_phrases
from infra_agent.goal.rules import apply_rules
from infra_agent.goal.say import NAMES, amount, level, plain, sentence
from infra_agent.goal.statements import read_statements

EXAMPLE = "raise output tokens per second by 30 % at 8 concurrent requests, within 20 minutes"


@dataclass(frozen=True, slots=True)
class Reading:
    """A goal with the assumptions made while reading it."""

    goal: Goal
    notes: tuple[str, ...]


def parse_goal(text: str) -> Goal:
    """The goal that the text states; GoalError names what is missing, and its hint is a sentence that parses."""
    return read_goal(text).goal


def read_goal(text: str) -> Reading:
    """`parse_goal` with its notes; GoalError as there."""
    if len(text) > MAX_TEXT_LENGTH:
        raise GoalError(f"the goal is too long: {len(text)} characters, at most {MAX_TEXT_LENGTH}", hint=EXAMPLE)
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
