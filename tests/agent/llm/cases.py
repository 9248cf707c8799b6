"""Ways in which a model misbehaves, each as what it says first, what is wrong with that, and how it must end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent.llm.policies import conclude, dossier_of

from infra_agent.testing.replies import Call, Reply, action, say

MEASURE = '{"kind":"measure","probe":"load","target":"stock"}'
CONCLUDE = '{"kind":"conclude","reason":"enough"}'
HYPOTHESIS: dict[str, Any] = {
    "family": "batching", "cause": "one at a time", "place": "admission", "refuted_by": "two at once",
    "predictions": [{"rung": "load", "metric": "output_tok_per_s", "low": 1.5, "high": 3.0}],
}  # fmt: skip
JOY = {"rung": "trace", "metric": "joy", "low": 1.0, "high": 2.0}
APPROVE = action("approve", candidate="C1", reviewer="me")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`says` come first, then a sane model goes on; `for_ever`: they are said again and again instead.

    `fault`: in the ledger afterwards, as a fault of an answer or the rule that a refused action broke; empty: none.
    """

    says: tuple[Reply, ...]
    fault: str = ""
    for_ever: bool = False
    ends: Literal["goes on", "gives up"] = "goes on"
    timeout_s: float = 60.0


def once(*says: Reply, fault: str = "", **more: Any) -> Case:
    return Case(says=says, fault=fault, **more)


def always(*says: Reply, fault: str = "", **more: Any) -> Case:
    return Case(says=says, fault=fault, for_ever=True, ends="gives up", **more)


def sane(body: Mapping[str, Any]) -> Reply:
    """Concludes, with a reason for every family that the dossier calls untried."""
    return conclude(dossier_of(body))


def policy_of(case: Case) -> Any:
    """The model of a case."""
    told = 0

    def answer(body: Mapping[str, Any]) -> Reply:
        nonlocal told
        told += 1
        if case.for_ever:
            return case.says[(told - 1) % len(case.says)]
        return case.says[told - 1] if told <= len(case.says) else sane(body)

    return answer


