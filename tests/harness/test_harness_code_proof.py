"""The proof that patched lines ran: real Python processes of several versions take notes, and the notes are judged."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra_agent.harness import code_proof
from infra_agent.harness.code_places import Place
from infra_agent.harness.code_proof import Notes, PatchedFile, judge_code, mapped, prepare, read_notes
from infra_agent.harness.reporter import INJECT
from probes.base import Cost, Verdict

pytestmark = pytest.mark.requirement("P1")
MODULE = """\
import threading


def work(path):
    with open(path) as file:
        file.read()
    return 1


def never():
    return 2
"""
PROGRAM = """\
import os, subprocess, sys, threading
import module
if sys.argv[1] == "thread":
    thread = threading.Thread(target=module.work, args=(sys.argv[2],))
    thread.start()
    thread.join()
elif sys.argv[1] == "fork":
    if os.fork() == 0:
        module.work(sys.argv[2])
        os._exit(0)
    os.wait()
elif sys.argv[1] == "child":
    subprocess.run([sys.executable, sys.argv[0], "thread", sys.argv[2]], check=True)
elif sys.argv[1] == "other":
    source = open(module.__file__).read().replace("return 1", "return 3")
    code = compile(source, module.__file__, "exec")
    exec(code, {})
"""
COST = Cost(wall_s=0.0)


def pythons() -> dict[str, str]:
    """Interpreters of this machine by version: 3.11 notes by tracing, later ones by monitoring."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for version in ("3.11", "3.12", "3.13", "3.14"):
        managed = Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
        for path in filter(None, [*map(str, managed), shutil.which(f"python{version}")]):
            works = subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
            if works:
                found.setdefault(version, path)
    return found


PYTHONS = pythons()
VERSIONS = sorted(PYTHONS)


def place(name: str, *lines: int, kind: str = "function", file: str = "module.py") -> Place:
    return Place(file=file, name=name, line=min(lines), kind=kind, proof=frozenset(lines))  # type: ignore[arg-type]


def noted(folder: Path, version: str, how: str) -> tuple[list[PatchedFile], Notes]:
    """Run the program with notes; the files in question and what was noted."""
    (folder / "module.py").write_text(MODULE)
    (folder / "program.py").write_text(PROGRAM)
    (folder / "data.txt").write_text("x")
    scratch = folder / "scratch"
    scratch.mkdir()
    files = [
        PatchedFile(
            name="module.py", path=folder / "module.py", content=MODULE.encode(),
            places=(place("work", 5, 6, 7), place("never", 11)),
        ),
        PatchedFile(name="data.txt", path=folder / "data.txt", content=b"x"),
    ]  # fmt: skip
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(INJECT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [PYTHONS[version], str(folder / "program.py"), how, str(folder / "data.txt")]
    subprocess.run(command, env={**env, **prepare(scratch, files)}, check=True, timeout=60)
    return files, read_notes(scratch)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["thread", "fork", "child"])
def test_lines_are_noted_in_threads_forks_and_child_processes(tmp_path: Path, version: str, how: str) -> None:
    files, notes = noted(tmp_path, version, how)
    assert notes.lines[0] >= {5, 6, 7}
    assert 11 not in notes.lines[0]
    assert notes.code[0] == {(hashlib.sha256(MODULE.encode()).hexdigest(), True)}
    assert 1 in notes.opened
    observation = judge_code(files, notes, COST)
    assert observation.verdict is Verdict.PASS
    assert "executed module.py:5 (work)" in observation.summary
    assert "never executed: module.py:11 (never)" in observation.summary
    assert observation.where.file == "module.py"


@pytest.mark.parametrize("version", VERSIONS)
def test_code_that_is_not_what_its_file_holds_is_seen(tmp_path: Path, version: str) -> None:
    files, notes = noted(tmp_path, version, "other")
    rest = Notes(processes=notes.processes, lines=notes.lines, code={0: {("0" * 64, True)}})
    for seen in (rest, Notes(processes=1, lines=notes.lines, code={0: {(_digest(files), False)}})):
        observation = judge_code(files, seen, COST)
        assert observation.verdict is Verdict.FAIL
        assert "is not the candidate's" in observation.summary


def _digest(files: list[PatchedFile]) -> str:
    return hashlib.sha256(files[0].content).hexdigest()


def judged(notes: Notes, *places: Place, others: tuple[str, ...] = ()) -> tuple[Verdict, str]:
    own = [PatchedFile(name="module.py", path=Path("/m.py"), content=b"", places=places)] if places else []
    files = own + [PatchedFile(name=name, path=Path("/" + name), content=b"") for name in others]
    found = judge_code(files, notes, COST)
    return found.verdict, found.summary


def test_a_definition_or_an_import_that_runs_does_not_prove_a_function_that_does_not() -> None:
    notes = Notes(processes=1, lines={0: {1, 2}})
    body, constant, header = place("f", 9), place("", 2, kind="statement"), place("", 1, kind="import")
    assert judged(notes, body, constant, header) == (
        Verdict.FAIL, "not engaged: no request executed module.py:9 (f)",
    )  # fmt: skip
    assert judged(notes, constant, header)[0] is Verdict.PASS
    assert judged(notes, header)[0] is Verdict.PASS


def test_without_a_note_nothing_can_be_told() -> None:
    assert judged(Notes(), place("f", 9))[0] is Verdict.INCONCLUSIVE
    assert judged(Notes(), others=("kernel.cu",)) == (
        Verdict.INCONCLUSIVE, "cannot tell whether kernel.cu was used",
    )  # fmt: skip
    assert judged(Notes(processes=1, opened={0}), others=("chat.jinja",))[0] is Verdict.PASS


def test_notes_that_are_not_well_formed_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "lines"
    folder.mkdir()
    (folder / "1.txt").write_bytes(
        b"started\nline 0 x\nline 0\nline 0 5\n\xff\xfe\ncode 0\nopen -1\nline -1 5\nrm 0 1\n"
    )
    (folder / "2.txt").symlink_to("/etc/passwd")
    with (folder / "3.txt").open("wb") as file:
        file.truncate(code_proof._LARGEST_NOTES_BYTES + 1)
    notes = read_notes(tmp_path)
    assert (notes.processes, notes.lines, notes.opened, notes.code) == (1, {0: {5}}, set(), {})


def test_a_file_that_a_process_holds_open_counts_as_used(tmp_path: Path) -> None:
    path = tmp_path / "table.bin"
    path.write_text("x")
    files = [PatchedFile(name="table.bin", path=path, content=b"x")]
    assert mapped([os.getpid()], files) == set()
    with path.open():
        assert mapped([os.getpid()], files) == {0}
