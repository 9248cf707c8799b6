"""What a scripted model decides, from the text of the dossier alone, as a model would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from infra_agent.testing.replies import Call, Reply, action

UNTRIED = re.compile(r"^- (\w+) \(\w+\): untried", re.MULTILINE)
PROMOTED = re.compile(r"^- (C\d+) \[.*screened \| screen [^|]*: promote", re.MULTILINE)
BATCHING = {
    "family": "batching",
    "cause": "requests are served one after another",
    "place": "the engine's admission of requests",
    "refuted_by": "more than one request decodes at a time on stock",
    "refuting_probe": "overlap",
    "predictions": [{"rung": "load", "metric": "output_tok_per_s", "low": 1.5, "high": 4.0}],
}


def dossier_of(body: Mapping[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def solve(body: Mapping[str, Any]) -> Reply:
    """Measure, state, propose, prove, conclude with a reason per family: each step read off the dossier."""
    text = dossier_of(body)
    if "Stock has not been measured yet" in text:
        return action("measure", probe="load", target="stock")
    if "# Hypotheses\nnone yet" in text:
        changes = [{"parameter": "continuous_batching", "value": True}]
        proposal = {"hypothesis": "H1", "changes": changes, "base": "best"}
        return Reply(
            reasoning="One at a time: batching.", calls=(Call("hypothesise", BATCHING), Call("propose", proposal))
        )
    promoted = PROMOTED.search(text)
    if promoted is not None:
        return action("prove", candidate=promoted[1])
    return conclude(text)


def conclude(text: str) -> Reply:
    skipped = [
        {"family": family, "disposition": "not_worth_it", "reason": "nothing observed speaks for it", "evidence": []}
        for family in UNTRIED.findall(text)
    ]
    return action("conclude", reason="the goal is reached as proved", skipped=skipped)
