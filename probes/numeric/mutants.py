"""How strong is the answer check? Broken answer sets made from a good one, and how many of them are refused.

Covered: mutants that differ from the reference in one answer wherever possible, which is the hardest kind to notice.
Not covered: mutants of the engine itself; an answer changed only behind a near-tie, within what the check tolerates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from probes.base import Verdict
from probes.numeric.compare import TOLERANCE_NAT, compare
from probes.numeric.types import Answer, Oracle

KILL_RATE_NEEDED = 0.9
Words = list[str]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken answer set, and what was done to it."""

    name: str
    answers: tuple[Answer, ...]


class KillRate(NamedTuple):
    """Refused mutants, all mutants, and the names of those that passed."""

    killed: int
    total: int
    survivors: tuple[str, ...]

    @property
    def sufficient(self) -> bool:
        """Whether a `pass` of this check means something here."""
        return self.total > 0 and self.killed / self.total >= KILL_RATE_NEEDED


def kill_rate(reference: Sequence[Answer], oracle: Oracle | None, tolerance_nat: float = TOLERANCE_NAT) -> KillRate:
    """Compare every mutant with the reference; only a `pass` lets one survive."""
    made = list(mutants(reference))
    survivors = tuple(
        mutant.name
        for mutant in made
        if compare(reference, mutant.answers, oracle=oracle, tolerance_nat=tolerance_nat).verdict is Verdict.PASS
    )
    return KillRate(len(made) - len(survivors), len(made), survivors)


def mutants(reference: Sequence[Answer]) -> Iterator[Mutant]:
    """Every mutant that can be made from these answers and differs from them."""
    answers = tuple(reference)
    target = max(range(len(answers)), key=lambda at: len(answers[at].text.split()), default=None)
    if target is None:
        return
    for name, change in _TEXT_CHANGES.items():
        yield from _if_different(name, answers, _edit(answers, target, change))
    for name, changed in _set_changes(answers, target):
        yield from _if_different(name, answers, changed)


def _if_different(name: str, before: tuple[Answer, ...], after: tuple[Answer, ...]) -> Iterator[Mutant]:
    if after != before:
        yield Mutant(name, after)


def _edit(answers: tuple[Answer, ...], target: int, change: Callable[[str], str]) -> tuple[Answer, ...]:
    text = change(answers[target].text)
    return _put(answers, target, replace(answers[target], text=text, logprobs=None))


def _put(answers: tuple[Answer, ...], target: int, answer: Answer) -> tuple[Answer, ...]:
    return (*answers[:target], answer, *answers[target + 1 :])


def _on_words(change: Callable[[Words, int], Words]) -> Callable[[str], str]:
    """A change of the word list around its middle. Splitting at single spaces keeps line breaks inside words."""

    def apply(text: str) -> str:
        words = text.split(" ")
        return " ".join(change(words, len(words) // 2)) if len(words) > 3 else text

    return apply


def _other_word(words: Words, at: int) -> Words:
    """A word of the same text, of the nearest length, takes the place: plausible at a glance."""
    others = [word for word in words if word.strip() and word.lower() != words[at].lower()]
    nearest = min(others, key=lambda word: abs(len(word) - len(words[at])), default=words[at])
    return [*words[:at], nearest, *words[at + 1 :]]


def _repeat_sentence(text: str) -> str:
    end = text.find(". ") + 2
    return text[:end] + text if end > 1 else text + " " + text


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


_TEXT_CHANGES: dict[str, Callable[[str], str]] = {
    "one word replaced in the middle": _on_words(_other_word),
    "one word dropped": _on_words(lambda words, at: words[:at] + words[at + 1 :]),
    "one word doubled": _on_words(lambda words, at: words[: at + 1] + words[at:]),
    "two words swapped": _on_words(lambda words, at: [*words[:at], *words[at : at + 2][::-1], *words[at + 2 :]]),
    "a negation added": _on_words(lambda words, at: [*words[:at], "not", *words[at:]]),
    "first letter lower-cased": _lower_first,
    "all upper case": str.upper,
    "sentence repeated": _repeat_sentence,
    "spaces doubled": lambda text: text.replace(" ", "  "),
    "text appended": lambda text: text + " I hope this helps!",
    "last word replaced": lambda text: text.rsplit(" ", 1)[0] + " banana",
    "empty": lambda _text: "",
}


def _set_changes(answers: tuple[Answer, ...], target: int) -> Iterator[tuple[str, tuple[Answer, ...]]]:
    chosen = answers[target]
    third = chosen.text[: len(chosen.text) * 2 // 3]
    fewer = None if chosen.output_tokens is None else chosen.output_tokens * 2 // 3
    cut = replace(chosen, text=third, output_tokens=fewer, logprobs=None)
    yield "cut by a third, says length", _put(answers, target, replace(cut, finish_reason="length"))
    yield "cut by a third, says stop", _put(answers, target, replace(cut, finish_reason="stop"))
    unreported = replace(cut, output_tokens=chosen.output_tokens, finish_reason="length")
    yield "cut by a third, token count unchanged", _put(answers, target, unreported)
    yield "one answer missing", answers[:target] + answers[target + 1 :]
    yield "one request failed", _put(answers, target, replace(chosen, text="", error="HTTP 500"))
    yield "all answers empty", tuple(replace(answer, text="", logprobs=None) for answer in answers)
    yield "another model's name", tuple(replace(answer, model=f"{answer.model}-small") for answer in answers)
    yield "another prompt", _put(answers, target, replace(chosen, prompt=f"{chosen.prompt} "))
    yield "all the same answer", tuple(replace(answer, text=chosen.text, logprobs=None) for answer in answers)
    other = (target + 1) % len(answers)
    mine, theirs = (replace(answers[a], text=answers[b].text) for a, b in ((target, other), (other, target)))
    yield "two answers swapped", _put(_put(answers, target, mine), other, theirs)
