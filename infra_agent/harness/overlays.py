"""Puts other trees in the place of directories inside a sandbox, so that every absolute path stays what it was.

Covered: a candidate's tree over the original source, entries of the original shared through it, directories that are
to be seen as empty, the launch's own directories where they lie below an original.
Not covered: launches without a sandbox; nothing is mounted there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

Overlays = Mapping[Path, Path | None]
"""Original → what stands in its place, read-only; None: an empty directory. Outer directories first."""
NO_OVERLAYS: Overlays = MappingProxyType({})


def overlay_arguments(overlays: Overlays, writable: Sequence[Path] = ()) -> list[str]:
    """Bubblewrap's words, to follow all other mounts. `writable` paths below an original are mounted again on top."""
    words: list[str] = []
    for original, replacement in overlays.items():
        if replacement is None:
            words += ["--tmpfs", str(original)]
        else:
            words += ["--ro-bind", str(replacement), str(original)]
    for path in writable:
        if any(path.is_relative_to(original) for original in overlays):
            words += ["--bind", str(path), str(path)]
    return words
