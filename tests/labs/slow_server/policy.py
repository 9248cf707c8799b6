"""A scripted model that finds, tests and mends both defects of the lab, each step read off the dossier."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.llm.policies import conclude, dossier_of

from infra_agent.testing.replies import Call, Reply, action

FIXES = Path(__file__).with_name("fixes")
PREFIX = {
    "family": "code",
    "cause": "every token computes the whole prefix again: use_cache is off",
    "place": "slow_server/generate.py, _step",
    "refuted_by": "output tokens per second do not rise when the prefix is kept",
    "refuting_probe": "load",
    "predictions": [{"rung": "load", "metric": "output_tok_per_s", "low": 1.5, "high": 10.0}],
}
LOOP = {
    "family": "code",
    "cause": "the tokenizer is loaded for every request, on the event loop that streams all answers",
    "place": "slow_server/text.py, encode, called in slow_server/app.py",
    "refuted_by": "the time to the first token does not fall when it is loaded once and called off the loop",
    "refuting_probe": "load",
    "predictions": [{"rung": "load", "metric": "ttft_p50_s", "low": 1.02, "high": 5.0}],
}
PROMOTED = re.compile(r"^- (C\d+) \[.*\| screened \| screen [^|]*: promote", re.MULTILINE)


def diff(name: str) -> str:
    return (FIXES / f"{name}.diff").read_text(encoding="utf-8")


def find_and_mend(body: Mapping[str, Any]) -> Reply:
    """Measure, search, read, state, patch, prove; once per defect; conclude."""
    text = dossier_of(body)
    if "Stock has not been measured yet" in text:
        return action("measure", probe="load", target="stock")
    promoted = PROMOTED.search(text)
    if promoted is not None:
        return action("prove", candidate=promoted[1])
    if "\n- H1 " not in text:
        return _next(text, "generate.py", _find(), PREFIX, "H1", "keep_the_prefix")
    if "\n- H2 " not in text:
        return _next(text, "app.py:1-", _read(), LOOP, "H2", "tokenise_off_the_loop")
    return conclude(text)


def _find() -> Reply:
    return action("search_code", text="use_cache", files="*.py")


def _read() -> Reply:
    calls = ({"path": "slow_server/app.py"}, {"path": "slow_server/text.py"})
    return Reply(calls=tuple(Call("read", call) for call in calls))


def _next(text: str, seen: str, look: Reply, stated: Mapping[str, Any], name: str, fix: str) -> Reply:
    if seen not in text:
        return look
    proposal = {"hypothesis": name, "changes": [], "diff": diff(fix), "base": "best"}
    return Reply(calls=(Call("hypothesise", stated), Call("propose", proposal)))
