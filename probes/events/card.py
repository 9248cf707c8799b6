"""An events observation as a card for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from probes.base import Json, Observation
from probes.clean import one_line

MARK = {"supported": "yes", "excluded": "no", "cannot tell": "?"}
FACTS_SHOWN = (
    "running_mean", "running_max", "waiting_mean", "waiting_share", "kv_used_max", "preemptions", "queue_s_mean",
    "ttft_s_mean", "itl_s_mean", "prefill_share", "prefix_hit_rate", "iteration_tokens_mean", "token_budget",
    "max_running", "generation_tokens_per_s", "frontend_cpu_s_per_s", "server_cpu_cores", "client_cpu_wait_share",
    "client_busiest_thread", "recompilations", "offered",
)  # fmt: skip


def card(observation: Observation) -> str:
    """All of it, most important first."""
    detail = observation.detail
    seconds = observation.where.interval_s[1] if observation.where.interval_s else 0.0
    lines = [f"{'Limit':<11}{observation.summary}"]
    if observation.where.parameter:
        lines.append(f"{'Hangs on':<11}{observation.where.parameter}")
    lines.append(f"{'Window':<11}{seconds:.1f} s of {detail['engine']}, {observation.cost.requests} readings")
    lines += ["", "Limits, in the order of asking"]
    lines += _findings(detail["findings"], str(observation.signals["binding_limit"]))
    lines += ["", "Facts"]
    lines += _facts(detail["facts"])
    lines += _hypotheses(detail["hypotheses"], detail["unread_warnings"])
    lines += ["", *(f"note: {one_line(problem)}" for problem in detail["problems"])] if detail["problems"] else []
    return "\n".join(lines)


def _findings(findings: Sequence[Mapping[str, Json]], answer: str) -> list[str]:
    lines = []
    for finding in findings:
        name = str(finding["limit"])
        lines.append(f"  {MARK[str(finding['state'])]:<4}{name:<17}{one_line(str(finding['reason']))}")
        if name == answer:
            lines.append(f"      {'refuted by':<15}{finding['refuted_by']} (confidence {finding['confidence']})")
    return lines


def _facts(facts: Sequence[Mapping[str, Json]]) -> list[str]:
    known = {str(fact["name"]): fact for fact in facts}
    shown = [(name, known[name]) for name in FACTS_SHOWN if name in known and known[name]["value"] is not None]
    lines = [_fact(name, fact) for name, fact in shown]
    absent = [name for name, fact in known.items() if fact["quality"] == "absent"]
    return [*lines, f"  absent: {', '.join(absent)}"] if absent else lines


def _fact(name: str, fact: Mapping[str, Json]) -> str:
    source = one_line(str(fact["source"]), 90)
    return f"  {name:<26}{_number(fact['value']):>12} {fact['unit']!s:<9}{fact['quality']!s:<12}{source}"


def _number(value: Json) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _hypotheses(found: Sequence[Mapping[str, Json]], unread: Sequence[Mapping[str, Json]]) -> list[str]:
    lines: list[str] = []
    if found:
        lines += ["", "The log suggests (to be tested, not facts)"]
    for each in found:
        when = "in the window" if each["in_window"] else "before the window"
        times = f"{each['times']} times, " if each["times"] != 1 else ""
        lines += [
            f"  line {each['line']}  {each['means']} ({times}{when})",
            f"      text       {one_line(str(each['text']), 160)}",
            f"      test       {each['experiment']}",
        ]
    if unread:
        lines += ["", "Warnings that are not understood"]
        lines += [f"  line {each['line']}  {one_line(str(each['text']), 160)}" for each in unread]
    return lines
