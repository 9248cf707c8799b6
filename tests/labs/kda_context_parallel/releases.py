"""The versions of upstream that the lab looks at, and patched copies of them.

Covered: both releases from the package registry, by checksum, in the user cache; a copy with diffs applied.
Not covered: upstream's development branches.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from infra_agent.stack.kernels import Release

BEFORE = Release(
    requirement="fla-core==0.5.2",
    sha256="5e830c85bad3d0d34677f98ac7074d08687a3756f0f0499d95ceb96eb6920761",
    download_bytes=819_225,
)
AFTER = Release(
    requirement="fla-core==0.6.0",
    sha256="b0708b70e0b119cd58a0a5146ea56cb175cef6ed969d8ac60267e3e077ce3ebd",
    download_bytes=1_085_221,
)
RELEASES = (BEFORE, AFTER)


def patched(tree: Path, diffs: Sequence[str], target: Path) -> Path:
    """A copy of a release with these diffs in it. Raises CalledProcessError when one does not apply."""
    shutil.copytree(tree, target)
    for diff in diffs:
        command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
        subprocess.run(command, cwd=target, input=diff, text=True, check=True, capture_output=True)
    return target
