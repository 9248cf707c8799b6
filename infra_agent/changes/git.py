"""The one place that starts git: with a directory, a configuration and an environment of the harness's own.

Git runs what it finds: hooks, a file-system monitor, filters named in attributes, external diff programs. So no git
directory is used that anything but the harness can write, no user or system configuration is read, and the history of a
run is written by `fast-import` and read by `cat-file`, which look at no working tree, no attributes and no filters.

Covered: one commit per change, reading a commit's files back, listing the files of somebody else's working tree.
Not covered: networks; nothing is ever fetched or pushed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from infra_agent.errors import ConfigError

LONGEST_S = 600.0
"""Of one git command; a large tree on a slow disk needs its time."""
KILL_S = 10.0
_NULL = os.devnull
_NO_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding !diff !merge -export-subst -export-ignore\n"
_SETTINGS = {
    "core.hooksPath": _NULL,
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.attributesFile": _NULL,
    "core.excludesFile": _NULL,
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "protocol.allow": "never",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.directory": "*",
}
_EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_WHO = ("infra-agent", "infra-agent@localhost")


class Blob(NamedTuple):
    """One path of a commit. `content` None: the path is gone. Of a link the content is its target."""

    path: str
    mode: str
    content: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """A git directory of the harness. `settings` and `environment` add to the fixed ones."""

    directory: Path
    hash_name: str = "sha1"
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def create(self) -> None:
        """Make the directory, without templates: no hooks, no configuration but git's own few lines."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        bare = Git(directory=self.directory, hash_name=self.hash_name)
        bare.run("init", "--quiet", "--bare", "--template=", f"--object-format={self.hash_name}", str(self.directory))
        (self.directory / "info").mkdir(exist_ok=True)
        (self.directory / "info/attributes").write_text(_NO_ATTRIBUTES)

    def run(self, *words: str, stdin: bytes = b"", cwd: Path | None = None) -> bytes:
        """Run a git command; its output. Raises ConfigError with git's own words."""
        try:
            done = subprocess.run(
                ["git", *words],
                input=stdin,
                capture_output=True,
                env=self._env(),
                cwd=cwd or _existing(self.directory),
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(
                f"git {words[0]} did not end within {LONGEST_S:.0f} s", where=str(self.directory)
            ) from None
        except FileNotFoundError:
            raise ConfigError(
                "git is not installed", hint="code changes are kept in a git directory: install git"
            ) from None
        if done.returncode != 0:
            raise self._failure(words, done.stderr)
        return done.stdout

    def commit(self, branch: str, parent: str | None, blobs: Iterable[Blob], message: str, when_s: int) -> str:
        """Write one commit and set the branch to it; its name. `blobs` are what differs from the parent."""
        process = subprocess.Popen(
            ["git", "fast-import", "--quiet", "--force"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env=self._env(), cwd=self.directory,
        )  # fmt: skip
        assert process.stdin is not None
        try:
            _stream(process.stdin, f"refs/heads/{branch}", parent, blobs, message, when_s)
            _, stderr = process.communicate(timeout=LONGEST_S)
        except BaseException:
            process.kill()
            process.communicate(timeout=KILL_S)
            raise
        if process.returncode != 0:
            raise self._failure(("fast-import",), stderr)
        found = self.head(branch)
        assert found is not None
        return found

    def head(self, branch: str) -> str | None:
        """The branch's commit; None when there is no such branch."""
        words = ("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return self.run(*words).decode().strip() or None

    def blobs(self, commit: str) -> Iterator[Blob]:
        """Every path of a commit with its content."""
        listed = self.run("ls-tree", "-r", "-z", "--full-tree", commit)
        process = subprocess.Popen(
            ["git", "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=self._env(), cwd=self.directory,
        )  # fmt: skip
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            for entry in listed.split(b"\0")[:-1]:
                head, _, path = entry.partition(b"\t")
                mode, _, name = head.decode().split(" ")
                process.stdin.write(f"{name}\n".encode())
                process.stdin.flush()
                yield Blob(os.fsdecode(path), mode, self._content(process.stdout, name))

    def _content(self, source: IO[bytes], name: str) -> bytes:
        answer = source.readline().split()
        if len(answer) != 3 or answer[1] != b"blob":
            raise ConfigError(f"the run's git directory is damaged: {name} is missing", where=str(self.directory))
        content = source.read(int(answer[2]))
        source.read(1)
        return content

    def _failure(self, words: tuple[str, ...], stderr: bytes) -> ConfigError:
        lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        said = lines[-1] if lines else "it gave no reason"
        return ConfigError(f"git {words[0]} failed: {said}", where=str(self.directory), lines=lines[-5:])

    def _env(self) -> dict[str, str]:
        settings = {**_SETTINGS, **self.settings}
        numbered: dict[str, str] = {}
        for number, (name, value) in enumerate(settings.items()):
            numbered |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return {
            "PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(self.directory),
            "XDG_CONFIG_HOME": str(self.directory), "GIT_DIR": str(self.directory), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": _NULL, "GIT_CONFIG_SYSTEM": _NULL, "GIT_CONFIG_COUNT": str(len(settings)), **numbered,
            "GIT_ATTR_NOSYSTEM": "1", "GIT_ATTR_SOURCE": _EMPTY_TREE[self.hash_name], "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_PAGER": "cat",
            "GIT_LITERAL_PATHSPECS": "1", **self.environment,
        }  # fmt: skip


def _existing(directory: Path) -> Path:
    return directory if directory.is_dir() else directory.parent


def _stream(sink: IO[bytes], branch: str, parent: str | None, blobs: Iterable[Blob], message: str, when_s: int) -> None:
    """The commit in fast-import's language; a broken pipe is git's own failure, told by its exit code."""
    text = message.encode()
    name, address = _WHO
    try:
        sink.write(f"commit {branch}\ncommitter {name} <{address}> {when_s} +0000\ndata {len(text)}\n".encode() + text)
        sink.write(f"\nfrom {parent}\n".encode() if parent is not None else b"\n")
        for blob in blobs:
            if blob.content is None:
                sink.write(b"D " + _quoted(blob.path) + b"\n")
                continue
            sink.write(
                f"M {blob.mode} inline ".encode() + _quoted(blob.path) + f"\ndata {len(blob.content)}\n".encode()
            )
            sink.write(blob.content + b"\n")
    except BrokenPipeError:
        return


def _quoted(path: str) -> bytes:
    escaped = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'
