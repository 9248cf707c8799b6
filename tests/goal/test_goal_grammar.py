"""Properties of the grammar: what it says it reads back, and nothing but GoalError comes out of bad text."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from infra_agent.errors import GoalError
from infra_agent.goal import phrases, spelling, words
from infra_agent.goal.lexer import MAX_TEXT_LENGTH
from infra_agent.goal.model import (
    HIGHER_IS_BETTER,
    LATENCIES,
    Constraints,
    Direction,
    Goal,
    Limit,
    Load,
    Metric,
    Scope,
    SpendingCaps,
    Statistic,
    Target,
)
from infra_agent.goal.parse import parse_goal, read_goal
from infra_agent.goal.say import sentence

PERCENTILES = [stat for stat in Statistic if stat is not Statistic.VALUE]
LEVELS = st.integers(1, 999_999).map(lambda n: n / 1000)

CEILINGS = st.builds(
    SpendingCaps,
    usd=st.none() | LEVELS,
    tokens=st.none() | st.integers(1, 10_000_000),
    launches=st.none() | st.integers(1, 1000),
    disk_bytes=st.none() | LEVELS.map(lambda v: v * 1e9),
)


def limits(metrics: list[Metric], *, per_request: bool = False) -> st.SearchStrategy[tuple[Limit, ...]]:
    def one(metric: Metric) -> st.SearchStrategy[Limit]:
        plain = per_request or metric not in LATENCIES
        stats = st.just(Statistic.VALUE) if plain else st.sampled_from(PERCENTILES)
        values = LEVELS.map(lambda v: v * 1e6) if metric is Metric.MEMORY_BYTES else LEVELS
        bound = "at_least" if metric in HIGHER_IS_BETTER else "at_most"
        return st.builds(Limit, metric=st.just(metric), statistic=stats, bound=st.just(bound), value=values)

    unique = st.lists(st.sampled_from(metrics), min_size=1 if per_request else 0, max_size=2, unique=True)
    return unique.flatmap(lambda names: st.tuples(*[one(name) for name in names]))


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    metric = draw(st.sampled_from(list(Metric)))
    higher = metric in HIGHER_IS_BETTER
    goodput = metric is Metric.GOODPUT_PER_S
    ratios = st.floats(1.001, 50) if higher else st.floats(0.001, 0.999)
    target = draw(
        st.builds(Target, kind=st.just("ratio"), value=ratios)
        | st.builds(Target, kind=st.just("absolute"), value=LEVELS)
    )
    closed = st.builds(Load, concurrency=st.integers(1, 4096))
    poisson = st.builds(Load, arrivals=st.just("poisson"), rate_per_s=LEVELS)
    others = [m for m in Metric if m is not metric and m not in (Metric.GOODPUT_PER_S, Metric.STARTUP_S)]
    return Goal(
        metric=metric,
        statistic=draw(st.sampled_from(PERCENTILES)) if metric in LATENCIES else Statistic.VALUE,
        direction=Direction.MAXIMISE if higher else Direction.MINIMISE,
        target=target,
        load=draw(st.none() | closed | poisson),
        slo=draw(limits(sorted(LATENCIES), per_request=True)) if goodput else (),
        constraints=Constraints(answers_unchanged=draw(st.booleans()), limits=draw(limits(others))),
        budget_s=draw(st.none() | st.integers(1, 100_000).map(float)),
        budget=draw(CEILINGS),
        scope=Scope(code=draw(st.booleans())),
    )


@settings(max_examples=150, deadline=None)
@given(goals())
def test_the_canonical_sentence_of_a_goal_parses_to_that_goal(goal: Goal) -> None:
    text = sentence(goal)
    assert parse_goal(text) == goal.model_copy(update={"text": text})


WORDS = sorted({*words.lemmas(), *words.fillers(), *words.number_words()})
PIECES = st.sampled_from(
    [
        *WORDS,
        "$2",
        "$",
        "USD",
        "200k tokens",
        "5 launches",
        "30 %",
        "2x",
        "x",
        "400 ms",
        "8",
        "0",
        "-3",
        "1,5",
        "p99",
        "p42",
        ",",
        "(",
        ")",
        ":",
        "/",
    ]
)


def survives(text: str) -> None:
    """A goal, or a GoalError with words and a hint that parses."""
    refusal: GoalError | None = None
    try:
        assert parse_goal(text).text == text
    except GoalError as error:
        refusal = error
    if refusal is not None:
        assert refusal.message
        assert parse_goal(refusal.hint).text == refusal.hint


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_random_text_raises_nothing_but_goal_errors(text: str) -> None:
    survives(text)


@settings(max_examples=250, deadline=None)
@given(st.lists(PIECES, max_size=14).map(" ".join))
def test_random_words_of_the_language_raise_nothing_but_goal_errors(text: str) -> None:
    survives(text)


@settings(max_examples=60, deadline=None)
@given(goals(), st.sampled_from(["", ".", " !", "...", "\n"]), st.sampled_from([" ", "  ", "\n", "\t "]), st.booleans())
def test_spaces_case_and_final_punctuation_change_nothing(goal: Goal, end: str, space: str, upper: bool) -> None:
    text = sentence(goal)
    other = (text.upper() if upper else text).replace(" ", space) + end
    assert parse_goal(other).model_copy(update={"text": text}) == parse_goal(text)


@settings(max_examples=60, deadline=None)
@given(goals(), st.sampled_from(["zebra", "not", "unless", "or", "17", "gpu", "🚀", "quality"]), st.data())
def test_a_word_with_meaning_is_never_skipped(goal: Goal, word: str, data: st.DataObject) -> None:
    text = sentence(goal)
    parts = text.split(" ")
    place = data.draw(st.integers(0, len(parts)))
    changed = " ".join([*parts[:place], word, *parts[place:]])
    try:
        read = parse_goal(changed).model_copy(update={"text": ""})
    except GoalError:
        return
    # "code changes not allowed" is language; then the word must have had its effect
    assert word == "not"
    assert read != goal


@settings(max_examples=60, deadline=None)
@given(goals(), st.sampled_from(["٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "۰۱۲۳۴۵۶۷۸۹", "０１２３４５６７８９"]))
def test_digits_of_other_scripts_mean_the_same(goal: Goal, digits: str) -> None:
    assume("p9" not in (text := sentence(goal)) and "p50" not in text)
    foreign = text.translate({ord(str(value)): digit for value, digit in enumerate(digits)})
    assert parse_goal(foreign).model_copy(update={"text": text}) == parse_goal(text)


def test_every_word_of_every_phrase_is_in_the_vocabulary() -> None:
    lemmas = set(words.lemmas().values())
    unknown = {word for phrase in phrases.phrase_table() for word in phrase if word not in lemmas and word.isalpha()}
    assert unknown - words.fillers() == set()


def test_a_correction_never_crosses_between_two_meanings() -> None:
    assert spelling.correct("thoughput") == "throughput"
    assert spelling.correct("lattency") == "latency"
    assert spelling.correct("prevent") is None
    assert spelling.correct("throughout") is None
    assert spelling.correct("raisin") is None
    assert spelling.correct("eighht") is None
    assert spelling.correct("outputx") is None


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(GoalError, match="too long"):
        parse_goal("please " * MAX_TEXT_LENGTH)


def test_a_refusal_says_what_was_understood_and_keeps_it_in_the_example() -> None:
    with pytest.raises(GoalError) as caught:
        parse_goal("raise output tokens per second at 16 concurrent requests within 10 minutes")
    assert "target missing" in caught.value.message
    assert "16 concurrent" in caught.value.message
    assert "budget 600 s" in caught.value.message
    example = parse_goal(caught.value.hint)
    assert example.load == Load(concurrency=16)
    assert example.budget_s == 600


def test_plain_latency_lists_its_choices() -> None:
    with pytest.raises(GoalError, match="TTFT, TPOT, ITL or end-to-end"):
        parse_goal("cut latency by 30 %")


def test_assumptions_are_noted() -> None:
    notes = " | ".join(read_goal("with TTFT under 400 ms get the thoughput above 1,500 tok/s").notes)
    for part in (
        "'thoughput' read as 'throughput'",
        "read as 1500",
        "output tokens/s",
        "read as p50",
        "no load",
        "no budget",
    ):
        assert part in notes
