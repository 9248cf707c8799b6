from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gil_corpus_help import CORPUS, files, score

from probes.static.gil_scan.macros import macros_of, prepare
from probes.static.gil_scan.output import document, observe, sarif
from probes.static.gil_scan.scan import scan, scan_texts

LAB = Path(__file__).parents[2] / "labs" / "kv_transfer"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "probes.static.gil_scan", *words], capture_output=True, text=True, timeout=120
    )


def faults(text: str) -> list[tuple[str, str, int]]:
    report = scan_texts([("x.cpp", text)])
    return [(finding.exported, finding.fault.value, finding.at.line) for finding in report.findings]


def module(body: str, definitions: str) -> str:
    return f"{body}\nPYBIND11_MODULE(ext, m) {{ {definitions} }}\n"


def test_on_the_corpus_precision_and_recall_are_at_least_95_percent() -> None:
    told = score(files("faulty", "sound"))
    assert len(files("faulty")) >= 15
    assert len(files("sound")) >= 15
    assert told.precision >= 0.95, f"{told}; invented: {sorted(told.invented)}"
    assert told.recall >= 0.95, f"{told}; missed: {sorted(told.missed)}"


def test_on_files_written_after_the_scanner_precision_and_recall_are_at_least_90_percent() -> None:
    told = score(files("unseen_faulty", "unseen_sound"))
    assert told.precision >= 0.9, f"{told}; invented: {sorted(told.invented)}"
    assert told.recall >= 0.9, f"{told}; missed: {sorted(told.missed)}"


def test_of_the_lab_exactly_the_faulty_function_is_named() -> None:
    done = run(str(LAB), "--json")
    found = json.loads(done.stdout)["findings"]
    assert done.returncode == 1
    assert [(each["function"], each["exported"]) for each in found] == [
        ("Buffer::intranode_dispatch", "intranode_dispatch")
    ]
    line = (LAB / "native" / "wire.cpp").read_text().splitlines()[found[0]["line"] - 1]
    assert line.strip() == "while (true) {"
    assert found[0]["fix"]["form"] == "top"


def test_a_release_only_in_another_branch_does_not_help() -> None:
    text = module(
        "int f(int fd, bool big) {\n  if (big) {\n    py::gil_scoped_release r;\n    fsync(fd);\n  } else {\n"
        "    fsync(fd);\n  }\n  return 0;\n}",
        'm.def("f", &f);',
    )
    assert faults(text) == [("f", "wait-with-gil", 6)]


def test_a_wait_is_named_at_its_own_line_with_the_calls_that_lead_to_it() -> None:
    report = scan(CORPUS / "faulty" / "02_two_levels_down.cpp")
    (finding,) = report.findings
    assert [place.line for place in finding.calls] == [16, 12]


def test_files_are_scanned_together_so_that_a_wait_in_another_file_is_found() -> None:
    report = scan_texts([
        ("wait.hpp", "inline void settle(int fd) { char c; ::read(fd, &c, 1); }"),
        ("bind.cpp", module("", 'm.def("settle", &settle);')),
    ])  # fmt: skip
    assert [(f.at.file, f.at.line, f.bound_at.file) for f in report.findings] == [("wait.hpp", 1, "bind.cpp")]


def test_a_macro_with_quotes_pastes_and_nesting_keeps_the_line_numbers() -> None:
    text = "#define A(x) B(x##1, #x)\n#define B(n, s) while (!n) { log(s); }\nvoid f() {\n  A(\n    go);\n  g();\n}\n"
    prepared = prepare(text, macros_of(text))
    assert 'while (!go1) { log("go"); }' in prepared
    assert prepared.splitlines()[5] == text.splitlines()[5]


def test_a_recursive_macro_and_an_endless_recursion_end() -> None:
    text = "#define X(a) X(a; a)\nint f(int n) { X(n); return f(n); }\n" + module("", 'm.def("f", &f);')
    assert faults(text) == []


def test_a_damaged_file_is_named_and_the_rest_is_still_scanned(tmp_path: Path) -> None:
    (tmp_path / "broken.cpp").write_text("int f( {{{ <<< \x00 ]]]")
    (tmp_path / "good.cpp").write_text(module("void w(int fd) { fsync(fd); }", 'm.def("w", &w);'))
    report = scan(tmp_path)
    assert [finding.exported for finding in report.findings] == ["w"]
    assert report.damaged == ("broken.cpp",)


def test_exports_without_source_are_listed_and_nothing_found_is_then_inconclusive() -> None:
    report = scan_texts([("bind.cpp", module("", 'm.def("far", &library::far);'))])
    assert report.unseen == ("far",)
    assert observe(report).verdict == "inconclusive"


def test_a_folder_that_is_not_there_or_holds_no_source_is_a_clear_error(tmp_path: Path) -> None:
    missing, empty = run(str(tmp_path / "no"), "--json"), run(str(tmp_path))
    assert missing.returncode == empty.returncode == 2
    assert "no such file or folder" in json.loads(missing.stdout)["error"]["message"]
    assert "no C or C++ source" in empty.stderr


def test_sarif_names_rule_line_and_the_way_to_it(tmp_path: Path) -> None:
    target = tmp_path / "out.sarif"
    done = run(str(CORPUS / "faulty" / "02_two_levels_down.cpp"), "--sarif", str(target), "--exit-zero")
    assert done.returncode == 0
    log = json.loads(target.read_text())
    (result,) = log["runs"][0]["results"]
    assert log["version"] == "2.1.0"
    assert result["ruleId"] == "wait-with-gil"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 7
    assert len(result["codeFlows"][0]["threadFlows"][0]["locations"]) == 3


def test_an_observation_is_tied_to_the_line_of_the_wait() -> None:
    observation = observe(scan(LAB))
    assert observation.verdict == "fail"
    assert observation.where.file == "native/wire.cpp"
    assert observation.signals["gil_held_while_waiting"] is True


@pytest.mark.parametrize("name", [path.name for path in files("faulty")])
def test_every_finding_says_what_to_do(name: str) -> None:
    for finding in document(scan(CORPUS / "faulty" / name))["findings"]:
        assert finding["reason"]
        assert finding["fix"]["text"]
    assert sarif(scan(CORPUS / "faulty" / name), "1")["runs"][0]["results"]
