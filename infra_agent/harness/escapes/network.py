"""Attempts on the network: out of the machine, to the machine's own servers, and at the interfaces themselves."""

from __future__ import annotations

import errno
import os
import socket
import struct

from infra_agent.harness.escapes.attempt import Attempt, Planted

# Addresses that documentation reserves: where a wall is missing, nobody is bothered.
_NOWHERE = (socket.AF_INET, "192.0.2.1")
_NOWHERE_6 = (socket.AF_INET6, "2001:db8::1")
_WAIT_S = 0.3
_DNS_QUERY = bytes.fromhex("696101000001000000000000") + b"\x07example\x03com\x00\x00\x01\x00\x01"
_RTM_NEWLINK, _NLM_F_REQUEST_ACK = 16, 5


def _outside(family: socket.AddressFamily, address: str) -> str | None:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        code = connection.connect_ex((address, 80))
    return f"a connection to {address} is on its way" if code in (0, errno.EINPROGRESS) else None


def _reaches(family: int, address: object) -> str | None:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_WAIT_S)
        connection.connect(address)  # type: ignore[arg-type]
    return f"connected to {address!r}"


def _host_tcp(planted: Planted) -> str | None:
    return _reaches(socket.AF_INET, ("127.0.0.1", planted["tcp_port"]))


def _host_udp(planted: Planted) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(planted["token"].encode(), ("127.0.0.1", planted["udp_port"]))
    return None


def _dns(planted: Planted) -> str | None:
    for server in planted["nameservers"]:
        try:
            family = socket.AF_INET6 if ":" in server else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as out:
                out.settimeout(_WAIT_S)
                out.connect((server, 53))
                out.send(_DNS_QUERY)
                if out.recv(512):
                    return f"{server} answered"
        except OSError as error:
            if isinstance(error, TimeoutError):
                return f"a query to {server} went out"
    return None


def _abstract(planted: Planted) -> str | None:
    return _reaches(socket.AF_UNIX, "\0" + planted["abstract"])


def _path_socket(planted: Planted) -> str | None:
    return _reaches(socket.AF_UNIX, planted["socket_path"])


def _raw(_: Planted) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "a raw socket could be opened"


def _packet(_: Planted) -> str | None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    return "a packet socket could be opened"


def _interfaces(_: Planted) -> str | None:
    names = {name for _, name in socket.if_nameindex()} - {"lo"}
    return f"interfaces {', '.join(sorted(names))}" if names else None


def _netlink(_: Planted) -> str | None:
    """Change nothing of the first interface: the right to do so is what is asked for."""
    body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 1, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.settimeout(_WAIT_S)
        netlink.send(struct.pack("=IHHII", 16 + len(body), _RTM_NEWLINK, _NLM_F_REQUEST_ACK, 1, 0) + body)
        (code,) = struct.unpack_from("=i", netlink.recv(4096), 16)
    return "an interface could be changed" if code == 0 else None


def _namespace(planted: Planted) -> str | None:
    shared = os.readlink("/proc/self/ns/net") == planted["spaces"]["net"]  # noqa: PTH115
    return "the machine's network is shared" if shared else None


ATTEMPTS = (
    Attempt("own network", "compare the network namespace with the machine's", _namespace),
    Attempt("no TCP outside", f"connect to {_NOWHERE[1]}", lambda _: _outside(*_NOWHERE)),
    Attempt("no TCP outside by IPv6", f"connect to {_NOWHERE_6[1]}", lambda _: _outside(*_NOWHERE_6)),
    Attempt("no host loopback", "connect to a listener of the harness on 127.0.0.1", _host_tcp),
    Attempt("no UDP to the host", "send a datagram to a socket of the harness on 127.0.0.1", _host_udp),
    Attempt("no DNS", "ask this machine's name servers", _dns),
    Attempt("no abstract sockets", "connect to an abstract unix socket of the harness", _abstract),
    Attempt("no sockets of services", "connect to a unix socket of the harness in /var/tmp", _path_socket),
    Attempt("no raw sockets", "open an ICMP socket", _raw),
    Attempt("no packet sockets", "open a packet socket", _packet),
    Attempt("loopback only", "list the network interfaces", _interfaces),
    Attempt("no network changes", "change an interface by netlink", _netlink),
)
