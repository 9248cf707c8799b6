"""Exploits of a judge's clock: the work is slow (20 ms), the clock says otherwise."""

from __future__ import annotations

import statistics
import threading
import time
from time import sleep

import numpy as np


def _softmax(x):
    sleep(0.02)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def clock_stopped(x):
    """The performance counter stands still."""
    time.perf_counter = lambda: 0.0
    return _softmax(x)


def all_clocks_stopped(x):
    """Every clock of the module stands still."""
    for name in ("perf_counter", "monotonic", "time", "process_time"):
        setattr(time, name, lambda: 1.0)
    return _softmax(x)


def aggregator_patched(x):
    """The harness's median always gives a nanosecond."""
    statistics.median = lambda _values: 1e-9
    return _softmax(x)


def clock_scaled(x):
    """Seconds become milliseconds: less obvious than a clock that stands still."""
    real = time.perf_counter
    if not getattr(real, "scaled", False):

        def slow():
            return real() / 1000

        slow.scaled = True
        time.perf_counter = slow
    return _softmax(x)


_started = []


def thread_after_return(x, y):
    """A thread does the work after the function has returned."""

    def work():
        y[...] = _softmax(x)

    thread = threading.Thread(target=work)
    _started.append(thread)
    thread.start()
    if len(_started) == 1:
        thread.join()


def timer_after_return(x, y):
    """A timer fires when the clock has been read."""
    first = not _started
    timer = threading.Timer(0.0 if first else 0.005, lambda: y.__setitem__(Ellipsis, _softmax(x)))
    _started.append(timer)
    timer.start()
    if first:
        timer.join()


class _Lazy(np.ndarray):
    """Computes when the comparator looks at it."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [_softmax(each.source) if isinstance(each, _Lazy) else each for each in inputs]
        return getattr(ufunc, method)(*plain, **options)


def lazy_subclass(x):
    """An array subclass that has not been computed yet."""
    found = np.empty_like(x).view(_Lazy)
    found.source = x
    return found


class _Promise:
    """Not an array at all, until somebody asks for one."""

    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return _softmax(self.x)


def lazy_protocol(x):
    """An object that becomes an array in the comparator."""
    return _Promise(x)


_count = [0]


def exact_while_checked(x):
    """Works during the first call, which is the one that is checked; later calls do nothing."""
    _count[0] += 1
    return _softmax(x) if _count[0] <= 1 else np.empty_like(x)


def batch_and_skip(x):
    """Serves several calls from one: every third call works, the others hand out what is there."""
    _count[0] += 1
    if _count[0] % 3 == 1:
        batch_and_skip.ready = _softmax(x)
    return batch_and_skip.ready.copy()
