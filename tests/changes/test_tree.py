"""The digest of a tree: equal for equal trees, different for any difference that it promises to see."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from changes.trees import tree_with

from infra_agent.changes.tree import tree_digest
from infra_agent.errors import ConfigError

pytestmark = pytest.mark.requirement("P1")
FILES: dict[str, str | bytes] = {"a.py": "x\n", "b/c.py": "y\n", "b/d.py": ""}


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda app: (app / name).write_bytes(content)


DIFFERENCES: dict[str, Callable[[Path], object]] = {
    "a byte": write("a.py", b"X\n"),
    "a line end": write("a.py", b"x\r\n"),
    "a new empty file": write("new", b""),
    "a file gone": lambda app: (app / "b/d.py").unlink(),
    "a rename": lambda app: (app / "a.py").rename(app / "z.py"),
    "contents exchanged": lambda app: (write("a.py", b"y\n")(app), write("b/c.py", b"x\n")(app)),
    "a program": lambda app: (app / "a.py").chmod(0o755),
    "a link to elsewhere": lambda app: (app / "link").symlink_to("/etc"),
    "names that join to the same": lambda app: (app / "b/c.py").rename(app / "bc.py"),
}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_any_difference_in_path_mode_or_content_changes_the_digest(tmp_path: Path, case: str) -> None:
    tree_with(tmp_path / "one", FILES)
    tree_with(tmp_path / "two", dict(reversed(FILES.items())))
    assert tree_digest(tmp_path / "one") == tree_digest(tmp_path / "two")
    DIFFERENCES[case](tmp_path / "two/app")
    assert tree_digest(tmp_path / "one") != tree_digest(tmp_path / "two")


def test_links_are_links_and_are_never_followed(tmp_path: Path) -> None:
    tree_with(tmp_path / "tree", {"a.py": "x\n"})
    (tmp_path / "tree/app/loop").symlink_to(".")
    (tmp_path / "tree/app/broken").symlink_to("/nonexistent")
    (tmp_path / "outside").write_text("1")
    (tmp_path / "tree/app/out").symlink_to(tmp_path / "outside")
    before = tree_digest(tmp_path / "tree")
    (tmp_path / "outside").write_text("2")
    assert tree_digest(tmp_path / "tree") == before
    (tmp_path / "tree/app/out").unlink()
    (tmp_path / "tree/app/out").symlink_to(tmp_path / "other")
    assert tree_digest(tmp_path / "tree") != before


def test_shared_entries_and_empty_directories_are_no_part_of_it(tmp_path: Path) -> None:
    tree_with(tmp_path, {"a.py": "x\n"})
    before = tree_digest(tmp_path)
    (tmp_path / "app/empty").mkdir()
    tree_with(tmp_path, {"venv/lib/x.py": "x\n", "weights.bin": "x"})
    assert tree_digest(tmp_path, ["app/venv", "app/weights.bin"]) == before


def test_names_that_are_no_text_and_special_files_are_told_apart(tmp_path: Path) -> None:
    tree_with(tmp_path, {"a.py": "x\n"})
    odd = os.fsencode(tmp_path / "app") + b"/\xff\xfe"
    with open(odd, "wb"):  # noqa: PTH123
        pass
    assert tree_digest(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "app/s"))
        with pytest.raises(ConfigError, match="neither file nor link"):
            tree_digest(tmp_path)
