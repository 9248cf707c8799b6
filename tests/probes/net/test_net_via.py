"""A connection handed over is the connection that was asked for, or an error; nothing else is ever accepted."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from net_help import connector, echo_server, impostor, listening

from probes.net.connector import ANSWER, CLIENTS, MAGIC, REQUEST, asked_port
from probes.net.via import HandOverError, connect, connect_async, open_connection


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def falls_back_to(count: int) -> bool:
    """The impostor works in this process too and closes its own copies a moment later."""
    until_s = time.monotonic() + 10
    while open_descriptors() != count and time.monotonic() < until_s:
        time.sleep(0.01)
    return open_descriptors() == count


def ask_raw(path: Path, message: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.settimeout(20)
        channel.connect(str(path))
        channel.send(message)
        return channel.recv(64)


def test_a_connection_handed_over_reaches_the_server(tmp_path: Path) -> None:
    with echo_server() as port, connector(tmp_path) as path, connect(path, port) as connection:
        connection.settimeout(10)
        connection.sendall(b"hello")
        assert connection.recv(16) == b"hello"
        assert connection.getpeername() == ("127.0.0.1", port)
        assert not connection.get_inheritable()
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_many_connections_at_once_are_all_handed_over(tmp_path: Path) -> None:
    async def one(path: Path, port: int, number: int) -> bytes:
        reader, writer = await open_connection(path, port)
        writer.write(f"{number}\n".encode())
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return answer

    async def all_of(path: Path, port: int) -> list[bytes]:
        return await asyncio.gather(*(one(path, port, number) for number in range(2 * CLIENTS)))

    with echo_server() as port, connector(tmp_path) as path:
        answers = asyncio.run(all_of(path, port))
    assert answers == [f"{number}\n".encode() for number in range(2 * CLIENTS)]


def test_a_port_on_which_nothing_listens_refuses_as_it_would_by_plain_tcp(tmp_path: Path) -> None:
    port = closed_port()
    with connector(tmp_path) as path:
        with pytest.raises(ConnectionRefusedError, match=str(port)):
            connect(path, port)
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(connect_async(path, port))


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_not_asked_for(tmp_path: Path, port: int) -> None:
    with connector(tmp_path) as path, pytest.raises(OSError, match="no TCP port"):
        connect(path, port)


@pytest.mark.parametrize(
    "message",
    [b"", b"x", b"port", REQUEST.pack(b"PORT", 80), REQUEST.pack(MAGIC, 0), REQUEST.pack(MAGIC, 80) + b"x", b"\0" * 60],
)
def test_garbage_is_answered_with_an_error_and_the_connector_lives_on(tmp_path: Path, message: bytes) -> None:
    assert asked_port(message) is None
    with echo_server() as port, connector(tmp_path) as path:
        if message:
            assert ANSWER.unpack(ask_raw(path, message)) == (errno.EPROTO,)
        connect(path, port).close()


def test_silent_and_vanished_clients_do_not_keep_others_waiting(tmp_path: Path) -> None:
    with echo_server() as port, connector(tmp_path) as path:
        silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(CLIENTS // 2)]
        try:
            for number, channel in enumerate(silent):
                channel.connect(str(path))
                if number % 2:
                    channel.send(REQUEST.pack(MAGIC, port))
                    channel.close()
            for _ in range(5):
                connect(path, port).close()
        finally:
            for channel in silent:
                channel.close()


def test_nobody_behind_the_socket_is_an_error_in_time(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        connect(tmp_path / "nothing", 80)
    with listening(tmp_path) as (path, _):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            connect(path, 80, timeout_s=0.2)
        with pytest.raises(TimeoutError):
            asyncio.run(connect_async(path, 80, timeout_s=0.2))
        assert time.monotonic() - began < 10


def send_descriptor(make: Callable[[], int], copies: int = 1) -> Callable[[socket.socket], None]:
    def answer(channel: socket.socket) -> None:
        fd = make()
        socket.send_fds(channel, [ANSWER.pack(0)], [fd] * copies)
        os.close(fd)

    return answer


def tcp_to_elsewhere() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return socket.create_connection(server.getsockname()).detach()


def send(data: bytes) -> Callable[[socket.socket], None]:
    return lambda channel: channel.send(data) if data else channel.shutdown(socket.SHUT_RDWR)  # type: ignore[func-returns-value]


ANSWERS: dict[str, Callable[[socket.socket], None]] = {
    "hung up": send(b""),
    "garbage": send(b"x"),
    "too long": send(ANSWER.pack(0) + b"more"),
    "sent none": send(ANSWER.pack(0)),
    "does not exist": send(struct.pack("!i", -7)),
    "no socket": send_descriptor(lambda: os.open(os.devnull, os.O_RDONLY)),
    "is no socket": send_descriptor(lambda: os.open(tempfile.gettempdir(), os.O_RDONLY)),
    "not TCP": send_descriptor(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach()),
    "not TCP (UDP)": send_descriptor(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).detach()),
    "broken": send_descriptor(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()),
    "another place": send_descriptor(tcp_to_elsewhere),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_not_what_was_asked_for_is_refused_and_closed(tmp_path: Path, name: str) -> None:
    with impostor(tmp_path, ANSWERS[name]) as path:
        before = open_descriptors()
        with pytest.raises(HandOverError):
            connect(path, 80, timeout_s=10)
        with pytest.raises(HandOverError):
            asyncio.run(connect_async(path, 80, timeout_s=10))
        assert falls_back_to(before)


def test_more_descriptors_than_one_are_not_let_in(tmp_path: Path) -> None:
    with impostor(tmp_path, send_descriptor(lambda: os.open(os.devnull, os.O_RDONLY), copies=50)) as path:
        before = open_descriptors()
        with pytest.raises(HandOverError):
            connect(path, 80, timeout_s=10)
        assert falls_back_to(before)
