"""The language model of a run: questions, faults, tokens and money, by phase and by hypothesis.

Covered: every call that the ledger holds, those without an answer as they were charged. Not covered: prices that nobody
gave; a sum with an unknown part is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from infra_agent.ledger import kinds as k
from infra_agent.ledger.state import LlmCall, RunState
from infra_agent.publish.report.facts import Facts
from infra_agent.publish.report.model import LlmCostRow, LlmInfo


def llm_info(facts: Facts) -> LlmInfo | None:
    """What the model was asked and what it cost; None for a run that asked none."""
    state = facts.state
    calls = list(state.llm_calls.values())
    if not calls and state.started.brain != "llm":
        return None
    answers = [call.answered for call in calls if call.answered is not None]
    usd = money(answers)
    percent = _accepted_percent(state)
    settings = state.started.brain_settings
    return LlmInfo(
        model=str(settings.get("model", "")),
        base_url=str(settings.get("base_url", "")),
        mode=state.llm_mode.mode if state.llm_mode is not None else "not found out",
        calls=len(calls),
        faults=dict(Counter(answer.fault for answer in answers if answer.fault)),
        retries=sum(answer.retries for answer in answers),
        tokens_in=sum(answer.input_tokens for answer in answers),
        tokens_out=sum(answer.output_tokens for answer in answers),
        tokens_cached=sum(answer.cached_tokens for answer in answers),
        tokens_reasoning=sum(answer.reasoning_tokens for answer in answers),
        tokens_not_reported=sum(
            answer.input_tokens + answer.output_tokens for answer in answers if answer.usage != "reported"
        ),
        usd=usd,
        accepted_percent=percent,
        accepted_percent_per_usd=percent / usd if percent is not None and usd else None,
        seconds=sum(answer.seconds for answer in answers),
        cost=_by_hypothesis(state, calls),
        fell_back=state.fell_back.reason if state.fell_back is not None else None,
        event=facts.seq(calls[-1].asked) if calls else facts.seq(state.started),
    )


def money(answers: Sequence[k.LlmAnswered]) -> float | None:
    """The sum of the prices; None when a charged answer has none."""
    charged = [answer.usd for answer in answers if answer.usage != "none"]
    return sum(usd for usd in charged if usd is not None) if all(usd is not None for usd in charged) else None


def tokens(state: RunState) -> int:
    """All tokens that were charged."""
    answers = (call.answered for call in state.llm_calls.values() if call.answered is not None)
    return sum(answer.input_tokens + answer.output_tokens for answer in answers)


def _accepted_percent(state: RunState) -> float | None:
    """The winner's gain over stock in percent, from the relaunch on fresh seeds."""
    return 100 * (state.final.estimate.ratio - 1) if state.final is not None else None


def _by_hypothesis(state: RunState, calls: Iterable[LlmCall]) -> list[LlmCostRow]:
    groups: dict[tuple[str, str], list[k.LlmAnswered]] = {}
    for call in calls:
        if call.answered is not None:
            groups.setdefault((call.phase, _hypothesis(state, call)), []).append(call.answered)
    return [
        LlmCostRow(
            phase=phase,
            hypothesis=hypothesis,
            calls=len(answers),
            tokens_in=sum(answer.input_tokens for answer in answers),
            tokens_out=sum(answer.output_tokens for answer in answers),
            usd=money(answers),
        )
        for (phase, hypothesis), answers in groups.items()
    ]


def _hypothesis(state: RunState, call: LlmCall) -> str:
    """The hypothesis that an answer states, tests or proves; empty for the others."""
    assert call.answered is not None
    for action in call.answered.actions:
        if action["kind"] in ("propose", "search"):
            return str(action["hypothesis"])
        if action["kind"] == "prove":
            candidate = state.candidates.get(str(action["candidate"]))
            return candidate.proposed.hypothesis if candidate is not None else ""
        if action["kind"] == "hypothesise":
            stated = (s for s in state.hypotheses.values() if s.cause == action["cause"])
            return next((s.id for s in stated), "")
    return ""
