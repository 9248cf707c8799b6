"""Runs one candidate, in a process of its own: loads it, calls it when told to, and says what came back.

    python -I -B worker.py DIRECTORY

Requests and replies are 4-byte big-endian lengths followed by JSON, on the original standard input and output; tensors
are .npy files in DIRECTORY, mapped and shared with the judge. Whatever the candidate prints goes to standard error. The
judge believes nothing that is said here in a candidate's favour: it reads the files itself.

Covered: Python functions (numpy arrays or torch tensors, results returned or written into given arrays) and shell
commands that read and write .npy files; memory limit; ghost runs, in which a kernel is counted or does nothing.
Not covered: deciding anything.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import resource
import struct
import subprocess
import sys
import traceback
from typing import Any

import numpy as np

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
state = importlib.import_module("state")
sys.path.pop()

_BITS = {"bfloat16": "uint16"}


class Worker:
    """The loaded candidate and the arrays that it is given."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.function: Any = None
        self.module: Any = None
        self.torch: Any = None
        self.options: dict[str, Any] = {}
        self.slots: dict[str, tuple[list[Any], list[Any]]] = {}
        self.kept: dict[str, list[Any]] = {}
        self.before: dict[str, Any] = {}
        self.engaged = {"calls": 0, "completed": 0}

    def do_load(self, **options: Any) -> dict[str, Any]:
        """Take the first picture, set the limit, import the candidate."""
        self.options = options
        if options["framework"] == "torch":
            self.torch = importlib.import_module("torch")
        self.before = state.picture(np)
        _limit_memory(options["memory_bytes"])
        self.before["memory limit"] = resource.getrlimit(resource.RLIMIT_AS)
        if options["command"] is None:
            self.module = _import(options["file"], options["module"], options["paths"])
            self.function = getattr(self.module, options["name"])
        return {"state": self._changes()}

    def do_map(self, slot: str, inputs: list[str], outputs: list[str]) -> dict[str, Any]:
        """Map the files of a slot. A slot's arrays stay the same objects until it is mapped again."""
        if self.options["command"] is None:
            given = [self._tensor(name, dtype) for name, dtype in zip(inputs, self.options["inputs"], strict=True)]
            into = [self._tensor(name, dtype) for name, dtype in zip(outputs, self.options["outputs"], strict=True)]
            self.slots[slot] = (given, into)
        return {}

    def do_nothing(self) -> dict[str, Any]:
        """Answer: what a round trip costs."""
        return {}

    def do_call(self, slot: str, key: str, outputs: list[str]) -> dict[str, Any]:
        """Call the candidate once. Returned arrays are kept under `key`, to be looked at again at the end."""
        if self.options["command"] is not None:
            return self._run(slot)
        given, into = self.slots[slot]
        if self.options["style"] == "out":
            self.function(*given, *into, **self.options["constants"])
            return {"returned": [self._describe(each) for each in into]}
        found = self.function(*given, **self.options["constants"])
        values = list(found) if type(found) in (tuple, list) else [found]
        self.kept[key] = values
        described = [self._describe(each) for each in values]
        self._copy(values, outputs)
        return {"returned": described}

    def do_recheck(self, key: str, outputs: list[str]) -> dict[str, Any]:
        """Copy the arrays that a call returned once more."""
        self._copy(self.kept.get(key, []), outputs)
        return {}

    def do_scribble(self, key: str) -> dict[str, Any]:
        """Overwrite what a call returned: it is the caller's now, and a candidate that still uses it shows itself."""
        for value in self.kept.pop(key, []):
            if type(value) is np.ndarray and value.flags.writeable:
                value[...] = 77
            elif self.torch is not None and type(value) is self.torch.Tensor and not value.requires_grad:
                value.fill_(77)
        return {}

    def do_state(self) -> dict[str, Any]:
        """What has changed since the first picture."""
        return {"state": self._changes()}

    def do_ghost(self, kernel: str, how: str) -> dict[str, Any]:
        """Count the calls of a kernel that ended well, or let it do nothing."""
        real = getattr(self.module, kernel)
        setattr(self.module, kernel, Ghost(real, how, self.engaged))
        return {}

    def do_engaged(self) -> dict[str, Any]:
        """What the counted kernel did."""
        return dict(self.engaged)

    def _changes(self) -> list[str]:
        return list(state.changes(self.before, state.picture(np)))

    def _tensor(self, name: str, dtype: str) -> Any:
        array = np.asarray(np.load(os.path.join(self.directory, name), mmap_mode="r+"))  # noqa: PTH118
        if self.torch is None:
            return array
        tensor = self.torch.from_numpy(array.view("int16") if dtype == "bfloat16" else array)
        tensor = tensor.view(self.torch.bfloat16) if dtype == "bfloat16" else tensor
        return tensor.to(self.options["device"]) if self.options["device"] != "cpu" else tensor

    def _describe(self, value: Any) -> dict[str, Any]:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if kind is np.ndarray:
            return {"type": name, "dtype": str(value.dtype), "shape": list(value.shape), "device": "cpu"}
        if self.torch is not None and kind is self.torch.Tensor:
            dtype = str(value.dtype).removeprefix("torch.")
            return {"type": name, "dtype": dtype, "shape": list(value.shape), "device": str(value.device.type)}
        return {"type": name}

    def _copy(self, values: list[Any], outputs: list[str]) -> None:
        """Bytes of plain arrays into the files; anything else is left to the judge, who sees its type."""
        for value, name in zip(values, outputs, strict=False):
            target = np.load(os.path.join(self.directory, name), mmap_mode="r+")  # noqa: PTH118
            source = value
            if self.torch is not None and type(value) is self.torch.Tensor and value.device.type != "meta":
                source = value.detach().cpu().contiguous()
                dtype = str(source.dtype)
                source = source.view(self.torch.int16).numpy() if dtype == "torch.bfloat16" else source.numpy()
            if type(source) is np.ndarray and source.shape == target.shape and source.itemsize == target.itemsize:
                flat = np.ascontiguousarray(source).reshape(target.shape)
                np.ndarray.__setitem__(target, Ellipsis, flat.view(target.dtype))

    def _run(self, slot: str) -> dict[str, Any]:
        """One run of a shell command: it finds `in` and `out` below its directory."""
        folder = os.path.join(self.directory, slot)  # noqa: PTH118
        done = subprocess.run(
            ["/bin/sh", "-c", self.options["command"]], cwd=folder, stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        if done.returncode:
            raise RuntimeError(f"the command ended with code {done.returncode}")
        return {"returned": None}


class Ghost:
    """Stands for a kernel: counts calls that end well, or swallows them. Triton's `kernel[grid](…)` works too."""

    def __init__(self, real: Any, how: str, engaged: dict[str, int]) -> None:
        self._real, self._how, self._engaged = real, how, engaged

    def __getitem__(self, grid: Any) -> Ghost:
        return Ghost(self._real[grid], self._how, self._engaged)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call it, or seem to."""
        self._engaged["calls"] += 1
        if self._how == "nothing":
            return _hollow(self._real, args, options)
        found = self._real(*args, **options)
        self._engaged["completed"] += 1
        return found


def _hollow(real: Any, args: Any, options: Any) -> Any:
    """What the kernel would give, with its contents wiped; arguments that it wrote into are put back."""
    arrays = [a for a in (*args, *options.values()) if isinstance(a, np.ndarray) or hasattr(a, "clone")]
    before = [a.clone() if hasattr(a, "clone") else a.copy() for a in arrays]
    found = real(*args, **options)
    for array, old in zip(arrays, before, strict=True):
        array[...] = old
    wiped = [np.zeros_like(f) if isinstance(f, np.ndarray | np.generic) else f * 0 if _numeric(f) else f
             for f in (found if isinstance(found, tuple) else (found,))]  # fmt: skip
    return tuple(wiped) if isinstance(found, tuple) else wiped[0]


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) or hasattr(value, "clone")


def _import(file: str | None, module: str | None, paths: list[str]) -> Any:
    """The candidate's module. Its directories come last on the path: nothing of it can shadow another module."""
    sys.path.extend(paths)
    if file is None:
        return importlib.import_module(str(module))
    spec = importlib.util.spec_from_file_location("candidate", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _limit_memory(extra_bytes: int) -> None:
    """Address space: what is in use now and so much more."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + extra_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _failure(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if frame.filename != __file__]
    place = mine[-1] if mine else None
    return {
        "type": type(error).__name__,
        "message": str(error)[:2000],
        "file": place.filename if place else "",
        "line": place.lineno if place else 0,
    }


def serve(requests: int, replies: int, worker: Worker) -> int:
    """Answer requests until the judge closes the pipe."""
    while True:
        head = _read(requests, 4)
        body = _read(requests, struct.unpack(">I", head)[0]) if head else b""
        if not body:
            return 0
        request = json.loads(body)
        nonce, operation = request.pop("nonce"), request.pop("op")
        try:
            reply = getattr(worker, f"do_{operation}")(**request)
        except BaseException as error:
            reply = {"error": _failure(error)}
        data = json.dumps(reply | {"nonce": nonce}).encode()
        _write(replies, struct.pack(">I", len(data)) + data)


def _read(fd: int, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = os.read(fd, size - len(parts))
        if not part:
            return b""
        parts += part
    return parts


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main(argv: list[str]) -> int:
    """Keep the pipe for the judge, give the candidate other descriptors, and serve."""
    requests, replies = os.dup(0), os.dup(1)
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return serve(requests, replies, Worker(argv[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
