"""Somebody else's git repository, found by looking at files; none of its configuration is put into effect.

Covered: ordinary repositories, linked work trees, submodules; split and sparse indexes; either hash.
Not covered: repositories whose working tree is configured to lie elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from infra_agent.changes.git import Git

_SHA256 = re.compile(r"^\s*objectformat\s*=\s*\"?sha256", re.IGNORECASE | re.MULTILINE)
_EXCLUDES = re.compile(r"^\s*excludesfile\s*=\s*\"?([^\"\n]+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A working tree, its git directory, and the directory that it shares with other work trees."""

    root: Path
    directory: Path
    common: Path

    def reader(self, directory: Path) -> Git:
        """A git directory of our own, that reads this working tree with a copy of its index."""
        excludes = _users_excludes()
        git = Git(
            directory=directory,
            hash_name="sha256" if _SHA256.search(_text(self.common / "config")) else "sha1",
            settings={"core.bare": "false", **({"core.excludesFile": str(excludes)} if excludes is not None else {})},
            environment={
                "GIT_WORK_TREE": str(self.root),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.common / "objects"),
            },
        )
        git.create()
        for name in [self.directory / "index", *self.directory.glob("sharedindex.*")]:
            if name.is_file():
                shutil.copyfile(name, directory / name.name)
        exclude = self.common / "info/exclude"
        if exclude.is_file():
            shutil.copyfile(exclude, directory / "info/exclude")
        return git


def find_repository(folder: Path) -> Repository | None:
    """The repository whose working tree holds the folder, or None."""
    for root in (folder, *folder.parents):
        marker = root / ".git"
        if marker.is_dir() and (marker / "HEAD").is_file():
            return Repository(root=root, directory=marker, common=marker)
        if marker.is_file():
            directory = _pointed_at(_text(marker).removeprefix("gitdir:").strip(), root)
            if (directory / "HEAD").is_file():
                common = _text(directory / "commondir").strip()
                shared = _pointed_at(common, directory) if common else directory
                return Repository(root=root, directory=directory, common=shared)
    return None


def _users_excludes() -> Path | None:
    """The user's own list of files to ignore everywhere, found as git finds it; read as text."""
    home = Path(os.environ.get("HOME", "/nonexistent"))
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    for text in (_text(home / ".gitconfig"), _text(config / "config")):
        named = _EXCLUDES.search(text)
        if named is not None:
            return Path(named[1].replace("~", str(home), 1))
    return config / "ignore" if (config / "ignore").is_file() else None


def _pointed_at(text: str, base: Path) -> Path:
    return Path(os.path.normpath(base / text))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
