"""TCP ports: find a free one, insist on a free one, wait until one is free again.

Covered: a server that still shuts down on the port (connections to it would be dropped), and who holds a port.
Not covered: another program may take a free port between the check and its use.
"""

from __future__ import annotations

import socket
import time

import psutil

from infra_agent.errors import PortInUse
from infra_agent.harness.text import clean_line

LOOPBACK = "127.0.0.1"
_PROBE_TIMEOUT_S = 0.5


def free_port(host: str = LOOPBACK) -> int:
    """A port that nothing listens on now."""
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there: nothing answers, and the address can be bound."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        if probe.connect_ex(address) == 0:
            return False
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(address)
        except OSError:
            return False
    return True


def require_free(host: str, port: int) -> None:
    """Raises PortInUse, naming the process that holds the port where the system tells."""
    if is_free(host, port):
        return
    holder = _holder(port)
    raise PortInUse(
        f"port {port} is taken" + (f" by {holder}" if holder else ""),
        where=f"{host}:{port}",
        hint="stop that process or choose another port",
    )


def wait_port_free(host: str, port: int, timeout_s: float) -> bool:
    """Poll until the port is free; False if it still is not after the time-out."""
    deadline = time.monotonic() + timeout_s
    while not is_free(host, port):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _holder(port: int) -> str:
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return ""
    for connection in connections:
        listens = connection.status == psutil.CONN_LISTEN
        if listens and connection.laddr and connection.laddr.port == port and connection.pid:
            try:
                command = " ".join(psutil.Process(connection.pid).cmdline())
            except psutil.Error:
                command = ""
            return clean_line(f"pid {connection.pid} {command}")[:160].rstrip()
    return ""
