"""Prompts of an exact length in the server's own tokens, alone or behind shared prefixes.

Words that the server's tokenizer makes exactly one token of are found by asking it about whole groups of words; a
prompt of n tokens is then n such words, less what the chat template adds. One prompt of each extreme length is counted
by the server before any is used. Every prompt is drawn from a stream of its own, so equal seeds give equal prompts
and other seeds share nothing. Covered: fixed lengths and ranges, shared prefixes by group, blocks named by a trace.
Not covered: text that means something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from probes.load.tokens import Count
from probes.load.types import Prompt

LEAD = "list"
FEWEST_WORDS, ENOUGH_WORDS = 32, 64
Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Words of one token each; `overhead` tokens are added around a prompt (the template, and a first word's mark)."""

    words: tuple[str, ...]
    overhead: int

    def text(self, tokens: int, picks: Sequence[int]) -> str:
        """A prompt of exactly `tokens` tokens: the lead word and the picked ones."""
        wanted = tokens - self.overhead - 1
        if wanted < 1:
            raise ValueError(
                f"a prompt of {tokens} tokens is too short: the server adds {self.overhead}, and 2 words are needed"
            )
        return " ".join([LEAD, *(self.words[pick % len(self.words)] for pick in picks[:wanted])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is asked for: lengths in tokens, inclusive ranges; `prefix_tokens` of each are shared within its group."""

    input_tokens: Range
    output_tokens: Range | None = None
    prefix_tokens: int = 0
    groups: int = 1

    def __post_init__(self) -> None:
        for low, high in (self.input_tokens, self.output_tokens or (1, 1)):
            if not 1 <= low <= high:
                raise ValueError(f"a range of tokens begins at 1 or above and does not fall: {low} to {high}")
        if self.prefix_tokens < 0 or self.groups < 1 or self.prefix_tokens >= self.input_tokens[0]:
            raise ValueError("the shared prefix is shorter than the shortest prompt, and there is at least one group")


def find_vocabulary(count: Count) -> Vocabulary:
    """Ask the server which words are one token each. ValueError when too few are."""
    text = resources.files("probes.load").joinpath("data", "words.txt").read_text(encoding="utf-8")
    alone = count(Prompt.of(LEAD))
    good = _single(tuple(text.split()), count, alone)
    if len(good) < FEWEST_WORDS:
        raise ValueError(f"the server's tokenizer makes one token of only {len(good)} of {len(text.split())} words")
    return Vocabulary(words=good, overhead=alone - 1)


def _single(words: tuple[str, ...], count: Count, alone: int) -> tuple[str, ...]:
    """Enough of the words that add one token each, found by halving groups that add more."""
    good: tuple[str, ...] = ()
    groups = [words]
    while groups and len(good) < ENOUGH_WORDS:
        group = groups.pop()
        if count(Prompt.of(" ".join([LEAD, *group]))) - alone == len(group):
            good += group
        elif len(group) > 1:
            middle = len(group) // 2
            groups += [group[:middle], group[middle:]]
    return good


def make_prompts(vocabulary: Vocabulary, shape: Shape, number: int, seed: int) -> tuple[Prompt, ...]:
    """`number` prompts of this shape, each unlike the others behind its shared prefix."""
    prompts = []
    for index in range(number):
        random = _stream(seed, 0, index)
        tokens = int(random.integers(shape.input_tokens[0], shape.input_tokens[1] + 1))
        shared = _stream(seed, 1, index % shape.groups).integers(0, 1 << 30, shape.prefix_tokens)
        own = random.integers(0, 1 << 30, tokens)
        output = shape.output_tokens
        prompts.append(
            prompt_of(
                vocabulary.text(tokens, [*shared.tolist(), *own.tolist()]),
                tokens,
                int(random.integers(output[0], output[1] + 1)) if output else None,
            )
        )
    return tuple(prompts)


def block_text(
    vocabulary: Vocabulary, tokens: int, blocks: Sequence[int], block_tokens: int, seed: int, number: int
) -> str:
    """A text whose blocks are named: equal names are equal text, as in the traffic that the trace was taken from.

    What the blocks leave open is filled with words of prompt `number` alone.
    """
    picks: list[int] = []
    for block in blocks:
        picks += _stream(seed, 2, block).integers(0, 1 << 30, block_tokens).tolist()
    missing = tokens - len(picks)
    if missing > 0:
        picks += _stream(seed, 3, number).integers(0, 1 << 30, missing).tolist()
    return vocabulary.text(tokens, picks)


def verify(prompts: Sequence[Prompt], count: Count) -> None:
    """Let the server count the shortest and the longest prompt. ValueError when it counts otherwise."""
    ordered = sorted(prompts, key=lambda prompt: prompt.tokens or 0)
    for prompt in (ordered[0], ordered[-1]) if ordered else ():
        found = count(prompt)
        if found != prompt.tokens:
            raise ValueError(f"a prompt meant to have {prompt.tokens} tokens has {found} on this server")


def prompt_of(text: str, tokens: int, max_tokens: int | None) -> Prompt:
    """One user message of a known length."""
    plain = Prompt.of(text)
    return Prompt(plain.messages, max_tokens=max_tokens, tokens=tokens)


def _stream(seed: int, kind: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(kind, number)))
