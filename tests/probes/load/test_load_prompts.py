"""Prompt sets and the digest of the work they describe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probes.load.prompts import digest, load_prompts
from probes.load.types import Message, Prompt


def test_the_built_in_sets_hold_distinct_prompts() -> None:
    chat, answers = load_prompts("short-chat"), load_prompts("builtin:answers")
    assert len(set(chat)) == len(chat) >= 64
    assert len(set(answers)) == 8
    assert len({prompt.messages[0].content[:12] for prompt in chat}) > 50


def test_rows_of_prompts_and_of_messages_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi\u2028there"}]
    rows = [json.dumps({"prompt": "one", "id": 4}), "", json.dumps({"messages": talk}, ensure_ascii=False)]
    path.write_text("\n".join(rows), encoding="utf-8")
    first, second = load_prompts(path)
    assert first == Prompt.of("one")
    assert second.messages == (Message("system", "Be brief."), Message("user", "Hi\u2028there"))


def test_sharegpt_gives_the_turns_up_to_the_first_human_one(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    turns = [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
    path.write_text(json.dumps([{"id": "1", "conversations": turns}]))
    assert load_prompts(path) == (Prompt((Message("system", "s"), Message("user", "q"))),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a"}\n{oops', ":2: not JSON"),
        ('{"prompt": "a"}\n\n{"text": "b"}', ":3: a row is an object"),
        ('{"prompt": "a", "messages": []}', ":1: a row is an object"),
        ('{"prompt": "  "}', ":1: prompt must be text"),
        ('{"prompt": 3}', ":1: prompt must be text"),
        ('{"messages": []}', ":1: messages must be a list"),
        ('{"messages": [{"role": "user", "content": [1]}]}', ":1: message 1 must be text"),
        ('{"messages": ["hi"]}', ":1: message 1 must be an object"),
        ("\n\n", "holds no prompts"),
        ("[]", "holds no prompts"),
        ("[{", "not JSON"),
        ('[{"conversations": [{"from": "gpt", "value": "a"}]}]', "entry 1: the conversation does not begin"),
        ("[7]", "entry 1: a ShareGPT entry is an object"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_prompts(path)


def test_what_cannot_be_read_is_refused_with_its_cause(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        load_prompts(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="no built-in prompt set 'long'; there are answers and short-chat"):
        load_prompts("builtin:long")
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe9"}')
    with pytest.raises(ValueError, match="not UTF-8"):
        load_prompts(tmp_path / "latin.jsonl")


def test_the_digest_changes_with_everything_that_changes_the_work() -> None:
    one, two = Prompt.of("one"), Prompt.of("two")
    same = digest((one, two), 32, 4, "chat")
    assert same == digest((one, two), 32, 4, "chat")
    others = {
        digest((two, one), 32, 4, "chat"),
        digest((one, two), 33, 4, "chat"),
        digest((one, two), 32, 5, "chat"),
        digest((one, two), 32, 4, "completions"),
        digest((Prompt((Message("system", "one"),)), two), 32, 4, "chat"),
    }
    assert len(others | {same}) == 6


def test_prompts_that_are_never_sent_do_not_change_the_digest() -> None:
    one, two, three = (Prompt.of(text) for text in ("one", "two", "three"))
    assert digest((one, two), 32, 2, "chat") == digest((one, two, three), 32, 2, "chat")
