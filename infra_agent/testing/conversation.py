"""Conversations with a real model, recorded from a run's ledger and replayed without the model.

A recording is a JSON Lines file: what was asked and what was answered, in order. The replay answers by order, also a
question that differs from the recorded one: a dossier holds measured times.
Not covered: retries and errors of the endpoint; they leave no answer to record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra_agent.errors import ConfigError
from infra_agent.ledger import artifacts
from infra_agent.ledger.chain import read_chain
from infra_agent.ledger.fold import fold
from infra_agent.testing.replies import Call, Reply
from infra_agent.testing.scripted_llm import ScriptedLlm


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One question and its answer. `purpose` is decide or capability."""

    purpose: str
    model: str
    request: Mapping[str, Any]
    answer: Mapping[str, Any]


def record(run_dir: Path, to: Path) -> int:
    """Write a run's answered questions to a file; returns their number."""
    turns = conversation_of(run_dir)
    lines = [
        json.dumps({"purpose": t.purpose, "model": t.model, "request": t.request, "answer": t.answer}) for t in turns
    ]
    to.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(turns)


def conversation_of(run_dir: Path) -> tuple[Turn, ...]:
    """A run's answered questions, in order."""
    state = fold(read_chain(run_dir).events)
    turns = []
    for call in state.llm_calls.values():
        if call.answered is None or not call.answered.response_artifact:
            continue
        request = json.loads(artifacts.path_of(run_dir, call.asked.request_artifact).read_bytes())
        answer = json.loads(artifacts.path_of(run_dir, call.answered.response_artifact).read_bytes())
        turns.append(Turn(purpose=call.asked.purpose, model=call.asked.model, request=request, answer=answer))
    return tuple(turns)


def load_conversation(path: Path) -> tuple[Turn, ...]:
    """Read a recording; ConfigError names the first line that is none."""
    turns = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"the conversation cannot be read: {error.strerror}", where=str(path)) from error
    for number, line in enumerate(lines, start=1):
        try:
            turns.append(Turn(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"not a recorded turn: {error}", where=f"{path}:{number}") from error
    if not turns:
        raise ConfigError("the conversation is empty", where=str(path))
    return tuple(turns)


def replay(turns: Sequence[Turn]) -> ScriptedLlm:
    """A model that says again what was recorded, question by question."""
    asked = [turn for turn in turns if turn.purpose == "decide"]
    checks = [turn for turn in turns if turn.purpose != "decide"]
    features = {"stream", "stream_usage", "models"}
    features |= {"tools"} if any("tools" in turn.request for turn in (*asked, *checks)) else set()
    features |= {"json_schema"} if any("response_format" in turn.request for turn in asked) else set()
    replies = [_reply(turn.answer) for turn in asked]
    return ScriptedLlm(policy=replies, model=turns[0].model, features=frozenset(features))


def _reply(answer: Mapping[str, Any]) -> Reply:
    usage = answer.get("usage")
    return Reply(
        content=str(answer.get("content", "")),
        reasoning=str(answer.get("reasoning", "")),
        refusal=str(answer.get("refusal", "")),
        calls=tuple(Call(name, arguments) for _, name, arguments in answer.get("calls", ())),
        finish=str(answer.get("finish", "")),
        usage=(usage["input"], usage["output"]) if usage else None,
    )