CASES: dict[str, Case] = {
    # nothing to work with
    "an empty answer": once(say(""), fault="empty"),
    "white space": once(say(" \n\t "), fault="empty"),
    "nothing but thoughts": once(Reply(reasoning="I should measure."), fault="empty"),
    "thoughts that never end": once(say("<think>hmm, " * 50), fault="empty"),
    "nothing, for ever": always(say(""), fault="empty"),
    # no end
    "an answer without end": once(Reply(content="and " * 6000, repeat=True), fault="endless"),
    "a connection kept open and silent": once(Reply(content=MEASURE, drip_s=90.0), fault="endless",
                                              timeout_s=2.0),
    "a tool call without end": once(Reply(calls=(Call("measure", "[" * 500_000),)), fault="endless"),
    # cut
    "cut by the token limit": once(Reply(content=MEASURE[:25], finish="length"), fault="truncated"),
    "a tool call cut by the token limit": once(Reply(calls=(Call("measure", '{"probe":'),), finish="length"),
                                               fault="truncated"),
    "a stream that is cut": once(Reply(content="a long answer, cut in the middle", cut_after=2), fault="cut"),
    "a stream cut before its first word": once(Reply(content="nothing", cut_after=0), fault="cut"),
    "cut streams, for ever": always(Reply(content="a long answer, cut in the middle", cut_after=1), fault="cut"),
    # not what was asked for
    "prose without an action": once(say("Let me think about what would be best here."), fault="no_action"),
    "another language": once(say("首先我想测量一下基线,然后再决定。"), fault="no_action"),
    "a plan as a list": once(say("1. measure stock\n2. try batching\n3. conclude"), fault="no_action"),
    "XML instead of JSON": once(say("<action><kind>measure</kind></action>"), fault="no_action"),
    "Python instead of JSON": once(say("measure(probe='load', target='stock')"), fault="no_action"),
    "single quotes": once(say("{'kind': 'measure', 'probe': 'load'}"), fault="bad_json"),
    "prose around the action": once(say(f"Here you go:\n```json\n{MEASURE}\n```\nGood luck!")),
    "the action in a wrapper": once(say(json.dumps({"name": "measure", "arguments": json.loads(MEASURE)}))),
    "half an object": once(say('{"kind": "measure", "probe": "lo'), fault="bad_json"),
    "a doubled key": once(say('{"kind":"measure","kind":"conclude","reason":"x"}'), fault="bad_json"),
    "a number that is none": once(action("search", hypothesis="H1", minutes=float("nan")), fault="bad_json"),
    "an object nested without end": once(say('{"a":' * 50_000), fault="bad_json"),
    "arguments of half a megabyte": once(Reply(calls=(Call("measure", json.dumps({"probe": "x" * 300_000})),)),
                                         fault="bad_json"),
    # actions that do not exist, or not so
    "an invented tool": once(action("run_shell", command="rm -rf /"), fault="unknown_action"),
    "an invented approval": once(APPROVE, fault="unknown_action"),
    "an approval in words": once(say('{"kind":"approve","candidate":"C1"}'), fault="unknown_action"),
    "approvals, for ever": always(APPROVE, fault="unknown_action"),
    "a tool without a name": once(Reply(calls=(Call("", {}),)), fault="unknown_action"),
    "wrong types": once(action("measure", probe=["load"], target={"id": 1}), fault="bad_fields"),
    "missing fields": once(action("propose", hypothesis="H1"), fault="bad_fields"),
    "a verdict of its own": once(action("prove", candidate="C1", verdict="accepted", gain=2.5), fault="bad_fields"),
    "a lone surrogate": once(say('{"kind":"prove","candidate":"\\ud800"}'), fault="bad_fields"),
    "two actions at once": once(say(f"{MEASURE}\n{CONCLUDE}"), fault="two_actions"),
    "two launching calls at once": once(Reply(calls=(Call("measure", {"probe": "load", "target": "stock"}),
                                                     Call("conclude", {"reason": "x"})))),
    # refusals
    "a refusal in words": once(say("I'm sorry, but I cannot help with that."), fault="refusal"),
    "a refusal in its field": once(Reply(refusal="I will not."), fault="refusal"),
    "a content filter": once(Reply(content="", finish="content_filter"), fault="refusal"),
    "refusals, for ever": always(say("I'm sorry, I can't do that."), fault="refusal"),
    # against the rules of conduct
    "the end at once": once(action("conclude", reason="looks good to me"), fault="conclude_refused"),
    "the end, again and again": always(action("conclude", reason="looks good to me"), fault="conclude_refused"),
    "a proposal that cites nothing": once(
        action("propose", hypothesis="", changes=[{"parameter": "dtype", "value": "float32"}], base="best"),
        fault="no_hypothesis"),
    "a hypothesis that cannot be wrong": once(
        action("hypothesise", **{**HYPOTHESIS, "predictions": [JOY]}),
        fault="unmeasurable"),
    "the same hypothesis twice": once(action("hypothesise", **HYPOTHESIS), action("hypothesise", **HYPOTHESIS),
                                      fault="repeat"),
    "a parameter outside the space": once(
        action("hypothesise", **HYPOTHESIS),
        action("propose", hypothesis="H1", changes=[{"parameter": "device", "value": "cuda"}], base="best"),
        fault="refused"),
    "the same look again": once(action("consult", name="host-threads"), action("consult", name="host-threads"),
                                fault="repeat"),
    "measuring for ever": Case(says=(action("measure", probe="load", target="stock"),), for_ever=True, fault="repeat",
                               ends="gives up"),
    "a file outside the sources": once(action("read", path="../../../etc/passwd"), fault="refused"),
    # an endpoint that misbehaves
    "rate limits": once(Reply(status=429, error="slow down", headers={"retry-after": "0"}),
                        Reply(status=429, error="slow down", headers={"retry-after": "0"})),
    "overload, for ever": always(Reply(status=503, error="busy", headers={"retry-after": "0"}), fault="endpoint"),
    "a context that is too long": once(Reply(status=400, error="maximum context length is 900 tokens"),
                                       fault="context"),
    "a key that expires": once(Reply(status=401, error="expired"), fault="endpoint", ends="gives up"),
    "an answer that is no JSON": once(Reply(raw=b"<html>Bad gateway</html>"), fault="cut"),
    "a broken chunk": once(Reply(raw=b"data: {oops\n\n"), fault="cut"),
    "an error in the stream": once(Reply(raw=b'data: {"error": {"message": "out of memory"}}\n\n'), fault="cut"),
    "usage that is never told": once(Reply(calls=(Call("consult", {"name": ""}),), report_usage=False)),
    # text that wants to be more than text
    "markup and templates in a hypothesis": once(
        action("hypothesise", **{**HYPOTHESIS, "cause": "</script><script>alert(1)</script>{{ 7*7 }}\x1b[2J"})),
    "an approval after reading a playbook": once(action("consult", name="host-threads"), APPROVE,
                                                 fault="unknown_action"),
}  # fmt: skip
