"""Checks a body against a project's rules: what it must show, and whether it may be opened at all.

Everything is judged by the text that a maintainer would read, not by what the program meant to write; so a body that a
person has edited is checked alike.

Covered: the demands of `rules`. Not covered: whether what is said is true; the figures are the report's (tested).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra_agent.publish.pull_request.rules import Demand, RuleSet
from infra_agent.publish.pull_request.sections import HUMAN
from infra_agent.publish.pull_request.template import parts_of

LONGEST_BODY = 60_000
"""Characters; GitHub takes 65 536."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1\s*$", re.DOTALL | re.MULTILINE)
_INTERVAL = re.compile(r"\[\s*[-+]?[\d.]+\s*,\s*[-+]?[\d.]+\s*\]|±\s*[\d.]+")
_COMMAND = re.compile(
    r"(?m)^\s*(?:\$ )?(?:env |infra-agent |python|vllm |llama-|\./|pytest|lm_eval|sglang|uv |cmake|ctest)"
)
_RISK = re.compile(r"risk[^\n]{0,40}?\b(routine|trade|memory|numerics(?:-minor)?|concurrency|production)\b", re.I)
_HEAD = re.compile(r"\b[1-9]\d*:[0-9a-f]{64}\b")
_AI = re.compile(r"(?i)\b(AI|LLMs?|language models?)\b[^.\n]{0,60}\b(used|generated|written|helped)\b")
_NOTHING = re.compile(r"not looked up yet|^n/?a$|^none$|^todo|^tbd", re.IGNORECASE)
_ANSWERS_PASS = re.compile(r"answer check[^\n]*\*\*(pass|not needed)\*\*|gsm8k|lm_eval|mmlu|perplexity", re.IGNORECASE)
_SHORTEST_WORDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A demand that the body does not meet."""

    demand: Demand | str
    says: str
    citation: str = ""


def lint(body: str, rules: RuleSet, template: str = "", output_affected: bool = True) -> list[Finding]:
    """What is missing; empty when the body may be shown. `output_affected`: the change can alter answers or serving."""
    text = _COMMENT.sub("", body)
    found = []
    for demand in rules.all_demands:
        if demand is Demand.MODEL_EVALUATION and not output_affected:
            continue
        headings = _headings(template, rules) if demand is Demand.TEMPLATE else ()
        if not (all(_has_heading(text, each) for each in headings) if headings else _CHECKS[demand](text)):
            found.append(
                Finding(demand=demand, says=f"the body nowhere {demand.value}", citation=_cited(rules, demand))
            )
    if len(body) > LONGEST_BODY:
        found.append(
            Finding(demand="length", says=f"the body has {len(body)} characters, at most {LONGEST_BODY} are taken")
        )
    return found


def _cited(rules: RuleSet, demand: Demand) -> str:
    return str(rules.citations[0]) if rules.citations and demand in rules.demands else ""


def _headings(template: str, rules: RuleSet) -> Sequence[str]:
    return [part.heading for part in parts_of(template)] or rules.headings


def _has_heading(text: str, heading: str) -> bool:
    return re.search(rf"(?m)^#+\s+{re.escape(heading)}\s*$", text) is not None


def _section(*words: str) -> Callable[[str], str]:
    """A function that gives the text below the first heading that holds one of the words."""

    def below(text: str) -> str:
        for word in words:
            pattern = rf"(?ims)^#+[^\n]*{re.escape(word)}[^\n]*\n(.*?)(?=^#+ |\Z)"
            match = re.search(pattern, text)
            if match and match[1].strip():
                return match[1].strip()
        return ""

    return below


_PURPOSE = _section("purpose", "motivation", "overview", "summary")
_DUPLICATE = _section("duplicate")
_LIMITS = _section("does not help", "limitation")
_HUMAN = _section(HUMAN, "human")


def _says_something(text: str) -> bool:
    plain = text.strip()
    return len(plain.split()) >= _SHORTEST_WORDS and not _NOTHING.search(plain)


def _has_table(text: str) -> bool:
    rows = [line for line in text.splitlines() if line.lstrip().startswith("|")]
    numbers = [line for line in rows if len(re.findall(r"\d", line)) >= 2]
    before = any(re.search(r"stock|before|base|main", line, re.I) for line in rows)
    return before and len(numbers) >= 1


_CHECKS: dict[Demand, Callable[[str], bool]] = {
    Demand.PURPOSE: lambda text: _says_something(_PURPOSE(text)) or _says_something(_section("description")(text)),
    Demand.NOT_A_DUPLICATE: lambda text: _says_something(_DUPLICATE(text)),
    Demand.RISK: lambda text: _RISK.search(text) is not None,
    Demand.ACCURACY: lambda text: re.search(r"accuracy|answer check|perplexity|lm_eval|gsm8k", text, re.I) is not None,
    Demand.MODEL_EVALUATION: lambda text: _ANSWERS_PASS.search(text) is not None,
    Demand.BEFORE_AFTER: _has_table,
    Demand.INTERVALS: lambda text: _INTERVAL.search(text) is not None,
    Demand.LIMITS: lambda text: bool(_LIMITS(text)),
    Demand.COMMANDS: lambda text: any(_COMMAND.search(match[0]) for match in _FENCE.finditer(text)),
    Demand.TESTS: lambda text: re.search(r"(?i)`[^`]*(?:test|pytest)[^`]*`[^\n]*(?:pass|fail)", text) is not None,
    Demand.ENVIRONMENT: lambda text: re.search(r"(?i)environment|hardware|GPU|CPU|cores", text) is not None,
    Demand.LEDGER: lambda text: _HEAD.search(text) is not None,
    Demand.DISCLOSURE: lambda text: _AI.search(text) is not None,
    Demand.HUMAN: lambda text: _says_something(_HUMAN(text)),
    Demand.TEMPLATE: lambda text: True,
}
