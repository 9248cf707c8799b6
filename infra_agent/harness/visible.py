"""Which paths stay visible when home and /tmp are hidden: the interpreter, the model, and what the launch names.

Covered: virtual environments and the interpreter behind them, packages installed there in editable mode, paths in
arguments and environment values, the blobs behind a model snapshot made of links.
Not covered: files an engine finds by itself under home without being told of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NOT_SCANNED = frozenset({"HOME", "PATH"})
_BIN = frozenset({"bin", "Scripts"})
_MOST_LINKS = 200


def hidden_directories(home: Path) -> list[Path]:
    """Directories covered by an empty file system, outermost first."""
    candidates = {Path("/tmp"), Path("/run/user"), home.resolve()}
    return sorted(path for path in candidates if path.is_dir() and path != Path("/"))


def visible_paths(
    argv: Sequence[str], env: Mapping[str, str], hidden: Sequence[Path], readable: Sequence[Path] = ()
) -> list[Path]:
    """Existing paths below a hidden directory that the launch needs, outermost first. Never a hidden one itself."""
    wanted = {path for path in [*_needed(argv, env), *readable] if _is_below(path, hidden)}
    return sorted(path for path in wanted if not any(parent in wanted for parent in path.parents))


def _needed(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Path]:
    if argv:
        yield from _installation(Path(argv[0]))
    values = [value for name, value in env.items() if name not in _NOT_SCANNED]
    for text in [*(token.partition("=")[2] or token for token in argv), *values]:
        for part in text.split(os.pathsep):
            if part.startswith("/") and os.path.lexists(part):
                yield from _with_links(Path(part))


def _installation(program: Path) -> Iterator[Path]:
    """The install prefix of a program, of the virtual environment it belongs to, and of what they link to."""
    if not program.is_absolute():
        return
    programs = [program, program.parent / "python", *_link_chain(program), *_link_chain(program.parent / "python")]
    for entry in programs:
        if entry.exists():
            yield entry
            if entry.parent.name in _BIN:
                yield entry.parent.parent
                yield from _editable_sources(entry.parent.parent)


def _editable_sources(prefix: Path) -> Iterator[Path]:
    """Source directories of packages installed in editable mode (PEP 610 records)."""
    for record in prefix.glob("lib/python*/site-packages/*.dist-info/direct_url.json"):
        try:
            document = json.loads(record.read_text("utf-8"))
            if document.get("dir_info", {}).get("editable"):
                yield Path(unquote(urlsplit(document["url"]).path))
        except (OSError, ValueError, KeyError, AttributeError):
            continue


def _link_chain(path: Path) -> Iterator[Path]:
    for _ in range(16):
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path


def _with_links(path: Path) -> Iterator[Path]:
    """A path, what it resolves to, and for a directory of links the places they lead to."""
    yield path
    yield path.resolve()
    if path.is_dir():
        links = [entry for entry in _entries(path) if entry.is_symlink()]
        yield from {link.resolve() for link in links[:_MOST_LINKS]}


def _entries(directory: Path) -> Iterable[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _is_below(path: Path, hidden: Sequence[Path]) -> bool:
    if not path.exists() or any(directory.is_relative_to(path) for directory in hidden):
        return False
    return any(path.is_relative_to(directory) for directory in hidden)
