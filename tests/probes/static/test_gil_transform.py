from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from gil_corpus_help import CORPUS

from probes.static.gil_scan.output import document
from probes.static.gil_scan.scan import scan

ROOT = Path(__file__).parents[3]
SKILL = ROOT / "skills" / "release-gil-while-waiting" / "transform.py"


@pytest.fixture(scope="module")
def transform() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_gil", SKILL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_labs_fault_is_fixed_by_one_line_that_applies_and_scans_clean(
    transform: ModuleType, tmp_path: Path
) -> None:
    tree = tmp_path / "native"
    shutil.copytree(ROOT / "tests" / "labs" / "kv_transfer" / "native", tree)
    (proposal,) = transform.propose(tree, document(scan(tree)))
    added = [line for line in proposal["diff"].splitlines() if line.startswith("+") and not line.startswith("+++")]
    subprocess.run(["git", "apply", "-p1"], input=proposal["diff"], text=True, cwd=tree, check=True)
    assert added[-1].strip("+ ") == "pybind11::gil_scoped_release release;"
    assert len(added) == 2
    assert scan(tree).findings == ()


def test_the_facts_of_a_run_are_read_as_well(transform: ModuleType) -> None:
    tree = ROOT / "tests" / "labs" / "kv_transfer" / "native"
    found = document(scan(tree))
    facts = {"metric": "gap", "signals": {}, "observations": [{"probe": "other"}, {"detail": found}]}
    assert len(transform.propose(tree, facts)) == 1


@pytest.mark.parametrize("name", ["01_spin_on_counter.cpp", "02_two_levels_down.cpp", "08_nanobind_method.cpp",
                                  "04_lambda_in_def.cpp", "05_macro_wait.cpp"])  # fmt: skip
def test_proposals_for_other_sources_apply_and_leave_no_finding(
    transform: ModuleType, tmp_path: Path, name: str
) -> None:
    shutil.copy(CORPUS / "faulty" / name, tmp_path)
    for proposal in transform.propose(tmp_path, document(scan(tmp_path))):
        subprocess.run(["git", "apply", "-p1"], input=proposal["diff"], text=True, cwd=tmp_path, check=True)
    assert scan(tmp_path).findings == ()


@pytest.mark.parametrize("name", ["09_method_table.c", "10_object_in_released_region.cpp", "12_pair_per_item.cpp",
                                  "03_one_path_only.cpp", "14_reacquired_too_early.cpp",
                                  "13_destructor_joins.cpp"])  # fmt: skip
def test_what_cannot_be_fixed_mechanically_is_left_to_people(transform: ModuleType, name: str) -> None:
    folder = CORPUS / "faulty"
    findings = [f for f in document(scan(folder / name))["findings"]]
    assert findings
    assert transform.propose(folder, findings) == []


def test_braces_before_the_body_are_not_taken_for_it(transform: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "x.cpp").write_text(
        "struct C {\n    int a_{0};\n    C(int fd) : a_{fd} { fsync(a_); }\n};\n"
        'PYBIND11_MODULE(x, m) { py::class_<C>(m, "C").def(py::init<int>()); }\n'
    )
    (proposal,) = transform.propose(tmp_path, document(scan(tmp_path)))
    subprocess.run(["git", "apply", "-p1"], input=proposal["diff"], text=True, cwd=tmp_path, check=True)
    assert "C(int fd) : a_{fd} {\n" in (tmp_path / "x.cpp").read_text()
    assert scan(tmp_path).findings == ()


def test_a_finding_that_points_out_of_the_tree_changes_nothing(transform: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "secret.cpp").write_text("int f() {\n}\n")
    finding = {
        "fault": "wait-with-gil", "function": "f", "line": 1, "reason": "r",
        "fix": {"form": "top", "guard": "g;", "at": {"file": "../secret.cpp", "line": 1}},
    }  # fmt: skip
    assert transform.propose(tmp_path / "tree", [finding]) == []


def test_it_needs_the_standard_library_only() -> None:
    words = ["-I", "-S", "-c", f"import runpy; runpy.run_path({str(SKILL)!r})"]
    subprocess.run([sys.executable, *words], check=True, timeout=60)
