"""Only two modules write to a terminal, and they clean what they write: checked in the source, not by looking."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.requirement("S3")
MAY_WRITE = {"infra_agent/cli/output.py", "infra_agent/cli/narrator.py", "infra_agent/cli/streams.py"}
SCRIPTS = {
    "infra_agent/harness/keeper.py": "runs as a process of its own; its output goes into the engine's log",
    "infra_agent/testing/scripted_llm.py": "a command of its own: prints its address as JSON",
    "infra_agent/stack/data/convert_smollm2.py": "runs in the stack's environment; its output goes into a log",
}
WRITERS = {
    "print", "sys.stdout.write", "sys.stderr.write", "sys.stdout.writelines", "sys.stderr.writelines",
    "sys.__stdout__.write", "sys.__stderr__.write", "typer.echo", "typer.secho", "typer.style", "click.echo",
    "click.secho", "rich.print", "rich.print_json", "os.write", "traceback.print_exc", "logging.basicConfig",
    "warnings.warn", "pprint.pprint",
}  # fmt: skip
CONSOLE = {"print", "print_json", "log", "rule", "input", "out", "print_exception", "status"}
MARKUP = {"Text.from_markup", "rich.text.Text.from_markup", "Markdown", "rich.markdown.Markdown", "Panel", "render"}
PROBE_COMMANDS = (
    "probes/load/__main__.py", "probes/numeric/answers.py", "probes/capacity/roofline/__main__.py",
    "probes/events/__main__.py", "probes/micro/redundancy/__main__.py", "probes/numeric/judge/__main__.py",
    "probes/numeric/judge/sweep.py", "probes/numeric/operators/__main__.py", "probes/numeric/triton/__main__.py",
    "probes/static/gil_scan/__main__.py", "probes/static/triton_compile/__main__.py", "probes/trace/gil/__main__.py",
    "probes/trace/profile/__main__.py", "probes/trace/stalls_run.py",
)  # fmt: skip
PROBE_WORKERS = {
    "probes/load/mock_server.py": "a command of its own: prints its port",
    "probes/load/progress.py": "figures of its own, on standard error",
    "probes/numeric/oracle_worker.py": "writes to its parent's pipe",
    "probes/numeric/frames.py": "writes to a pipe",
    "probes/kernels/inside.py": "writes to its parent's pipe",
    "probes/numeric/candidate/worker.py": "writes to its parent's pipe",
    "probes/trace/gil/inside.py": "writes to the socket of the probe that asked",
}
SINKS = ("sys.stdout.write", "sys.stderr.write", "stream.write", "Text", "Text.assemble")
PIPES = {
    "infra_agent/ledger/disk.py": "to files",
    "infra_agent/harness/process.py": "to its own pipe",
    "infra_agent/harness/command.py": "the command's standard input",
    "infra_agent/harness/inside.py": "runs in the sandbox: its words end in the engine's log",
    "infra_agent/harness/escapes/attempt.py": "runs in the sandbox, to a pipe",
    "infra_agent/harness/escapes/everything.py": "runs in the sandbox, to its parent's pipe",
    "infra_agent/harness/escapes/gpus.py": "runs in the sandbox, to its parent's pipe",
    "infra_agent/harness/inject/lines.py": "runs in the engine, to a file",
    "infra_agent/harness/transform_worker.py": "runs in the sandbox, to its parent's pipe",
}
"""Modules that write, and not to a terminal."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "infra_agent").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in SCRIPTS:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def called(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def writes_in(name: str, tree: ast.Module) -> Iterator[str]:
    for line, function in called(tree):
        owner, _, method = function.rpartition(".")
        direct = function in WRITERS and name not in PIPES
        console = method in CONSOLE and "console" in owner.lower()
        stream = function.endswith((".stdout.write", ".stderr.write")) and name not in PIPES
        if direct or console or stream:
            yield f"{name}:{line} {function}"


def test_nothing_but_output_and_narrator_writes_to_a_terminal() -> None:
    found = [write for name, tree in sources() if name not in MAY_WRITE for write in writes_in(name, tree)]
    assert found == []


def test_what_they_write_is_cleaned_there() -> None:
    safe = {"clean", "one_line", "to_json", "escaped", "write_masked", "document", "_json_line"}
    unsafe = []
    for name in ("infra_agent/cli/output.py", "infra_agent/cli/narrator.py", *PROBE_COMMANDS):
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in SINKS and _foreign(node):
                names = {ast.unparse(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
                unsafe += [] if names & safe else [f"{name}:{node.lineno}"]
    assert unsafe == []


def _foreign(call: ast.Call) -> bool:
    return not all(isinstance(given, ast.Constant) for given in call.args)


def test_the_probes_write_in_their_commands_only() -> None:
    found = set()
    for path in (ROOT / "probes").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if list(writes_in("", ast.parse(text))) or "stream.write(" in text:
            found.add(path.relative_to(ROOT).as_posix())
    assert found <= {*PROBE_COMMANDS, *PROBE_WORKERS}


def test_markup_of_foreign_text_is_never_interpreted() -> None:
    found = [
        f"{name}:{line} {function}"
        for name, tree in sources()
        if name.startswith("infra_agent/cli")
        for line, function in called(tree)
        if function in MARKUP or function.endswith("from_markup")
    ]
    assert found == []
    for name in ("infra_agent/cli/output.py", "infra_agent/cli/narrator.py"):
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("onsole.print"):
                given = node.args[0]
                assert isinstance(given, ast.Call), f"{name}:{node.lineno}"
                assert ast.unparse(given.func).startswith("Text"), f"{name}:{node.lineno} prints a plain string"


def test_the_rule_finds_what_it_forbids() -> None:
    bad = "import sys\nprint(x)\nsys.stderr.write(x)\nself._console.print(x)\ntyper.echo(x)\nself.stdout.write(x)\n"
    assert len(list(writes_in("somewhere.py", ast.parse(bad)))) == 5
