"""`python -m probes.load.mock_server`: an OpenAI-like server with known token times and a menu of faults.

It prints the port it listens on, on loopback only, and serves until it is interrupted or its standard input ends
(`--until-eof`). `POST /script` sets what it does next and forgets what it did; `GET /truth` tells when it read each
request and when it wrote each chunk. The script's settings are documented in `probes/load/mock/script.py`.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Sequence

from probes.load.files import room_for_sockets
from probes.load.mock.script import Script
from probes.load.mock.server import MockServer
from probes.load.wire.loop import open_loop
from probes.load.wire.poller import READ

SOCKETS = 64


def main(argv: Sequence[str] | None = None) -> int:
    """Serve. Exit codes: 0 stopped, 2 usage."""
    parser = argparse.ArgumentParser(
        prog="python -m probes.load.mock_server", description="A server with known token times, on loopback"
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", default="{}", help="JSON of settings, see probes/load/mock/script.py")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    options = parser.parse_args(argv)
    try:
        script = Script.of(json.loads(options.script))
    except (ValueError, TypeError) as error:
        sys.stderr.write(f"error: --script: {error}\n")
        return 2
    gc.disable()  # a collection would be a stall of the server
    with room_for_sockets(SOCKETS), open_loop() as loop:
        server = MockServer(loop, script, options.port)
        sys.stdout.write(f"listening on http://127.0.0.1:{server.port}\n")
        sys.stdout.flush()
        if options.until_eof:
            loop.watch(sys.stdin.fileno(), READ, lambda _: loop.stop())
        try:
            loop.run(server.step)
        except KeyboardInterrupt:
            pass
        finally:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
