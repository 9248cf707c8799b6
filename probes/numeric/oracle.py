"""A float32 run of the same model, in the stack's own interpreter, that decides close calls.

Covered: start, handshake, requests with a deadline, typed errors with the worker's last lines, bounded end.
Not covered: what is asked (`divergence`), what runs inside (`oracle_worker`), sandboxing (the `wrap` hook's work).
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Literal

from probes.base import Json
from probes.numeric import frames
from probes.numeric.types import Answer, Endpoint, Gap, GapRequest, OracleError, Rounding, Tokens

WORKER = Path(__file__).with_name("oracle_worker.py")
PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")
STOP_TIMEOUT_S = 2.0
Start = Callable[[Sequence[str], Mapping[str, str], IO[bytes]], "subprocess.Popen[bytes]"]
Wrap = Callable[[list[str]], list[str]]


def worker_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker: what it is given of this one, and switches that keep it offline and quiet."""
    switches = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false"}
    return {name: environ[name] for name in PASSED_ON if name in environ} | switches


def start_process(argv: Sequence[str], env: Mapping[str, str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start argv in a session of its own, with pipes as standard input and output."""
    return subprocess.Popen(
        list(argv), env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
    )


class OracleProcess:
    """Context manager around one worker process. Every method raises OracleError when the worker cannot answer.

    `python` is the stack's interpreter, `model` a directory with weights and tokenizer. `wrap` may put the command
    inside a sandbox; it must leave standard input and output alone and let the worker read `WORKER` and `model`.
    `timeout_s` bounds loading and each request.
    """

    name = "float32 oracle"

    def __init__(
        self,
        python: str,
        model: str,
        *,
        start: Start = start_process,
        wrap: Wrap = list,
        environ: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        self._python = python
        self._model = Path(model)
        self._start = start
        self._wrap = wrap
        self._env = worker_env(os.environ if environ is None else environ)
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._digest = ""
        self.facts: Mapping[str, Json] = {}

    def __enter__(self) -> OracleProcess:
        if not (self._model / "config.json").is_file():
            raise OracleError(f"the oracle's model {str(self._model)!r} is not a directory with a config.json")
        self._stderr = tempfile.TemporaryFile()
        try:
            argv = self._wrap([self._python, "-I", str(WORKER), str(self._model.resolve())])
            self._process = self._start(argv, self._env, self._stderr)
            os.set_blocking(self._pipe("stdin"), False)
            self.facts = self._reply(f"load {self._model}")
        except OSError as error:
            self.close()
            raise OracleError(f"the oracle cannot be started with {self._python!r}: {error}") from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker: close its input, wait briefly, then kill its session. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    @property
    def running(self) -> bool:
        """Whether the worker can still be asked."""
        return self._process is not None and self._process.poll() is None

    def digest(self) -> str:
        """SHA-256 over name and content of every file of the model directory."""
        if not self._digest:
            self._digest = digest_of(self._model)
        return self._digest

    def tokenise(self, texts: Sequence[str]) -> list[Tokens]:
        """Each text in tokens of the model."""
        found = self._ask("tokenise", {"texts": list(texts)})
        return [Tokens(ids=tuple(t["ids"]), pieces=tuple(t["pieces"]), faithful=t["faithful"]) for t in found]

    def gaps(self, requests: Sequence[GapRequest]) -> list[Gap]:
        """Each fork in the eyes of the float32 model."""
        return [Gap(**found) for found in self._ask("gaps", {"requests": [asdict(request) for request in requests]})]

    def rounding(self, answers: Sequence[Answer], dtype: str) -> Rounding:
        """How far `dtype` alone moves close calls, measured along these answers: no server, no batching."""
        asked = [{"prompt": a.prompt, "endpoint": a.endpoint, "text": a.text} for a in answers if a.text]
        return Rounding(**self._ask("rounding", {"answers": asked, "dtype": dtype}))

    def greedy(
        self,
        prompt: str,
        max_tokens: int,
        *,
        endpoint: Endpoint = "chat",
        dtype: Literal["float32", "bfloat16"] = "float32",
    ) -> Mapping[str, Json]:
        """Greedy answer: text, finish_reason, output_tokens."""
        args = {"prompt": prompt, "endpoint": endpoint, "max_tokens": max_tokens, "dtype": dtype}
        found: Mapping[str, Json] = self._ask("greedy", args)
        return found

    def _ask(self, operation: str, args: Mapping[str, Json]) -> Json:
        try:
            frames.send(self._pipe("stdin"), {"op": operation, "args": args}, timeout_s=self._timeout_s)
        except frames.FrameError as error:
            raise OracleError(self._broken(operation, str(error))) from error
        return self._reply(operation)

    def _reply(self, operation: str) -> Json:
        try:
            document = frames.receive(self._pipe("stdout"), timeout_s=self._timeout_s)
        except frames.FrameError as error:
            raise OracleError(self._broken(operation, str(error))) from error
        if "error" in document:
            raise OracleError(
                f"the oracle cannot {operation}: {document['error']['type']}: {document['error']['message']}"
            )
        return document["result"]

    def _pipe(self, name: Literal["stdin", "stdout"]) -> int:
        stream = getattr(self._process, name, None)
        if stream is None:
            raise OracleError("the oracle is not running: use it as a context manager")
        return int(stream.fileno())

    def _broken(self, operation: str, cause: str) -> str:
        """A reply that did not come leaves the pipe out of step, so the worker ends here."""
        lines = self._last_lines()
        self.close()
        said = f"; its last lines: {lines}" if lines else ""
        return f"the oracle broke off at {operation!r}: {cause}{said}"

    def _last_lines(self) -> str:
        if self._stderr is None:
            return ""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - 2000))
        return " | ".join(self._stderr.read().decode(errors="replace").strip().splitlines()[-5:])


def digest_of(model: Path) -> str:
    """SHA-256 over name and content of every file below a model directory, in name order."""
    total = hashlib.sha256()
    for path in sorted(path for path in model.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(model).as_posix()}\0{content}\n".encode())
    return total.hexdigest()


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
        process.wait(timeout=STOP_TIMEOUT_S)
