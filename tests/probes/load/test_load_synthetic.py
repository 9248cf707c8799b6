"""Prompts of an exact length by the server's own count, and recorded traffic made of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from load_samples import ask, window

from probes.base import Verdict
from probes.load.client import Client
from probes.load.mock.process import MockProcess
from probes.load.mock.prompt import TEMPLATE_TOKENS
from probes.load.mock.script import Script
from probes.load.synthetic import LEAD, Shape, Vocabulary, find_vocabulary, make_prompts, verify
from probes.load.tokens import ServerTokens
from probes.load.traces import arrivals_of, prompts_of, read_trace
from probes.load.types import Closed, Prompt

WORDS = Vocabulary(words=tuple(f"w{n}" for n in range(97)), overhead=7)


def counted(prompt: Prompt) -> int:
    """A tokenizer that makes two tokens of every word with a double letter."""
    words = prompt.messages[0].content.split()
    return 5 + sum(2 if any(a == b for a, b in zip(word, word[1:], strict=False)) else 1 for word in words)


def test_only_words_of_one_token_are_used() -> None:
    calls = Counter[str]()

    def count(prompt: Prompt) -> int:
        calls["n"] += 1
        return counted(prompt)

    found = find_vocabulary(count)
    assert len(found.words) >= 64
    assert all(counted(Prompt.of(f"{LEAD} {word}")) == 7 for word in found.words)
    assert found.overhead == 5
    assert calls["n"] < 100


def test_a_tokenizer_without_such_words_is_refused() -> None:
    with pytest.raises(ValueError, match="makes one token of only"):
        find_vocabulary(lambda prompt: len(prompt.messages[0].content))


def test_lengths_are_exact_within_their_range_and_equal_for_equal_seeds() -> None:
    shape = Shape(input_tokens=(50, 80), output_tokens=(5, 9))
    prompts = make_prompts(WORDS, shape, 200, seed=3)
    assert {prompt.tokens for prompt in prompts} <= set(range(50, 81))
    assert len({prompt.tokens for prompt in prompts}) > 20
    assert all(7 + len(prompt.messages[0].content.split()) == prompt.tokens for prompt in prompts)
    assert {prompt.max_tokens for prompt in prompts} == set(range(5, 10))
    assert prompts == make_prompts(WORDS, shape, 200, seed=3)
    assert prompts[:50] == make_prompts(WORDS, shape, 50, seed=3)
    other = make_prompts(WORDS, shape, 200, seed=4)
    assert not {p.messages[0].content[:30] for p in prompts} & {p.messages[0].content[:30] for p in other}


def test_prefixes_are_shared_within_a_group_and_nothing_else_is() -> None:
    prompts = make_prompts(WORDS, Shape(input_tokens=(60, 60), prefix_tokens=40, groups=3), 30, seed=1)
    heads = [tuple(prompt.messages[0].content.split()[:41]) for prompt in prompts]
    assert len(set(heads)) == 3
    assert heads[0] == heads[3] != heads[1]
    assert len({prompt.messages[0].content for prompt in prompts}) == 30


@pytest.mark.parametrize(
    "shape",
    [
        lambda: Shape(input_tokens=(0, 5)),
        lambda: Shape(input_tokens=(9, 5)),
        lambda: Shape(input_tokens=(9, 9), prefix_tokens=9),
        lambda: Shape(input_tokens=(9, 9), groups=0),
    ],
)
def test_shapes_that_cannot_be_are_refused(shape: type[Shape]) -> None:
    with pytest.raises(ValueError):
        shape()


def test_a_prompt_shorter_than_the_template_is_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        make_prompts(WORDS, Shape(input_tokens=(8, 8)), 1, seed=0)


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_the_server_counts_what_was_meant(mock: MockProcess, endpoint: str) -> None:
    mock.play(Script(prefix_cache=True))
    request = ask(mock.url, endpoint=endpoint)
    with Client(request) as client:
        count = ServerTokens(client, request)
        vocabulary = find_vocabulary(count)
        prompts = make_prompts(vocabulary, Shape(input_tokens=(100, 140)), 8, seed=5)
        verify(prompts, count)
    assert count.by_page
    assert vocabulary.overhead == (TEMPLATE_TOKENS if endpoint == "chat" else 0)
    observation, result = window(ask(mock.url, endpoint=endpoint, prompts=prompts))
    assert observation.verdict is Verdict.PASS, observation.summary
    assert [record.prompt_tokens for record in result.records] == [prompt.tokens for prompt in prompts]
    assert "prompt tokens" in {check.name for check in observation.checks}


def test_a_count_that_the_server_does_not_share_is_refused(mock: MockProcess) -> None:
    mock.play(Script())
    wrong = tuple(Prompt(Prompt.of(f"word number {n}").messages, tokens=50) for n in range(8))
    observation, _ = window(ask(mock.url, prompts=wrong, arrivals=Closed(2)))
    assert {check.name for check in observation.checks if not check.ok} == {"prompt tokens"}


def test_a_server_that_cannot_count_is_named(mock: MockProcess) -> None:
    mock.play(Script(fail_every=1))
    request = ask(mock.url)
    with Client(request) as client, pytest.raises(ValueError, match="a server that counts tokens"):
        ServerTokens(client, request)


def test_a_mooncake_trace_keeps_moments_lengths_and_sharing(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 27000, "input_length": 40, "output_length": 5, "hash_ids": [1, 2, 3]},
        {"timestamp": 27500, "input_length": 36, "output_length": 7, "hash_ids": [1, 2, 9]},
        {"timestamp": 30000, "input_length": 33, "output_length": 9},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    read = read_trace(path)
    assert arrivals_of(read, "t").times_s == (0.0, 0.5, 3.0)
    assert arrivals_of(read, "t", speed=2.0).times_s == (0.0, 0.25, 1.5)
    prompts = prompts_of(read, WORDS, seed=1, block_tokens=12)
    assert [prompt.tokens for prompt in prompts] == [40, 36, 33]
    assert [7 + len(prompt.messages[0].content.split()) for prompt in prompts] == [40, 36, 33]
    assert [prompt.max_tokens for prompt in prompts] == [5, 7, 9]
    first, second, third = (prompt.messages[0].content.split() for prompt in prompts)
    assert first[:25] == second[:25]
    assert first[25:] != second[25:]
    assert first[1:9] != third[1:9]
    assert len(read_trace(path, requests=2)) == 2


def test_a_burstgpt_trace_leaves_failures_out(tmp_path: Path) -> None:
    path = tmp_path / "burst.csv"
    path.write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n"
        "118,GPT-4,417,276,693,API log\n"
    )
    read = read_trace(path)
    assert [(row.time_s, row.input_tokens, row.output_tokens) for row in read] == [(5, 472, 18), (118, 417, 276)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "neither Mooncake JSONL nor a BurstGPT table"),
        ('{"timestamp": 1}\n', ":1: a Mooncake row has"),
        ('{"timestamp": 1, "input_length": 0, "output_length": 1}\n', "a length is at least 1"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": [-4]}\n', "a hash id"),
        ("{broken\n", ":1: a Mooncake row"),
        ("a,b\n1,2\n", "neither Mooncake"),
        ("Timestamp,Request tokens,Response tokens\nx,1,1\n", ":2: could not convert"),
        ("Timestamp,Request tokens,Response tokens\n1,1,0\n", "holds no requests"),
    ],
)
def test_files_that_are_no_trace_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_trace(path)
