from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.sessions import STACK, add_baseline, session_in

from infra_agent.agent import reading
from infra_agent.agent.actions import ACTION
from infra_agent.agent.execute import execute
from infra_agent.agent.refusals import ActionError
from infra_agent.agent.view import build_dossier
from infra_agent.harness.session import Session
from infra_agent.ledger import artifacts
from infra_agent.ledger import kinds as k


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "server.py").write_text("".join(f"line {i}\n" for i in range(1, 301)))
    (folder / "pkg" / "batch.py").write_text("def admit():\n    return 1  # one at a time\n")
    (folder / ".secret").write_text("token")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("admit")
    (folder / "weights.bin").write_bytes(b"admit\0\1\2")
    (tmp_path / "outside.txt").write_text("admit nothing")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    return folder


@pytest.fixture
def session(tmp_path: Path, sources: Path) -> Iterator[Session]:
    stack = STACK.model_copy(update={"sources": (str(sources),)})
    with session_in(tmp_path, stack=stack, brain="llm") as made:
        add_baseline(made)
        yield made


def do(session: Session, **document: Any) -> str:
    execute(session, ACTION.validate_python(document), "agent")
    return build_dossier(session, "agent").readings[-1].text


def refused(session: Session, **document: Any) -> str:
    count = len(session.state.readings)
    with pytest.raises(ActionError) as caught:
        execute(session, ACTION.validate_python(document), "agent")
    assert len(session.state.readings) == count
    return caught.value.message


def test_lines_of_a_file_are_numbered_kept_as_an_artifact_and_shown_with_what_was_left_out(session: Session) -> None:
    text = do(session, kind="read", path="pkg/server.py", start_line=10, lines=3)
    assert text.splitlines() == ["   10 line 10", "   11 line 11", "   12 line 12"]
    made = session.state.readings[-1]
    assert (made.id, made.lines, made.total, made.left_out) == ("R1", 3, 300, "lines 13 to 300")
    assert artifacts.path_of(session.run_dir, made.artifact).read_text() == text


@pytest.mark.parametrize(
    "path",
    ["../outside.txt", "/etc/passwd", "link.txt", ".secret", ".git/config", "pkg", "nothing.py", "weights.bin",
     "pkg/../../outside.txt", "a\0b"],
)  # fmt: skip
def test_what_is_outside_hidden_binary_or_not_there_is_not_read(session: Session, path: str) -> None:
    assert "admit nothing" not in refused(session, kind="read", path=path)


def test_a_pipe_in_the_place_of_a_file_holds_nothing_up(session: Session, sources: Path) -> None:
    os.mkfifo(sources / "pkg" / "pipe.py")
    refused(session, kind="read", path="pkg/pipe.py")
    refused(session, kind="search_code", text="nowhere to be found")


def test_a_file_that_is_too_large_is_not_opened(
    session: Session, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 10)
    assert "bytes" in refused(session, kind="read", path="pkg/batch.py")


def test_beyond_the_end_is_an_error_that_names_the_length(session: Session) -> None:
    assert "300 lines" in refused(session, kind="read", path="pkg/server.py", start_line=301)


def test_the_same_again_is_refused_while_it_is_shown_and_granted_once_it_is_not(session: Session) -> None:
    do(session, kind="read", path="pkg/batch.py")
    assert "R1" in refused(session, kind="read", path="pkg/batch.py")
    for start in range(reading.VISIBLE_READINGS):
        do(session, kind="read", path="pkg/server.py", start_line=start + 1, lines=1)
    assert build_dossier(session, "agent").readings[0].text == ""
    do(session, kind="read", path="pkg/batch.py")


def test_long_texts_are_cut_at_a_line_and_the_cut_is_named(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_SHOWN_CHARACTERS", 50)
    text = do(session, kind="read", path="pkg/server.py", lines=100)
    assert len(text) <= 50
    made = session.state.readings[-1]
    assert made.left_out == "lines 4 to 300"
    assert made.source.endswith("server.py:1-3")
    assert "did not fit" not in made.left_out
    do(session, kind="consult")
    assert "more lines did not fit" in session.state.readings[-1].left_out


def test_a_line_as_long_as_a_book_is_cut_and_says_so(session: Session, sources: Path) -> None:
    (sources / "pkg" / "wide.py").write_text("x" * 50_000 + "\nend\n")
    text = do(session, kind="read", path="pkg/wide.py")
    assert "48000 characters left out" in text
    assert text.endswith("    2 end")


def test_fixed_text_is_found_in_files_that_match_and_nowhere_else(session: Session) -> None:
    text = do(session, kind="search_code", text="admit", files="*.py")
    assert text.endswith("batch.py:1: def admit():")
    assert len(text.splitlines()) == 1
    assert "no line with" in refused(session, kind="search_code", text="admit", files="*.rs")


def test_a_search_stops_at_its_limits_and_says_so(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_MATCHES", 5)
    assert len(do(session, kind="search_code", text="line").splitlines()) == 5
    assert "stopped at 5 matches" in session.state.readings[-1].left_out
    monkeypatch.setattr(reading, "MAX_MATCHES", 1000)
    monkeypatch.setattr(reading, "MAX_SEARCH_S", 0.5)
    do(session, kind="search_code", text="line 1")
    assert "stopped at 0 s" in session.state.readings[-1].left_out


def test_an_engines_log_can_be_read_by_its_launch(session: Session) -> None:
    name = session.ledger.put_artifact(b"loading\n\x1b[31mOOM\x1b[0m\n")
    started = k.LaunchStarted(
        id="L1", candidate="stock", arm="stock", purpose="baseline", lane="agent", settings={}, argv=()
    )
    session.ledger.append(started)
    session.ledger.append(k.LaunchEnded(id="L1", outcome="died", ready_s=None, wall_s=1.0, log_artifact=name))
    assert do(session, kind="read", path="log:L1").splitlines() == ["    1 loading", "    2 OOM"]
    assert "log:L1" in refused(session, kind="read", path="log:L9")


def test_playbooks_are_listed_and_shown(session: Session) -> None:
    assert "serial-admission:" in do(session, kind="consult")
    assert "refuted by" in do(session, kind="consult", name="serial-admission")
    assert "serial-admission" in refused(session, kind="consult", name="nonsense")


def test_a_section_that_was_cut_can_be_recalled_from_any_entry(session: Session) -> None:
    assert do(session, kind="recall", section="parameters").startswith("continuous_batching")
    assert do(session, kind="recall", section="parameters", start=2).startswith("omp_num_threads = ")
    assert "3 entries" in refused(session, kind="recall", section="parameters", start=9)


def test_without_sources_nothing_is_read_and_the_reason_is_said(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        assert "names no sources" in refused(session, kind="read", path="x.py")
