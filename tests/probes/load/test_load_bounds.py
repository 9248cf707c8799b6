"""Where load may go, how much of it, and for how long."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from load_samples import PATIENT, ask, window

from probes.base import Verdict, Where
from probes.load.client import measure
from probes.load.hosts import host_of, hosts_of, is_local
from probes.load.mock.process import MockProcess
from probes.load.mock.script import Script
from probes.load.probe import run
from probes.load.types import Closed, Constant
from probes.load.wire import pool


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "::1"])
def test_this_machine_is_always_allowed(host: str) -> None:
    assert is_local(host)
    ask(f"http://[{host}]:8000" if ":" in host else f"http://{host}:8000")


@pytest.mark.parametrize(
    "url",
    [
        "http://gpu-box:8000",
        "http://127.0.0.1.example.com:8000",
        "http://localhost.example.com",
        "http://0.0.0.0:8000",
        "http://169.254.169.254/",
        "http://10.0.0.1",
        "http://[::ffff:10.0.0.1]:80",
        "https://example.com",
    ],
)
def test_no_other_host_is_sent_anything(url: str) -> None:
    with pytest.raises(ValueError, match="neither this machine nor a host that the stack file names"):
        ask(url)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1@example.com", "http://127.0.0.1:80@example.com/", "http://127.0.0.1/?x=1", "http://127.0.0.1 /"],
)
def test_urls_that_hide_something_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        ask(url)


def test_a_host_that_the_stack_file_names_is_allowed_and_only_that(tmp_path: Path) -> None:
    stack = tmp_path / "infra-agent.toml"
    stack.write_text('[stack]\nname = "x"\nurl = "http://gpu-box:8000/v1"\n')
    assert hosts_of(stack) == ("gpu-box",)
    assert ask("http://gpu-box:9000", hosts=hosts_of(stack)).base_url == "http://gpu-box:9000"
    with pytest.raises(ValueError):
        ask("http://other-box:8000", hosts=hosts_of(stack))
    assert host_of(None) == ()
    stack.write_text("[stack")
    with pytest.raises(ValueError, match="cannot read"):
        hosts_of(stack)


def test_nothing_new_is_sent_after_the_duration(mock: MockProcess) -> None:
    mock.play(Script(first_token_s=0.05, chunks=(1,)))
    for arrivals in (Constant(40.0), Closed(2)):
        observation, result = window(ask(mock.url, arrivals=arrivals, requests=10_000, duration_s=0.5))
        assert observation.verdict is Verdict.PASS, observation.summary
        assert 4 <= len(result.records) <= 22
        assert max(record.sent_s for record in result.records) <= 0.5 + 0.2


def test_the_time_limit_ends_everything_and_the_window_has_no_figures(mock: MockProcess) -> None:
    mock.play(Script(fault="stall"))
    began_s = time.monotonic()
    observation, result = window(ask(mock.url, requests=8, time_limit_s=0.7, request_timeout_s=60.0))
    assert time.monotonic() - began_s < 20
    assert observation.verdict is Verdict.INVALID
    assert "time limit" in {check.name for check in observation.checks if not check.ok}
    assert result.records[0].error == "cut off at the time limit (3 chunks came)"


def test_past_the_deadline_there_is_an_error_and_no_open_connection(mock: MockProcess) -> None:
    mock.play(Script(fault="stall"))
    with pytest.raises(TimeoutError):
        run(ask(mock.url, request_timeout_s=60.0), where=Where(whole_system=True), deadline_s=0.5)
    with pytest.raises(TimeoutError):
        run(ask(mock.url, request_timeout_s=60.0, processes=2), where=Where(whole_system=True), deadline_s=2.5)


def test_warm_up_goes_on_until_both_count_and_time_are_reached(mock: MockProcess) -> None:
    mock.play(Script(first_token_s=0.02, chunks=(1,)))
    _, by_time = window(ask(mock.url, requests=4, warmup_requests=2, warmup_s=0.4))
    assert len(by_time.window.warmup) > 8
    _, by_count = window(ask(mock.url, requests=4, warmup_requests=9, warmup_s=0.01))
    assert len(by_count.window.warmup) == 9


@pytest.mark.parametrize(
    "changes",
    [
        {"processes": 0},
        {"processes": 5, "arrivals": Closed(4)},
        {"duration_s": 0.0},
        {"time_limit_s": float("inf")},
        {"warmup_s": -1.0},
        {"warmup_s": 1.0, "warmup_requests": 0},
        {"headers": {"x": "a\r\nhost: evil"}},
        {"headers": {"Host": "evil"}},
        {"headers": {"bad name": "x"}},
    ],
)
def test_bounds_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        ask("http://127.0.0.1:1", **changes)


def test_an_error_about_a_header_does_not_tell_its_value() -> None:
    with pytest.raises(ValueError, match="authorization") as caught:
        ask("http://127.0.0.1:1", headers={"authorization": "Bearer secret\n"})
    assert "secret" not in str(caught.value)


def test_connections_come_through_the_doorway_when_there_is_one(mock: MockProcess, tmp_path: Path) -> None:
    mock.play(Script())
    asked: list[tuple[Path, int]] = []

    def connect(via: Path, port: int) -> socket.socket:
        asked.append((via, port))
        return socket.create_connection(("127.0.0.1", mock.port))

    request = ask("http://127.0.0.1:4321", via=tmp_path / "door", requests=4)
    observation, _ = run(request, where=Where(whole_system=True), limits=PATIENT, connect=connect)
    assert observation.verdict is Verdict.PASS, observation.summary
    assert set(asked) == {(tmp_path / "door", 4321)}


def test_a_doorway_that_is_closed_is_named_as_the_reason(tmp_path: Path) -> None:
    def connect(via: Path, port: int) -> socket.socket:
        raise FileNotFoundError(2, "No such file or directory", str(via))

    request = ask("http://127.0.0.1:4321", via=tmp_path / "door", requests=4)
    window_ = measure(request, connect=connect)
    assert window_.records[0].error == "connection failed after 0 chunks: No such file or directory"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, *plain) + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def tls_port(mock: MockProcess, certificate: Path) -> Iterator[int]:
    """A TLS front of the mock server that copies bytes both ways."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                secure = context.wrap_socket(plain, server_side=True)
            except OSError:
                plain.close()
                continue
            back = socket.create_connection(("127.0.0.1", mock.port))
            sockets.extend((secure, back))
            for pair in ((secure, back), (back, secure)):
                threads.append(threading.Thread(target=copy, args=pair, daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=serve, daemon=True)
    accepting.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in (accepting, *threads):
        thread.join(10)
    for sock in sockets:
        sock.close()


def test_tls_is_measured_like_plain_connections(mock: MockProcess, tls_port: int, certificate: Path) -> None:
    mock.play(Script(huge_bytes=300_000))
    observation, result = window(ask(f"https://127.0.0.1:{tls_port}", ca_file=certificate, requests=4))
    assert observation.verdict is Verdict.PASS, observation.summary
    assert all(len(record.chunk_times_s) == 10 for record in result.records)


def test_a_certificate_that_nobody_vouches_for_is_named_as_the_reason(mock: MockProcess, tls_port: int) -> None:
    mock.play(Script())
    observation, _ = window(ask(f"https://127.0.0.1:{tls_port}", requests=2))
    assert observation.verdict is Verdict.INVALID
    assert "TLS: the server's certificate is not accepted: self-signed certificate" in observation.summary


def test_a_server_that_speaks_no_tls_is_named_as_the_reason(mock: MockProcess) -> None:
    mock.play(Script())
    observation, _ = window(ask(f"https://127.0.0.1:{mock.port}", requests=2))
    assert observation.verdict is Verdict.INVALID
    assert "connection failed after 0 chunks: TLS: " in observation.summary


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(ValueError, match="no certificates can be read"):
        measure(ask("https://127.0.0.1:1", ca_file=tmp_path / "empty.pem"))


def test_a_server_that_never_finishes_a_handshake_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "CONNECT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        observation, _ = window(ask(f"https://127.0.0.1:{silent.getsockname()[1]}", requests=2))
    assert "connection failed after 0 chunks: no connection within 0.3 s" in observation.summary
