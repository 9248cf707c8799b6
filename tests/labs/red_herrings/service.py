"""A small store behind a queue, slow for one reason and blamed for others. Standard library only.

`flush_each` makes every record wait for ten acknowledgements: the true reason. `trace_labels` was always switched on
together with it, and costs nothing. The log blames the upstream fetch and advises a larger `fetch_buffer_kb`, because
its timer began too early. `request_tag` is a setting that nothing reads.

Commands are JSON lines on stdin: `{"settings": {…}, "requests": 5}`; each answer holds the voluntary waits per request
(how often the thread gave up its processor), which do not depend on how busy the machine is.
"""

from __future__ import annotations

import json
import logging
import queue
import resource
import sys
import threading
import time
from typing import Any

ACKNOWLEDGEMENTS = 10
ACKNOWLEDGE_S = 0.0005
SLOW_S = 0.003
STOCK: dict[str, Any] = {"flush_each": True, "trace_labels": True, "fetch_buffer_kb": 4, "request_tag": "a"}
log = logging.getLogger("store")


class Store:
    """Takes requests one after the other."""

    def __init__(self) -> None:
        self._asked: queue.Queue[int] = queue.Queue()
        self._fetched: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._upstream, daemon=True).start()

    def _upstream(self) -> None:
        while True:
            self._fetched.put(bytes(self._asked.get()))

    def handle(self, number: int, settings: dict[str, Any]) -> None:
        """One request: fetch, label, store."""
        began_s = time.perf_counter()
        self._asked.put(1024 * int(settings["fetch_buffer_kb"]))
        body = self._fetched.get()
        labels = {"request": number, "bytes": len(body)} if settings["trace_labels"] else {}
        if settings["flush_each"]:
            for _ in range(ACKNOWLEDGEMENTS):
                time.sleep(ACKNOWLEDGE_S)
        took_s = time.perf_counter() - began_s
        if took_s > SLOW_S:
            log.warning("upstream fetch slow (%.1f ms): raise fetch_buffer_kb %s", took_s * 1e3, labels)


def main() -> None:
    """Serve until stdin ends."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    store = Store()
    for line in sys.stdin:
        command = json.loads(line)
        settings = {**STOCK, **command["settings"]}
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        for number in range(command["requests"]):
            store.handle(number, settings)
        waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
        # One more than it waited: on a quiet machine a request may not wait at all, and ratios need a figure.
        sys.stdout.write(json.dumps({"waits_per_request": 1 + waits / command["requests"]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
