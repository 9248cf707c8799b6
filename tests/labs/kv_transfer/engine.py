"""The stack under test: a prefill loop, and a thread that moves finished KV blocks to another process.

Commands come as JSON lines on stdin, answers go out as JSON lines on stdout. Each layer waits for the sizes of the
other ranks (native code), computes its block, needs a free slot for it, and hands it to the transfer thread; "alone" is
the same loop with nothing handed over. It needs the standard library, the built extension, and torch or numpy.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import mmap
import os
import queue
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
TOKENS, HIDDEN, KV = 128, 512, 256
BLOCK_BYTES = TOKENS * KV * 4
CHUNK_BYTES = BLOCK_BYTES // 8
SLOTS = 3
HEADER = struct.Struct("!qqq")
TIMEOUT_S = 60.0
Compute = Callable[[int], memoryview]


class Torch:
    """Prefill of one layer in PyTorch, one thread."""

    def __init__(self, seed: int) -> None:
        import torch

        torch.set_num_threads(1)
        self._torch = torch
        make = torch.Generator().manual_seed(seed)
        self._x = torch.randn(TOKENS, HIDDEN, generator=make)
        self._up = torch.randn(HIDDEN, HIDDEN, generator=make) / HIDDEN**0.5
        self._kv = torch.randn(HIDDEN, KV, generator=make) / HIDDEN**0.5
        self.version = f"torch {torch.__version__}"

    def layer(self, number: int, rounds: int) -> memoryview:
        """The block of a layer: `rounds` matrix products, then the projection."""
        torch = self._torch
        with torch.inference_mode():
            x = self._x + float(number % 97)
            for _ in range(rounds):
                x = torch.tanh(x @ self._up)
            return memoryview((x @ self._kv).contiguous().numpy()).cast("B")


class Numpy:
    """The same in numpy, for machines without torch."""

    def __init__(self, seed: int) -> None:
        import numpy

        self._numpy = numpy
        make = numpy.random.default_rng(seed)
        self._x = make.standard_normal((TOKENS, HIDDEN), dtype=numpy.float32)
        self._up = make.standard_normal((HIDDEN, HIDDEN), dtype=numpy.float32) / numpy.float32(HIDDEN**0.5)
        self._kv = make.standard_normal((HIDDEN, KV), dtype=numpy.float32) / numpy.float32(HIDDEN**0.5)
        self.version = f"numpy {numpy.__version__}"

    def layer(self, number: int, rounds: int) -> memoryview:
        """The block of a layer."""
        x = self._x + self._numpy.float32(number % 97)
        for _ in range(rounds):
            x = self._numpy.tanh(x @ self._up)
        return memoryview(self._numpy.ascontiguousarray(x @ self._kv)).cast("B")


class Transfer(threading.Thread):
    """Moves blocks to the receiver, one chunk after the other, and frees their slots."""

    def __init__(self, connection: socket.socket, free: queue.Queue[bytearray]) -> None:
        super().__init__(name="kv-transfer", daemon=True)
        self.work: queue.Queue[tuple[int, bytearray] | None] = queue.Queue()
        self.error: str | None = None
        self._connection = connection
        self._free = free

    def run(self) -> None:
        """Until told to stop."""
        try:
            while (item := self.work.get()) is not None:
                self._send(*item)
                self._free.put(item[1])
        except OSError as error:
            self.error = str(error)

    def _send(self, block: int, slot: bytearray) -> None:
        view = memoryview(slot)
        for offset in range(0, BLOCK_BYTES, CHUNK_BYTES):
            last = offset + CHUNK_BYTES >= BLOCK_BYTES
            self._connection.sendall(HEADER.pack(block, CHUNK_BYTES, last))
            self._connection.sendall(view[offset : offset + CHUNK_BYTES])
            if self._connection.recv(1) != b"k":
                raise OSError("the receiver is gone")

    def arrived(self) -> dict[str, Any]:
        """What the receiver says it has; asked when nothing is under way."""
        self._connection.sendall(HEADER.pack(-1, 0, 0))
        size = struct.unpack("!q", self._read(8))[0]
        found: dict[str, Any] = json.loads(self._read(size))
        return found

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._connection.recv(size - len(data))
            if not part:
                raise OSError("the receiver is gone")
            data += part
        return bytes(data)


class Engine:
    """One engine with its peer and its receiver."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._children: list[subprocess.Popen[bytes]] = []
        box = folder / "mailbox"
        box.write_bytes(bytes(mmap.PAGESIZE))
        self._start("peer.py", str(box), str(options.wait_ms / 1e3), str(os.getpid()))
        self._buffer = _load(options.extension).Buffer(str(box), 4)
        self._dispatch = getattr(self._buffer, f"{options.route}_dispatch")
        self._model = (Torch if options.compute == "torch" else Numpy)(options.seed)
        self._rounds = options.rounds or self._calibrate(options.compute_ms / 1e3)
        self._free: queue.Queue[bytearray] = queue.Queue()
        for _ in range(SLOTS):
            self._free.put(bytearray(BLOCK_BYTES))
        self._transfer = Transfer(self._connect(folder), self._free)
        self._transfer.start()
        self._number = 0

    def _connect(self, folder: Path) -> socket.socket:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "kv"))
            server.listen(1)
            server.settimeout(TIMEOUT_S)
            self._start("receiver.py", str(folder / "kv"), str(self._options.link_ms / 1e3))
            connection, _ = server.accept()
        connection.settimeout(TIMEOUT_S)
        return connection

    def _start(self, name: str, *words: str) -> None:
        argv = [sys.executable, "-I", str(HERE / name), *words]
        self._children.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))

    def _calibrate(self, wanted_s: float) -> int:
        """How many products take `wanted_s` here, so that waiting and computing keep their shares on any machine."""
        best = min(self._timed(8) for _ in range(5)) / 8
        return max(1, round(wanted_s / best))

    def _timed(self, rounds: int) -> float:
        began_s = time.perf_counter()
        self._model.layer(0, rounds)
        return time.perf_counter() - began_s

    def window(self, layers: int, seconds: float, transfer: bool) -> dict[str, Any]:
        """Prefill `layers` layers, or for `seconds`; with transfer the window ends when all blocks have arrived."""
        self._layer({}, False)  # the peer naps deeper between windows; its first answer is late
        digests: dict[str, str] = {}
        began_s, cpu_s = time.perf_counter(), time.process_time()
        count = 0
        while count < layers if layers else time.perf_counter() - began_s < seconds:
            self._layer(digests, transfer)
            count += 1
        slots = [self._slot() for _ in range(SLOTS)]
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        for slot in slots:
            self._free.put(slot)
        arrived = self._transfer.arrived() if transfer else {"blocks": {}, "bytes": 0}
        return {
            "layers": count, "seconds": wall_s, "cpu_s": cpu_s, "tokens_per_s": count * TOKENS / wall_s,
            "blocks": len(digests), "bytes": arrived["bytes"],
            "bytes_correct": arrived["blocks"] == digests if transfer else True,
        }  # fmt: skip

    def _layer(self, digests: dict[str, str], transfer: bool) -> None:
        self._number += 1
        if self._dispatch(TOKENS) != TOKENS:
            raise RuntimeError("the other ranks answered with other sizes")
        block = self._model.layer(self._number, self._rounds)
        slot = self._slot()
        slot[:] = block
        digest = hashlib.sha256(slot).hexdigest()
        if transfer:
            digests[str(self._number)] = digest
            self._transfer.work.put((self._number, slot))
        else:
            self._free.put(slot)

    def _slot(self) -> bytearray:
        try:
            return self._free.get(timeout=TIMEOUT_S)
        except queue.Empty:
            raise RuntimeError(f"no free slot: the transfer stopped ({self._transfer.error})") from None

    def about(self) -> dict[str, Any]:
        """What is in effect."""
        return {
            "pid": os.getpid(), "compute": self._model.version, "route": self._options.route, "rounds": self._rounds,
            "extension": str(self._options.extension), "python": sys.version.split()[0],
        }  # fmt: skip

    def close(self) -> None:
        """End the thread and the children."""
        self._transfer.work.put(None)
        self._transfer.join(2)
        for child in self._children:
            child.terminate()
        for child in self._children:
            child.wait(5)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kv_wire", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: not an extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Prefill with KV transfer")
    parser.add_argument("--extension", type=Path, required=True)
    parser.add_argument("--compute", choices=("torch", "numpy"), default="torch")
    parser.add_argument("--route", choices=("intranode", "internode"), default="intranode")
    parser.add_argument("--wait-ms", type=float, default=4.0, help="time that the other ranks need for their sizes")
    parser.add_argument("--compute-ms", type=float, default=2.5, help="time that a layer computes")
    parser.add_argument("--link-ms", type=float, default=0.25, help="time that a chunk takes on the link")
    parser.add_argument("--rounds", type=int, default=0, help="matrix products per layer; 0: as many as --compute-ms")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Serve commands until stdin ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    random.seed(0)
    options = _options()
    with tempfile.TemporaryDirectory(prefix="kv-") as folder:
        engine = Engine(options, Path(folder))
        try:
            _say(engine.about())
            for line in sys.stdin:
                wanted = json.loads(line)
                _say(engine.window(wanted.get("layers", 0), wanted.get("seconds", 0.0), wanted["transfer"]))
        finally:
            engine.close()


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
