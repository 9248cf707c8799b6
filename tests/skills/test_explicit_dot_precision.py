"""The transformation that states the precision of named products, on sources of every shape that it may meet."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "skills" / "explicit-dot-precision" / "transform.py"
HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(a, b):\n"


@pytest.fixture(scope="module")
def transform():
    spec = importlib.util.spec_from_file_location("explicit_dot_precision_under_test", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def rewritten(transform, body: str, line: int = 7, column: int | None = None) -> str:
    return transform.rewritten(HEAD + body, [transform.Place("k.py", line, column)])


@pytest.mark.parametrize(
    ("call", "stated"),
    [
        ("tl.dot(a, b)", "tl.dot(a, b, input_precision=float32_product_precision())"),
        ("tl.dot(a, b, acc)", "tl.dot(a, b, acc, input_precision=float32_product_precision())"),
        ("tl.dot(a, b, allow_tf32=True)", "tl.dot(a, b, input_precision=float32_product_precision())"),
        ("tl.dot(a, b, acc, 'tf32')", "tl.dot(a, b, acc, input_precision=float32_product_precision())"),
        (
            "tl.dot(a, b, input_precision='tf32', out_dtype=tl.float32)",
            "tl.dot(a, b, input_precision=float32_product_precision(), out_dtype=tl.float32)",
        ),
        ("tl.dot(\n        a,\n        b,\n    )", "b, input_precision=float32_product_precision(),\n    )"),
        ("tl.dot(tl.trans(a), b)  # ä(", "tl.dot(tl.trans(a), b, input_precision=float32_product_precision())  # ä("),
    ],
)
def test_a_precision_is_stated_or_replaced(transform, call: str, stated: str) -> None:
    after = rewritten(transform, f"    c = {call}\n")
    assert stated in after
    assert after.count("def float32_product_precision") == 1
    assert "from triton.language.target_info import cuda_capability_geq" in after
    compile(after, "k.py", "exec")


def test_of_two_calls_in_one_line_only_the_one_at_the_column_is_changed(transform) -> None:
    line = '    c = "ä", tl.dot(a, b) - tl.dot(b, a)\n'
    after = rewritten(transform, line, column=line.index("tl.dot(b"))
    assert "tl.dot(a, b) - tl.dot(b, a, input_precision" in after


def test_a_second_run_proposes_nothing(transform, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(rewritten(transform, "    c = tl.dot(a, b)\n"))
    lines = (tmp_path / "k.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "tl.dot(" in text)
    assert transform.propose(tmp_path, [{"file": "k.py", "line": line}]) == []


def test_the_diff_applies_and_leaves_what_rewriting_gives(transform, tmp_path: Path) -> None:
    before = HEAD + "    c = tl.dot(a, b)"
    (tmp_path / "k.py").write_text(before)
    (diff,) = transform.propose(tmp_path, [{"file": str(tmp_path / "k.py"), "line": 7, "column": 8}])
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, text=True, check=True)
    assert (tmp_path / "k.py").read_text() == transform.rewritten(before, [transform.Place("k.py", 7)])


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        (HEAD + "    c = a + b\n", 7, "no tl.dot"),
        (HEAD + "    c = tl.dot(a, b)\n", 3, "no tl.dot"),
        ("import triton.language as tl\ndef kernel(a, b):\n    c = tl.dot(a, b)\n", 3, "does not import triton"),
        (HEAD + "    c = tl.dot(*a)\n", 7, "not all written out"),
        ("def early(): ...\nimport triton\nimport triton.language as tl\ntl.dot(a, b)\n", 4, "behind its first"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(transform, source: str, line: int, words: str) -> None:
    with pytest.raises(transform.Unfit, match=words):
        transform.rewritten(source, [transform.Place("k.py", line)])


def test_files_outside_the_tree_are_refused(transform, tmp_path: Path) -> None:
    with pytest.raises(transform.Unfit, match="below"):
        transform.propose(tmp_path, [{"file": "/etc/passwd", "line": 1}])
    with pytest.raises(transform.Unfit, match="no file"):
        transform.propose(tmp_path, [{"file": "../k.py", "line": 1}])


def test_alone_it_prints_a_diff_or_one_line_of_error(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(HEAD + "    c = tl.dot(a, b)\n")
    good = subprocess.run([sys.executable, FILE, tmp_path, "k.py:7"], capture_output=True, text=True, check=False)
    bad = subprocess.run([sys.executable, FILE, tmp_path, "k.py:2"], capture_output=True, text=True, check=False)
    assert good.returncode == 0
    assert good.stdout.startswith("--- a/k.py")
    assert bad.returncode == 2
    assert bad.stderr.startswith("error: no tl.dot")
