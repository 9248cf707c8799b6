"""The loop that client and mock server run on: timers, sockets, idle work, on either kind of poller."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from probes.load.wire.loop import Loop, open_loop
from probes.load.wire.poller import READ, WRITE, EpollPoller, Poller, SelectorPoller


@pytest.fixture(params=[EpollPoller, SelectorPoller])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    make: Callable[[], Poller] = request.param
    made = Loop(make())
    yield made
    made.close()


def test_timers_are_called_in_order_and_never_early(loop: Loop) -> None:
    called: list[tuple[int, float]] = []
    start_s = time.perf_counter()
    delays = [0.012, 0.0003, 0.0051, 0.0003]
    for number, delay_s in enumerate(delays):
        loop.at(start_s + delay_s, lambda number=number: called.append((number, time.perf_counter())))
    loop.at(start_s + 0.02, loop.stop)
    loop.run()
    assert [number for number, _ in called] == [1, 3, 2, 0]
    assert all(moment_s - start_s >= delays[number] for number, moment_s in called)


def test_short_waits_are_finer_than_a_millisecond() -> None:
    late_s = []
    with open_loop() as loop:
        for _ in range(200):
            due_s = time.perf_counter() + 0.0004
            loop.at(due_s, loop.stop)
            loop.run()
            late_s.append(time.perf_counter() - due_s)
    assert min(late_s) < 0.0005, "a wait rounded up to whole milliseconds is at least 0.6 ms late, always"


def test_a_cancelled_timer_is_not_called(loop: Loop) -> None:
    called: list[str] = []
    loop.at(time.perf_counter() + 0.001, lambda: called.append("no")).cancel()
    loop.at(time.perf_counter() + 0.005, loop.stop)
    loop.run()
    assert called == []


def test_sockets_are_heard_and_forgotten(loop: Loop) -> None:
    left, right = socket.socketpair()
    with left, right:
        right.setblocking(False)
        heard: list[bytes] = []

        def ready(mask: int) -> None:
            if mask & WRITE:
                loop.change(right.fileno(), READ)
                left.send(b"hello")
            elif mask & READ:
                heard.append(right.recv(100))
                loop.forget(right.fileno())
                left.send(b"nobody hears this")
                loop.at(time.perf_counter() + 0.01, loop.stop)

        loop.watch(right.fileno(), READ | WRITE, ready)
        loop.run()
    assert heard == [b"hello"]


def test_idle_work_is_done_in_slices_and_waits_for_sockets(loop: Loop) -> None:
    left, right = socket.socketpair()
    with left, right:
        right.setblocking(False)
        order: list[str] = []
        work = iter(range(5))

        def idle() -> bool:
            number = next(work, None)
            if number is None:
                return False
            order.append("idle")
            if number == 1:
                left.send(b"x")
            return True

        def ready(_: int) -> None:
            right.recv(10)
            order.append("read")

        loop.watch(right.fileno(), READ, ready)
        loop.at(time.perf_counter() + 0.05, loop.stop)
        loop.run(idle)
    assert order == ["idle", "idle", "read", "idle", "idle", "idle"]


def test_a_long_turn_is_remembered(loop: Loop) -> None:
    loop.at(time.perf_counter(), lambda: time.sleep(0.03))
    loop.at(time.perf_counter() + 0.04, loop.stop)
    loop.run()
    assert loop.longest_turn_s >= 0.03
