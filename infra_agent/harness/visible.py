"""Which paths a launch needs beside the operating system: the interpreter, the model, and what the launch names.

Covered: virtual environments and the interpreter behind them, packages installed there in editable mode, the
interpreter of a script, paths in arguments and environment values, the blobs behind a model snapshot made of links.
Not covered: files an engine finds by itself without being told of them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NOT_SCANNED = frozenset({"HOME", "PATH"})
_BIN = frozenset({"bin", "sbin", "Scripts"})
_OF_A_SHARED_PREFIX = ("bin", "include", "lib", "lib64", "libexec")
_MOST_LINKS = 200
_SHEBANG_BYTES = 256


def visible_paths(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    system: Collection[Path],
    never: Collection[Path],
    readable: Sequence[Path] = (),
    covered: Sequence[Path] = (),
) -> list[Path]:
    """Existing paths that the launch needs, outermost first; none below `system`, none that holds a `never` one.

    What is only mentioned in an argument or a variable must be a file or directory at least two levels deep. What
    `readable` names was named for this purpose, and stays in the list below an outer path too: something writable may
    lie between them. So does what is named inside a `covered` directory: that one will be seen as empty.
    """
    mentioned = {path for path in _mentioned(argv, env) if len(path.parts) > 2 and (path.is_dir() or path.is_file())}
    named = {each for path in (*mentioned, *readable) for each in (path, path.resolve())}
    kept = {path for path in (*named, *_program(argv, env)) if _may_be_seen(path, system, never)}
    kept |= {
        path for place in kept & named for path in _behind_links(place, never) if _may_be_seen(path, system, never)
    }
    return sorted(path for path in kept if path in readable or not _comes_along(path, kept, covered))


def _comes_along(path: Path, kept: Collection[Path], covered: Sequence[Path]) -> bool:
    """Whether an outer path brings this one, with no covered directory between the two."""
    outer = [parent for parent in path.parents if parent in kept]
    for place in covered:
        if path.is_relative_to(place):
            outer = [parent for parent in outer if parent.is_relative_to(place)]
    return bool(outer)


def installation(program: Path) -> Iterator[Path]:
    """What a program needs to start: its install prefix, that of its virtual environment, and what they link to."""
    if not program.is_absolute():
        return
    programs = [program, program.parent / "python", *_link_chain(program), *_link_chain(program.parent / "python")]
    programs += [path.resolve() for path in programs]
    for entry in dict.fromkeys(programs):
        if entry.exists():
            yield entry
            if entry.parent.name in _BIN:
                yield from _prefix(entry.parent.parent)


def _program(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Path]:
    found = shutil.which(argv[0], path=env.get("PATH", os.defpath)) if argv else None
    if found is None:
        return
    yield from installation(Path(found))
    interpreter = _interpreter_of(Path(found))
    if interpreter is not None:
        yield from installation(interpreter)


def _interpreter_of(script: Path) -> Path | None:
    """The program that the first line of a script names."""
    try:
        with script.open("rb") as file:
            first = file.read(_SHEBANG_BYTES).partition(b"\n")[0]
    except OSError:
        return None
    words = first[2:].split() if first.startswith(b"#!") else []
    return Path(os.fsdecode(words[0])) if words else None


def _prefix(prefix: Path) -> Iterator[Path]:
    """An install prefix. One that keeps other things too (~/.local) is taken by its parts."""
    configuration = prefix / "pyvenv.cfg"
    if prefix.name == ".local":
        yield from (prefix / part for part in _OF_A_SHARED_PREFIX)
    else:
        yield prefix
    yield from _base_of(configuration)
    yield from _sources(prefix)


def _base_of(configuration: Path) -> Iterator[Path]:
    """The installation that a virtual environment was made from, also when its interpreter is a copy."""
    try:
        lines = configuration.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home" and value.strip().startswith("/"):
            yield Path(value.strip()).parent
            yield Path(value.strip()).resolve().parent


def _sources(prefix: Path) -> Iterator[Path]:
    """Source directories of packages installed in editable mode (PEP 610 records and path files)."""
    for record in prefix.glob("lib/python*/site-packages/*.dist-info/direct_url.json"):
        try:
            document = json.loads(record.read_text("utf-8"))
            if document.get("dir_info", {}).get("editable"):
                yield Path(unquote(urlsplit(document["url"]).path))
        except (OSError, ValueError, KeyError, AttributeError):
            continue
    for file in prefix.glob("lib/python*/site-packages/*.pth"):
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, ValueError):
            continue
        yield from (Path(line.strip()) for line in lines if line.startswith("/"))


def _link_chain(path: Path) -> Iterator[Path]:
    for _ in range(16):
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path


def _mentioned(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Path]:
    values = [value for name, value in env.items() if name not in _NOT_SCANNED]
    for text in [*(token.partition("=")[2] or token for token in argv), *values]:
        for part in text.split(os.pathsep):
            if part.startswith("/") and os.path.lexists(part):
                # `a/../b` may lead through a link, so only the kernel can say where it ends.
                yield Path(part).resolve() if ".." in Path(part).parts else Path(part)


def _behind_links(directory: Path, never: Collection[Path]) -> Iterator[Path]:
    """The files that links in a model's directory lead to.

    Into home and the system's own directories a link leads only from a download cache to its own files: a link that
    came with a model must not open what nobody named.
    """
    own = directory.parents[1] if directory.parent.name == "snapshots" else directory
    links = [entry for entry in _entries(directory) if entry.is_symlink()]
    for target in {link.resolve() for link in links[:_MOST_LINKS]}:
        if target.is_relative_to(own) or not any(target.is_relative_to(place) for place in never):
            yield target


def _entries(directory: Path) -> Iterable[Path]:
    """What a directory holds; nothing for a file."""
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _may_be_seen(path: Path, system: Collection[Path], never: Collection[Path]) -> bool:
    if not path.is_absolute() or not path.exists() or any(path.is_relative_to(seen) for seen in system):
        return False
    kernel = any(path.is_relative_to(root) for root in ("/dev", "/proc", "/sys"))
    return not kernel and not any(directory.is_relative_to(path) for directory in (Path("/"), *never))
