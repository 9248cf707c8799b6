"""The decode side: takes blocks chunk by chunk, acknowledges each, and says what arrived. Standard library only."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import sys
import time

HEADER = struct.Struct("!qqq")
"""Block, size of this chunk, 1 for the last chunk; block -1 asks for what arrived since the last time."""


def main(path: str, link_s: float) -> None:
    """Serve one connection until it ends. `link_s`: what one chunk takes on the link."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        blocks: dict[int, str] = {}
        digest = hashlib.sha256()
        received = 0
        while header := _read(server, HEADER.size):
            block, size, last = HEADER.unpack(header)
            if block < 0:
                body = json.dumps({"blocks": blocks, "bytes": received}).encode()
                server.sendall(struct.pack("!q", len(body)) + body)
                blocks, received = {}, 0
                continue
            digest.update(_read(server, size))
            received += size
            time.sleep(link_s)
            if last:
                blocks[block] = digest.hexdigest()
                digest = hashlib.sha256()
            server.sendall(b"k")


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
