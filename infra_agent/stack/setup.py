"""Prepares a stack's environment and weights in the user cache, once, so that a kill at any moment does no harm.

Covered: sizes are printed before anything is fetched; both parts appear in one step when complete; concurrent
preparations wait for each other; when all is there, nothing is executed and no network is used.
Not covered: Windows (the environment is reached through a link).

Layout of `<cache>/<recipe key>/`: `env` → `env-XXXX/` (virtual environment), `weights/` (model and manifest),
`setup.log` (all output of pip and of the conversion). A leftover of a killed preparation is removed by the next one.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from infra_agent.errors import StackSetupError
from infra_agent.stack.hashing import write_atomically
from infra_agent.stack.pip import ISOLATED, LONGEST_S, choose, run_logged
from infra_agent.stack.recipe import Recipe, Weights
from infra_agent.stack.sizes import counted, home_relative, tree_bytes, words
from infra_agent.stack.weights import build_weights, model_path, weights_ready

Narrate = Callable[[str], None]
_MANIFEST = "infra-agent.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPaths:
    """Where a recipe's parts are, or will be."""

    root: Path

    @property
    def env(self) -> Path:
        """Root of the virtual environment."""
        return self.root / "env"

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.env / "bin" / "python"

    @property
    def weights(self) -> Path:
        """Directory of the model and its manifest."""
        return self.root / "weights"

    @property
    def model(self) -> Path:
        """The model directory."""
        return model_path(self.weights)

    @property
    def log(self) -> Path:
        """Output of everything that was run."""
        return self.root / "setup.log"


def paths_of(recipe: Recipe, cache: Path) -> PreparedPaths:
    """Paths of a recipe below a cache directory. Nothing is created."""
    return PreparedPaths(root=cache / recipe.key())


def prepare(
    recipe: Recipe,
    cache: Path,
    narrate: Narrate,
    *,
    offline: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> PreparedPaths:
    """Environment and weights, built if they are not there. Raises StackSetupError with cause and next step."""
    paths = paths_of(recipe, cache)
    if env_ready(paths) and _has_weights(recipe, paths):
        return paths
    if offline:
        missing = "weights" if env_ready(paths) else "environment"
        hint = "run it once with a network"
        raise StackSetupError(f"the {recipe.name} {missing} is not prepared", where=str(paths.root), hint=hint)
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        with _locked(paths, narrate):
            _build(recipe, paths, narrate, clock)
    except OSError as error:
        raise _disk_error(error, paths) from error
    return paths


def env_ready(paths: PreparedPaths) -> bool:
    """Whether a complete environment is there and its interpreter still exists."""
    return (paths.env / _MANIFEST).is_file() and os.access(paths.python, os.X_OK)


def _has_weights(recipe: Recipe, paths: PreparedPaths) -> bool:
    return recipe.weights is None or weights_ready(paths.weights)


@contextmanager
def _locked(paths: PreparedPaths, narrate: Narrate) -> Iterator[None]:
    lock = FileLock(f"{paths.root}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        narrate(f"another infra-agent is preparing this stack; waiting for it ({lock.lock_file})")
        _wait_for(lock)
    try:
        yield
    finally:
        lock.release()


def _wait_for(lock: FileLock) -> None:
    try:
        lock.acquire(timeout=2 * LONGEST_S)
    except Timeout:
        hint = "stop the other infra-agent, or wait for it, then run this again"
        raise StackSetupError(
            "another infra-agent prepares this stack without end", where=lock.lock_file, hint=hint
        ) from None


def _build(recipe: Recipe, paths: PreparedPaths, narrate: Narrate, clock: Callable[[], float]) -> None:
    start = clock()
    _remove_leftovers(paths)
    need_env = not env_ready(paths)
    weights = None if _has_weights(recipe, paths) else recipe.weights
    weights_line = _weights_line(recipe.name, weights, paths) if weights is not None else None
    if need_env:
        _check_space(paths, recipe.env_download_bytes + recipe.env_disk_bytes)
        _build_env(recipe, paths, narrate, weights_line)
    elif weights_line is not None:
        narrate(weights_line)
    if weights is not None:
        _check_space(paths, weights.download_bytes * 2 + weights.disk_bytes)
        build_weights(weights, paths.weights, paths.python, paths.log, narrate)
    if need_env or weights is not None:
        narrate(f"{recipe.name} prepared in {clock() - start:.0f} s, {words(tree_bytes(paths.root))} on disk")


def _weights_line(name: str, weights: Weights, paths: PreparedPaths) -> str:
    return (
        f"{name} weights: {weights.title}, {words(weights.download_bytes)} to download, "
        f"{words(weights.disk_bytes)} on disk in {home_relative(paths.root)}"
    )


def _remove_leftovers(paths: PreparedPaths) -> None:
    current = paths.env.resolve() if paths.env.is_symlink() else None
    for pattern in ("env-*", "weights-*"):
        for leftover in paths.root.glob(pattern):
            if leftover.is_symlink():
                leftover.unlink()
            elif leftover.resolve() != current:
                shutil.rmtree(leftover, ignore_errors=True)


def _build_env(recipe: Recipe, paths: PreparedPaths, narrate: Narrate, weights_line: str | None) -> None:
    # A new name for every attempt: a pip that outlived its killed parent writes into a directory that nobody uses.
    target = Path(tempfile.mkdtemp(prefix="env-", dir=paths.root))
    target.chmod(0o755)
    narrate(f"asking the package index what the {recipe.name} environment needs")
    try:
        run_logged(
            [sys.executable, *ISOLATED, "venv", str(target)], paths.log, doing="creating the environment",
            remove=paths.root,
        )  # fmt: skip
        pip = [str(target / "bin" / "python"), *ISOLATED, "pip"]
        arguments, resolution = choose(recipe, pip, target / "resolution.json", paths.log, narrate)
        download = recipe.env_download_bytes if resolution.download_bytes is None else resolution.download_bytes
        size = words(download) if resolution.download_bytes is not None else f"about {words(download)}"
        narrate(
            f"{recipe.name} environment: {counted(len(resolution.names), 'package')}, {size} to download, "
            f"about {words(recipe.env_disk_bytes)} on disk in {home_relative(paths.root)}"
        )
        if weights_line is not None:
            narrate(weights_line)
        _check_space(paths, download + recipe.env_disk_bytes)
        command = [*pip, "install", "--progress-bar", "off", *arguments]
        run_logged(command, paths.log, doing="installing the environment", remove=paths.root)
        manifest = {"requirements": list(recipe.requirements), "packages": sorted(resolution.names)}
        write_atomically(target / _MANIFEST, json.dumps(manifest, indent=1))
        _publish(target, paths.env)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _publish(target: Path, link: Path) -> None:
    """Point the link at the finished environment, in one step."""
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    fresh = target.with_name(f"{target.name}.link")
    fresh.symlink_to(target.name)
    fresh.replace(link)


def _check_space(paths: PreparedPaths, needed_bytes: int) -> None:
    free = shutil.disk_usage(paths.root).free
    if free < needed_bytes:
        raise StackSetupError(
            f"not enough disk space: {words(needed_bytes)} needed, {words(free)} free",
            where=str(paths.root),
            hint="free some space, or set INFRA_AGENT_CACHE to a directory on another disk",
        )


def _disk_error(error: OSError, paths: PreparedPaths) -> StackSetupError:
    hint = "free some space and check permissions, or set INFRA_AGENT_CACHE to another directory"
    return StackSetupError(f"the cache cannot be written: {error}", where=str(paths.root), hint=hint)
