"""The environment in which Triton kernels are compiled and interpreted without a graphics card, prepared once.

Covered: one pinned set (torch for the CPU, triton, numpy, fla-core) in the user cache; sizes are printed before
anything is fetched; complete or absent, never half; concurrent preparations wait. Not covered: a stack's own
environment (the probes take any interpreter that has triton), Windows.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from infra_agent.errors import StackSetupError
from infra_agent.stack.cache import cache_dir
from infra_agent.stack.hashing import write_atomically
from infra_agent.stack.pip import ISOLATED, choose, run_logged
from infra_agent.stack.sizes import counted, home_relative, tree_bytes, words

NAME = "kernels"
_MANIFEST = "infra-agent.json"
_WAIT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecipe:
    """What is installed. The sizes are what the index told last; they are used when it does not tell."""

    requirements: tuple[str, ...] = (
        "torch==2.13.0", "triton==3.7.1", "numpy==2.4.6", "fla-core==0.5.2", "einops==0.8.2", "packaging>=24",
    )  # fmt: skip
    constraints: Path | None = None
    cpu_index: str | None = "https://download.pytorch.org/whl/cpu"
    download_bytes: int = 450_000_000
    disk_bytes: int = 1_900_000_000

    def key(self) -> str:
        """Name of the cache directory."""
        facts = [self.requirements, sys.implementation.name, platform.python_version_tuple()[:2], platform.machine()]
        return f"{NAME}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]}"


def kernel_python(cache: Path | None = None, recipe: KernelRecipe | None = None) -> Path:
    """The interpreter, whether it is there yet or not."""
    wanted = recipe or KernelRecipe()
    return (cache if cache is not None else cache_dir()) / wanted.key() / "env" / "bin" / "python"


def is_prepared(python: Path) -> bool:
    """Whether the environment of this interpreter is complete."""
    return (python.parent.parent / _MANIFEST).is_file() and os.access(python, os.X_OK)


def prepare_kernel_env(
    narrate: Callable[[str], None],
    cache: Path | None = None,
    *,
    offline: bool = False,
    recipe: KernelRecipe | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Path:
    """The interpreter, built if it is not there. Raises StackSetupError with cause and next step."""
    wanted = recipe or KernelRecipe()
    python = kernel_python(cache, wanted)
    if is_prepared(python):
        return python
    root = python.parents[2]
    if offline:
        raise StackSetupError(
            "the environment for kernels is not prepared", where=str(root), hint="run it once with a network"
        )
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{root}.lock", timeout=_WAIT_S):
            if not is_prepared(python):
                start = clock()
                _build(wanted, root, narrate)
                narrate(f"{NAME} prepared in {clock() - start:.0f} s, {words(tree_bytes(root))} on disk")
    except OSError as error:
        hint = "free some space and check permissions, or set INFRA_AGENT_CACHE to another directory"
        raise StackSetupError(f"the cache cannot be written: {error}", where=str(root), hint=hint) from error
    return python


def _build(recipe: KernelRecipe, root: Path, narrate: Callable[[str], None]) -> None:
    link, log = root / "env", root / "setup.log"
    # Nobody else builds here now (the lock), so what is not the finished environment is a leftover of a kill.
    for leftover in root.glob("env-*"):
        leftover.unlink() if leftover.is_symlink() else shutil.rmtree(leftover, ignore_errors=True)
    target = Path(tempfile.mkdtemp(prefix="env-", dir=root))
    target.chmod(0o755)
    narrate("asking the package index what the environment for kernels needs")
    try:
        run_logged([sys.executable, *ISOLATED, "venv", str(target)], log, doing="creating the environment", remove=root)
        pip = [str(target / "bin" / "python"), *ISOLATED, "pip"]
        arguments, resolution = choose(recipe, pip, target / "resolution.json", log, narrate)
        download = recipe.download_bytes if resolution.download_bytes is None else resolution.download_bytes
        narrate(
            f"{NAME} environment: {counted(len(resolution.names), 'package')}, {words(download)} to download, "
            f"about {words(recipe.disk_bytes)} on disk in {home_relative(root)}"
        )
        _check_space(root, download + recipe.disk_bytes)
        command = [*pip, "install", "--progress-bar", "off", *arguments]
        run_logged(command, log, doing="installing the environment", remove=root)
        write_atomically(target / _MANIFEST, json.dumps({"requirements": list(recipe.requirements)}, indent=1))
        fresh = target.with_name(f"{target.name}.link")
        fresh.symlink_to(target.name)
        fresh.replace(link)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _check_space(root: Path, needed_bytes: int) -> None:
    free = shutil.disk_usage(root).free
    if free < needed_bytes:
        raise StackSetupError(
            f"not enough disk space: {words(needed_bytes)} needed, {words(free)} free", where=str(root),
            hint="free some space, or set INFRA_AGENT_CACHE to a directory on another disk",
        )  # fmt: skip
