"""A connector in a process of its own, and a TCP server that echoes."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SERVE = "import socket, sys; from probes.net.connector import serve; serve(socket.socket(fileno=int(sys.argv[1])))"


@contextmanager
def listening(folder: Path) -> Iterator[tuple[Path, socket.socket]]:
    path = folder / "c.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(64)
        yield path, listener
    path.unlink()


@contextmanager
def connector(folder: Path) -> Iterator[Path]:
    """The real one; yields the socket to ask."""
    with listening(folder) as (path, listener):
        fd = listener.fileno()
        process = subprocess.Popen([sys.executable, "-c", SERVE, str(fd)], pass_fds=[fd])
        try:
            yield path
        finally:
            process.kill()
            process.wait()


@contextmanager
def impostor(folder: Path, answer: Callable[[socket.socket], None]) -> Iterator[Path]:
    """Something else in a connector's place, that answers each client like this."""
    with listening(folder) as (path, listener):

        def work() -> None:
            while True:
                try:
                    channel, _ = listener.accept()
                except OSError:
                    return
                with channel:
                    channel.recv(64)
                    answer(channel)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(4096):
            self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def echo_server() -> Iterator[int]:
    """A TCP server on the loopback interface that sends back what it gets; yields its port."""
    with _Server(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
