"""Histories and registers read like tuples and dictionaries, grow without copying, and never show what came later."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra_agent.ledger.history import History, Register


@given(st.lists(st.integers()), st.integers(-12, 12), st.integers(-12, 12))
def test_it_reads_like_a_tuple(items, start, stop):
    history, expected = History(items), tuple(items)
    assert (list(history), len(history)) == (list(expected), len(expected))
    assert history == expected
    assert repr(history) == repr(expected)
    assert hash(history) == hash(expected)
    assert history[start:stop] == expected[start:stop]
    assert list(reversed(history)) == list(reversed(expected))
    if items:
        assert (history[0], history[-1]) == (expected[0], expected[-1])


def test_an_older_one_does_not_see_what_a_newer_one_added():
    first = History([1, 2])
    second = first.with_item(3)
    third = second.with_item(4)
    assert [tuple(each) for each in (first, second, third)] == [(1, 2), (1, 2, 3), (1, 2, 3, 4)]
    with pytest.raises(IndexError):
        first[2]
    assert first[-1] == 2
    assert 3 not in first


def test_two_that_grow_from_the_same_point_part_ways():
    base = History([1])
    left, right = base.with_item(2), base.with_item(3)
    assert (tuple(left.with_item(4)), tuple(right.with_item(5))) == ((1, 2, 4), (1, 3, 5))
    assert tuple(base) == (1,)


def test_growing_does_not_copy():
    history, started = History(range(1_000_000)), time.thread_time()
    for number in range(2000):
        history = history.with_item(number)
    assert time.thread_time() - started < 1.0
    assert len(history) == 1_002_000


def register_of(pairs):
    register: Register[int] = Register()
    for key, value in pairs:
        register = register.with_item(key, value)
    return register


@given(st.dictionaries(st.text(max_size=3), st.integers()))
def test_a_register_reads_like_a_dictionary(items):
    register = register_of(items.items())
    assert register == items
    assert (list(register), list(register.values()), list(register.items())) == (
        list(items),
        list(items.values()),
        list(items.items()),
    )
    assert (len(register), repr(register)) == (len(items), repr(items))
    assert register.keys() - {"a"} == items.keys() - {"a"}


def test_an_older_register_does_not_see_a_newer_ones_entries():
    first = register_of([("a", 1)])
    second, other = first.with_item("b", 2), first.with_item("b", 3)
    assert (dict(first), dict(second), dict(other)) == ({"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert "b" not in first
    with pytest.raises(KeyError):
        first["b"]
    assert dict(second.with_item("c", 4)) == {"a": 1, "b": 2, "c": 4}
    with pytest.raises(KeyError, match="taken"):
        second.with_item("a", 9)
