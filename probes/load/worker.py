"""One of several client processes of a window: `python -m probes.load.worker`, started by `processes` alone.

It speaks over its standard streams: gets the load and its rank, says when it is ready, gets the common start, sends
records as they come and its window at the end.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys

from probes.load.client import Client
from probes.load.processes import Failed, Finished, Ready, Records, read_message, write_message
from probes.load.types import RequestRecord
from probes.load.wire.poller import READ

BATCH = 64


def main() -> int:
    """Take part in one window."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    inbox = os.fdopen(os.dup(0), "rb", buffering=0)
    outbox = os.fdopen(os.dup(1), "wb", buffering=0)
    sys.stdout = sys.stderr
    start = read_message(inbox)
    if start is None:
        return 0
    request, rank, allowed_failures, deadline_s = start
    waiting: list[RequestRecord] = []

    def send(record: RequestRecord) -> None:
        waiting.append(record)
        if len(waiting) >= BATCH:
            flush()

    def flush() -> None:
        write_message(outbox, Records(tuple(waiting)))
        waiting.clear()

    try:
        with Client(request, deadline_s=deadline_s, rank=rank) as client:
            warmup = client.warm_up()
            client.open()
            write_message(outbox, Ready(warmup))
            zero_s = read_message(inbox)
            if zero_s is None:
                return 0
            client.loop.watch(inbox.fileno(), READ, _orphaned)
            window = client.window(zero_s=zero_s, allowed_failures=allowed_failures, on_record=send)
        flush()
        write_message(outbox, Finished(dataclasses.replace(window, records=())))
    except (OSError, ValueError, TimeoutError) as error:
        write_message(outbox, Failed(str(error)))
        return 1
    return 0


def _orphaned(_: int) -> None:
    """Nothing more is said after the start: the pipe has ended, and with it whoever wanted this window."""
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
