from __future__ import annotations

import pytest

from infra_agent.changes.kernels import is_kernel


@pytest.mark.parametrize(
    ("path", "expected"),
    [("csrc/rope.cu", True), ("ops/kernels/norm.py", True), ("triton_attention.py", True), ("kernelspec.md", False)],
)
def test_files_of_kernels_are_known_by_their_names(path: str, expected: bool) -> None:
    assert is_kernel(path) is expected
