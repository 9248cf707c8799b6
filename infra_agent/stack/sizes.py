"""Bytes and paths in words.

Covered: decimal units as package indexes and disks use them; the home directory as `~`.
Not covered: binary units.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def words(count_bytes: float) -> str:
    """`283 MB`, `1.3 GB`: two or three digits, decimal units."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count_bytes >= 0.9995 * factor:
            value = count_bytes / factor
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{count_bytes:.0f} B"


def home_relative(path: Path) -> str:
    """The path as a person writes it."""
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)


def tree_bytes(directory: Path) -> int:
    """Bytes of all files below a directory; links are not followed, files that vanish meanwhile count nothing."""
    total = 0
    for folder, _, files in os.walk(directory):
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(folder) / file).lstat().st_size
    return total


def counted(count: int, noun: str) -> str:
    """`1 package`, `52 packages`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
