"""A scripted model that finds, tests and mends both defects of the lab, each step read off the dossier.

It errs twice on the way: a diff against code that is not there, and one that changes what it is judged by. At the end
it leaves its first mend out, so that each mend has a figure beside the other's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.llm.policies import conclude, dossier_of

from infra_agent.testing.replies import Call, Reply, action, say

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
STALE = """\
--- a/slow_server/generate.py
+++ b/slow_server/generate.py
@@ -30,4 +30,4 @@
     def _step(self, ids: list[int]) -> int:
-        output = self._model(input_ids=torch.tensor([ids]), use_cache=False)
+        output = self._model(input_ids=torch.tensor([ids]), use_cache=True)
"""
EVALUATOR = """\
--- a/bench/prompts.jsonl
+++ b/bench/prompts.jsonl
@@ -6,1 +6,1 @@
-{"prompt": "Give two reasons to keep a diary and one reason not to."}
+{"prompt": "Hi"}
"""
PROMOTED = re.compile(r"^- (C[12]) \[.*\| screened \| screen [^|]*: promote", re.MULTILINE)
WAITING = re.compile(r"^- (C\d+) \[.*\| risk [^|]*\| waiting", re.MULTILINE)
Approve = Callable[[str], None]


def diff(name: str) -> str:
    return (FIXES / f"{name}.diff").read_text(encoding="utf-8")


class FindAndMend:
    """Measure, search, read, state, patch, prove; once per defect; leave the first out; conclude.

    `approve` stands for the person who reads a waiting candidate and signs: the model itself cannot.
    """

    def __init__(self, approve: Approve = lambda candidate: None) -> None:
        self._approve = approve
        self._shown: set[str] = set()

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        """The next tool call."""
        text = dossier_of(body)
        if "Stock has not been measured yet" in text:
            return action("measure", probe="load", target="stock")
        promoted = PROMOTED.search(text)
        if promoted is not None:
            return action("prove", candidate=promoted[1])
        waiting = WAITING.search(text)
        if waiting is not None and waiting[1] not in self._shown:
            self._shown.add(waiting[1])
            self._approve(waiting[1])
            return action("recall", section="tried", start=1)
        return self._first(text) or self._second(text) or conclude(text)

    def _first(self, text: str) -> Reply | None:
        if "\n- C1 [" in text:
            return None
        if "\n- H1 " not in text:
            return action("hypothesise", **PREFIX) if "use_cache in" in text else _find()
        if "hunk_mismatch" not in text:
            return _propose("H1", STALE)
        return _propose("H1", diff("keep_the_prefix") if "protected" in text else EVALUATOR)

    def _second(self, text: str) -> Reply | None:
        if "\n- H2 " not in text:
            return action("hypothesise", **LOOP) if "slow_server/text.py:1-" in text else _read(text)
        if "\n- C2 [" not in text:
            return _propose("H2", diff("tokenise_off_the_loop"))
        alone = "\n- C3 [" in text or "on C1 |" not in text
        return None if alone else _propose("H2", diff("tokenise_off_the_loop"), base="stock")


def prose(policy: Callable[[Mapping[str, Any]], Reply]) -> Callable[[Mapping[str, Any]], Reply]:
    """The same model, of a kind that calls no tools: words, one JSON object, and a diff in a fence."""

    def speak(body: Mapping[str, Any]) -> Reply:
        reply = policy(body)
        call = reply.calls[0]
        assert not isinstance(call.arguments, str)
        fields = dict(call.arguments)
        patch = fields.pop("diff", None)
        words = (
            f"Having looked at the figures I would {call.name} next.\n\n{json.dumps({'kind': call.name, **fields})}\n"
        )
        return say(f"{words}\n```diff\n{patch}```\n" if patch else words)

    return speak


def _find() -> Reply:
    return action("search_code", text="use_cache", files="*.py")


def _read(text: str) -> Reply:
    path = "slow_server/text.py" if "slow_server/app.py:1-" in text else "slow_server/app.py"
    return Reply(calls=(Call("read", {"path": path}),))


def _propose(hypothesis: str, patch: str, base: str = "best") -> Reply:
    return action("propose", hypothesis=hypothesis, changes=[], diff=patch, base=base)
