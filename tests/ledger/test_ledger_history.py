"""A history reads like a tuple, grows without copying, and never shows an older reader what came later."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra_agent.ledger.history import History


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
