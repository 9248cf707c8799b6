"""Starts the mock server in a process of its own and talks to it: for tests and for the bench of load tools.

Covered: start, script, truth, processor time, stop. Not covered: other machines (it listens on loopback only).
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from probes.load.mock.script import Script
from probes.load.mock.truth import Served, served_of

ANSWER_S = 30.0


class MockProcess:
    """A context manager; `url` is the server's root."""

    def __init__(self) -> None:
        self.url = ""
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> MockProcess:
        root = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "probes.load.mock_server", "--until-eof"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            self.__exit__(None, None, None)
            raise RuntimeError(f"the mock server did not start: {line!r}")
        self.url = line.removeprefix("listening on ").strip()
        self.port = int(self.url.rpartition(":")[2])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.communicate(timeout=ANSWER_S)  # the end of its standard input is its end

    def play(self, script: Script) -> None:
        """Do this from now on, and forget what was done."""
        self._ask("POST", "/script", json.dumps(asdict(script)))

    def truth(self) -> list[Served]:
        """What was done since the script was set."""
        return [served_of(row) for row in self.told()["served"]]

    def told(self) -> dict[str, Any]:
        """The whole page `/truth`."""
        return self._ask("GET", "/truth", None)

    def _ask(self, method: str, path: str, body: str | None) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            document = json.loads(response.read())
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK or not isinstance(document, dict):
            raise RuntimeError(f"{method} {path}: {document}")
        return document
