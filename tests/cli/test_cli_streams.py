"""What reaches a terminal: secrets masked whoever writes, control characters gone, JSON as it is."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from rich.console import Console

from infra_agent.cli import streams
from infra_agent.cli.narrator import TerminalNarrator
from infra_agent.cli.output import print_error, print_json, print_lines
from infra_agent.cli.spending import size_bytes
from infra_agent.cli.streams import MaskedText, hide, masked_streams
from infra_agent.errors import UsageError
from infra_agent.redact.masker import Masker

SECRET = 'sk-canary-"0123456789'


@pytest.mark.requirement("S1")
def test_whoever_writes_within_the_block_writes_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    with masked_streams([SECRET]), warnings.catch_warnings():
        sys.stdout.write(f"plain {SECRET}\n")
        sys.stderr.writelines([f"one {SECRET}\n", "two\n"])
        print_lines([f"line {SECRET}"])
        print_json({SECRET: [SECRET, 1]})
        print_error(UsageError(f"cannot use {SECRET}", where=SECRET, hint=SECRET, lines=[SECRET]), as_json=True)
        Console().print(f"rich {SECRET}")
    out, err = capsys.readouterr()
    assert "canary" not in out + err
    assert out.startswith("plain ***\nline ***\n")
    assert err.startswith("one ***\ntwo\nerror: cannot use ***\n")
    sys.stdout.write(SECRET)
    assert capsys.readouterr().out == SECRET


@pytest.mark.requirement("S1")
def test_secrets_that_become_known_later_are_hidden_from_then_on(capsys: pytest.CaptureFixture[str]) -> None:
    with masked_streams([]):
        hide(["later-secret"])
        print_lines(["a later-secret here"])
    assert capsys.readouterr().out == "a *** here\n"
    hide(["outside-the-block"])
    print_lines(["outside-the-block"])
    assert capsys.readouterr().out == "outside-the-block\n"


@pytest.mark.requirement("S1")
def test_json_stays_json_where_masking_its_text_would_break_it(capsys: pytest.CaptureFixture[str]) -> None:
    with masked_streams(["nopqrstuvw"]):
        print_json({"a": "\nopqrstuvw", "b": "nopqrstuvw"})
    assert json.loads(capsys.readouterr().out) == {"a": "\nopqrstuvw", "b": "***"}


@pytest.mark.requirement("S3")
def test_json_is_faithful_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"x": "\x1b[31m \u202e \x7f \u200b \ud800 é · 🚀 \U000e0041", "\x1b": 1}
    print_json(document)
    out = capsys.readouterr().out
    assert json.loads(out) == document
    assert not set(out) & set("\x1b\u202e\x7f\u200b\ud800\U000e0041")
    assert "é · 🚀" in out


@pytest.mark.requirement("S3")
def test_foreign_text_neither_steers_the_terminal_nor_poses_as_our_lines_nor_is_markup() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, width=200)
    with TerminalNarrator(console) as narrator:
        narrator.line("C1", "\x1b]0;owned\x07[bold red]x[/] \u202e\nerror: forged")
    assert out.getvalue().split("\n")[0].endswith("C1         [bold red]x[/]  error: forged")
    assert out.getvalue().count("\n") == 1


@pytest.mark.requirement("S3")
def test_an_error_is_shown_as_text_not_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(UsageError("[red]x[/red] \x1b[2J\nerror: forged", hint="[link=http://x]y[/link]"), as_json=False)
    err = capsys.readouterr().err
    assert err.split("\n")[0] == "error: [red]x[/red]  error: forged"
    assert "[link=http://x]y[/link]" in err


@pytest.mark.requirement("S1")
def test_a_status_line_that_is_cut_to_the_terminals_width_is_masked_before() -> None:
    out = io.StringIO()
    masked = MaskedText(out, Masker([SECRET]))
    console = Console(file=masked, force_terminal=True, width=30)  # type: ignore[arg-type]
    with TerminalNarrator(console) as narrator:
        narrator.status(f"the engine says {SECRET} now")
    assert "canary" not in out.getvalue()
    assert "the engine says" in out.getvalue()


def test_results_go_to_standard_output_while_a_status_line_is_on_the_terminal(tmp_path: Path) -> None:
    code = (
        "from infra_agent.cli.narrator import TerminalNarrator\n"
        "from infra_agent.cli.output import print_json, stderr\n"
        "from infra_agent.cli.streams import masked_streams\n"
        "with masked_streams(['secret-value']), TerminalNarrator(stderr()) as narrator:\n"
        "    narrator.status('measuring')\n"
        "    print_json({'a': 'secret-value'})\n"
        "    narrator.rest()\n"
        "    narrator.status('again')\n"
    )
    master, slave = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=slave, stdin=subprocess.DEVNULL, timeout=120,
            env={**os.environ, "TERM": "xterm"}, check=True,
        )  # fmt: skip
    finally:
        os.close(slave)
        os.close(master)
    assert json.loads(done.stdout) == {"a": "***"}


def test_the_wrapped_stream_is_the_stream_otherwise() -> None:
    below = io.StringIO()
    masked = MaskedText(below, Masker([SECRET]))
    assert masked.write("abc") == 3
    assert masked.isatty() is False
    assert masked.getvalue() == "abc"
    assert streams.masker_of(below).text(SECRET) == SECRET


@pytest.mark.requirement("B1")
@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 5e8), ("2GB", 2e9), ("1.5 GiB", 1.5 * 2**30), ("10kb", 1e4), ("7", 7.0), ("3 b", 3.0), ("1TB", 1e12)],
)
def test_sizes_are_read_with_their_unit(text: str, size: float) -> None:
    assert size_bytes(text) == size
