"""HTTP through a connector is HTTP: same answers, same errors, same pool; and it goes nowhere but to the loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from net_help import connector

from probes.net.http import async_client, sync_client


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(0.8)
        if self.path == "/drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        data = f"{self.client_address[1]}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for part in (body, body[::-1]):
            self.wfile.write(part)
            self.wfile.flush()
            time.sleep(0.02)


@contextmanager
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}"
        finally:
            listening.shutdown()
            thread.join()


@pytest.fixture(params=["handed over", "plain TCP"])
def via(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | None]:
    if request.param == "plain TCP":
        yield None
        return
    with connector(tmp_path) as path:
        yield path


def test_a_blocking_client_gets_its_answer_and_keeps_its_connection(via: Path | None) -> None:
    with server() as url, sync_client(via, base_url=url) as client:
        first, second = client.get("/").text, client.get("/").text
        assert first == second
        assert client.post("/", content=b"abc").text == "abccba"


def test_an_asyncio_client_streams_part_by_part(via: Path | None) -> None:
    async def stream(url: str) -> list[bytes]:
        async with async_client(via, timeout=None) as client, client.stream("POST", url, content=b"abc") as response:
            return [part async for part in response.aiter_bytes()]

    with server() as url:
        assert asyncio.run(stream(url)) == [b"abc", b"cba"]


def test_errors_are_those_of_httpx(via: Path | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/"
    with server() as url, sync_client(via, base_url=url) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.get("/slow", timeout=0.2)
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/drop")
        with pytest.raises(httpx.ConnectError):
            client.get(nobody)


def test_errors_are_those_of_httpx_under_asyncio_too(via: Path | None) -> None:
    async def get(url: str, timeout_s: float) -> None:
        async with async_client(via, timeout=timeout_s) as client:
            await client.get(url)

    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/"
    with server() as url:
        with pytest.raises(httpx.ReadTimeout):
            asyncio.run(get(f"{url}/slow", 0.2))
        with pytest.raises(httpx.RemoteProtocolError):
            asyncio.run(get(f"{url}/drop", 5))
        with pytest.raises(httpx.ConnectError):
            asyncio.run(get(nobody, 5))


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org", "127.0.0.2"])
def test_through_a_connector_nothing_but_the_loopback_interface_is_asked_for(tmp_path: Path, host: str) -> None:
    with connector(tmp_path) as path, sync_client(path) as client, pytest.raises(httpx.ConnectError, match=r"only 127"):
        client.get(f"http://{host}:80/")


def test_a_connection_that_the_server_closed_while_idle_is_not_used_again(tmp_path: Path) -> None:
    async def twice(path: Path) -> list[bytes]:
        answers = []

        async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.close()

        async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            async with async_client(path) as client:
                for _ in range(3):
                    answers.append((await client.get(f"http://127.0.0.1:{port}/")).content)
                    await asyncio.sleep(0.2)
        return answers

    with connector(tmp_path) as path:
        assert asyncio.run(twice(path)) == [b"ok"] * 3
