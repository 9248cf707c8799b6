"""Where a candidate comes from: a file, a module or a command; and the copy that its process sees.

    softmax.py:fast      a function in a file
    package.ops:fast     a function in a module, from a directory or from the interpreter's own packages
    --command "…"        a shell command that reads in/*.npy and writes out/*.npy

Covered: a copy of exactly the named files, so that nothing lying beside them is seen; a digest over their content.
Not covered: what an installed package imports; its name, version and files' stamps stand for it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from probes.numeric.judge.faults import JudgeFailure

_NAMED = re.compile(r"(?P<place>.+):(?P<name>[A-Za-z_][\w.]*)")
_LEFT_OUT = frozenset({"__pycache__", ".git", ".venv", "node_modules"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A candidate as named by the user. `root`: where its files lie; `files`: those that its process may see."""

    text: str
    name: str = ""
    file: Path | None = None
    module: str | None = None
    command: str | None = None
    root: Path | None = None
    files: tuple[Path, ...] = field(default=())

    def digest(self) -> str:
        """SHA-256 over what is run: names and contents."""
        total = hashlib.sha256(f"{self.name}\0{self.module}\0{self.command}\0".encode())
        for path in self.files:
            relative = path.relative_to(self.root) if self.root is not None else path
            total.update(f"{relative.as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return total.hexdigest()

    def stage(self, directory: Path) -> Path:
        """Copy the files into a new directory; returns the root of the copy."""
        copy = directory / "source"
        copy.mkdir()
        for path in self.files:
            target = copy / (path.relative_to(self.root) if self.root is not None else path.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        return copy


def function_source(text: str, extra: tuple[str, ...] = (), search: Path | None = None) -> Source:
    """A function named FILE:NAME or MODULE:NAME. `extra`: files it needs, relative to its own directory."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise JudgeFailure(f"{text!r} names no function: write FILE.py:NAME or MODULE:NAME")
    place, name = match["place"], match["name"]
    if place.endswith(".py") or "/" in place:
        file = Path(place).absolute()
        if not file.is_file():
            raise JudgeFailure(f"{place} is no file")
        files = (file, *_extra(file.parent, extra))
        return Source(text=text, name=name, file=file, root=file.parent, files=files)
    root = (search or Path.cwd()).absolute()
    top = place.partition(".")[0]
    found = next((path for path in (root / top, root / f"{top}.py") if path.exists()), None)
    files = () if found is None else (*_below(found), *_extra(root, extra))
    return Source(text=text, name=name, module=place, root=root if files else None, files=files)


def command_source(command: str, extra: tuple[str, ...] = (), root: Path | None = None) -> Source:
    """A shell command; `extra` names the files that it needs, relative to `root`."""
    base = (root or Path.cwd()).absolute()
    return Source(text=command, command=command, root=base, files=_extra(base, extra))


def _extra(root: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    found: list[Path] = []
    for name in names:
        path = (root / name).absolute()
        if not path.exists() or not path.is_relative_to(root):
            raise JudgeFailure(f"{name} is no file below {root}")
        found += _below(path)
    return tuple(found)


def _below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name not in _LEFT_OUT and not entry.is_symlink():
            yield from _below(entry)
