from __future__ import annotations

import json
import os
from pathlib import Path

import ledger_samples as s
import pytest

from infra_agent.errors import UsageError
from infra_agent.ledger.anchor import Anchor, anchor_of, anchors_in, parse_anchor
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.event import decode, encode, seal
from infra_agent.ledger.store import Ledger
from infra_agent.ledger.verify import Verification, verify

pytestmark = pytest.mark.requirement("L2")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return s.write(tmp_path / "run", s.story())


def lines_of(run_dir: Path) -> list[bytes]:
    return (run_dir / LEDGER_FILE).read_bytes().splitlines(keepends=True)


def rewritten(run_dir: Path, lines: list[bytes]) -> Verification:
    (run_dir / LEDGER_FILE).write_bytes(b"".join(lines))
    return verify(run_dir)


def anchor(run_dir: Path) -> None:
    head = verify(run_dir)
    report = {"title": "x", "ledger": {"head_seq": head.events, "head_hash": head.head_hash}}
    (run_dir / "report.json").write_text(json.dumps(report))


def test_a_sound_run_verifies_and_names_its_head(run_dir):
    result = verify(run_dir)
    last = decode(lines_of(run_dir)[-1])
    assert result == Verification(ok=True, events=len(s.story()), head_hash=last.hash, problems=())


def test_one_byte_changed_anywhere_names_the_event_that_holds_it(tmp_path):
    run_dir = s.write(tmp_path, [s.started(), s.candidate("C1"), s.verdict("C1"), s.note()])
    whole = (run_dir / LEDGER_FILE).read_bytes()
    fd = os.open(run_dir / LEDGER_FILE, os.O_WRONLY)
    for offset in range(0, len(whole), 3):
        for value in (whole[offset] ^ 1, ord("\n")):
            if value == whole[offset]:
                continue
            os.pwrite(fd, bytes([value]), offset)
            result = verify(run_dir)
            os.pwrite(fd, whole[offset : offset + 1], offset)
            assert not result.ok
            assert result.problems[0].seq == whole.count(b"\n", 0, offset) + 1
    os.close(fd)
    assert verify(run_dir).ok


def test_a_deleted_line_is_found(run_dir):
    lines = lines_of(run_dir)
    result = rewritten(run_dir, lines[:4] + lines[5:])
    assert result.problems[0].seq == 5
    assert result.problems[0].line == 5
    assert "event 5 was due, event 6 stands in its place" in result.problems[0].what
    assert len(result.problems) == 1


def test_swapped_lines_are_found(run_dir):
    lines = lines_of(run_dir)
    lines[4], lines[5] = lines[5], lines[4]
    result = rewritten(run_dir, lines)
    assert not result.ok
    assert "event 5 was due, event 6 stands in its place" in result.problems[0].what


def test_a_repeated_line_is_found(run_dir):
    lines = lines_of(run_dir)
    result = rewritten(run_dir, lines[:5] + lines[4:])
    assert [problem.what for problem in result.problems] == ["event 6 was due, event 5 stands in its place"]
    assert result.problems[0].line == 6


def test_an_inserted_empty_line_is_found(run_dir):
    lines = lines_of(run_dir)
    assert not rewritten(run_dir, [*lines[:3], b"\n", *lines[3:]]).ok
    assert not rewritten(run_dir, [*lines, b"\n"]).ok


def test_a_missing_beginning_is_found(run_dir):
    result = rewritten(run_dir, lines_of(run_dir)[2:])
    assert result.problems[0].seq == 1


def test_an_event_rewritten_with_a_fresh_hash_breaks_the_link_after_it(run_dir):
    lines = lines_of(run_dir)
    old = decode(lines[6])
    forged = seal(seq=7, prev=old.prev, ts=old.ts, kind=old.kind, data={"name": "tuning", "elapsed_s": 1})
    lines[6] = encode(forged)
    result = rewritten(run_dir, lines)
    assert [problem.what for problem in result.problems] == [
        "event 8 does not continue event 7: one of the two was changed"
    ]


def test_every_fault_is_listed_not_only_the_first(run_dir):
    lines = lines_of(run_dir)
    lines[2] = b"rubbish\n"
    lines[9] = lines[9].replace(b'"O2"', b'"O3"')
    assert [problem.seq for problem in rewritten(run_dir, lines).problems] == [3, 10]


def test_a_cut_tail_shows_against_the_head_that_the_report_names(run_dir):
    anchor(run_dir)
    assert verify(run_dir).ok
    lines = lines_of(run_dir)
    for keep in (len(lines) - 1, 5, 1):
        result = rewritten(run_dir, lines[:keep])
        assert [problem.seq for problem in result.problems] == [len(lines)]
        assert "report.json" in result.problems[0].what


def test_a_tail_replaced_by_another_sound_one_shows_against_the_report(run_dir):
    anchor(run_dir)
    lines = lines_of(run_dir)
    old = decode(lines[-1])
    data = {**old.data, "sentence": "The run ended better than it did."}
    lines[-1] = encode(seal(seq=old.seq, prev=old.prev, ts=old.ts, kind=old.kind, data=data))
    result = rewritten(run_dir, lines)
    assert [(problem.seq, problem.line) for problem in result.problems] == [(len(lines), len(lines))]


def test_events_after_the_report_are_no_fault(run_dir):
    anchor(run_dir)
    with Ledger.open(run_dir, s.ticking()) as ledger:
        ledger.append(s.note())
    assert verify(run_dir).ok


@pytest.mark.parametrize(
    "content", ["{", "\ud800", '{"ledger": 1}', '{"ledger": {"head_seq": "1", "head_hash": ""}}', '{"ledger": {}}']
)
def test_a_report_whose_anchor_cannot_be_read_is_a_fault(run_dir, content):
    (run_dir / "report.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    assert [problem.seq for problem in verify(run_dir).problems] == [0]


def test_a_report_without_an_anchor_is_no_fault(run_dir):
    (run_dir / "report.json").write_text('{"title": "x"}')
    assert verify(run_dir).ok


def test_a_torn_tail_is_a_fault_unless_its_writer_lives(run_dir):
    with Ledger.open(run_dir, s.ticking()):
        with (run_dir / LEDGER_FILE).open("ab") as file:
            file.write(b'{"data"')
        assert verify(run_dir).ok
    result = verify(run_dir)
    assert [(problem.seq, problem.line) for problem in result.problems] == [(21, 21)]
    assert "7 bytes" in result.problems[0].what


def test_a_sound_chain_that_tells_the_impossible_is_a_fault(tmp_path):
    events = s.chained(s.started(), s.note(), s.accepted("C9"), s.verdict("C9"))
    (tmp_path / LEDGER_FILE).write_bytes(b"".join(map(encode, events)))
    result = verify(tmp_path)
    assert [problem.seq for problem in result.problems] == [3]
    assert "accepted" in result.problems[0].what


def test_an_empty_or_missing_ledger_does_not_verify(tmp_path):
    missing = verify(tmp_path)
    (tmp_path / LEDGER_FILE).touch()
    empty = verify(tmp_path)
    assert not missing.ok
    assert not empty.ok
    assert "no event" in empty.problems[0].what


def with_artifacts(run_dir: Path) -> str:
    with Ledger.create(run_dir, s.ticking()) as ledger:
        ledger.append(s.started())
        ledger.append(s.launch("L1"))
        name = ledger.put_artifact(b"the log")
        ledger.append(s.launch_ended("L1", log_artifact=name))
        other = ledger.put_artifact(b"samples")
        ledger.append(s.observation("O1", detail={"raw_artifact": name, "artifacts": [other, {"name": "free text"}]}))
    return name


def test_artifacts_that_events_name_are_there_and_unchanged(tmp_path):
    name = with_artifacts(tmp_path)
    assert verify(tmp_path).ok
    path = tmp_path / "artifacts" / name
    path.write_bytes(b"the lag")
    result = verify(tmp_path)
    assert [problem.seq for problem in result.problems] == [3, 4]
    assert "was changed" in result.problems[0].what
    path.unlink()
    assert "is missing" in verify(tmp_path).problems[0].what
    (tmp_path / "the log").write_bytes(b"the log")
    path.symlink_to(tmp_path / "the log")
    assert "is missing" in verify(tmp_path).problems[0].what


def test_a_name_that_is_no_digest_is_a_fault_and_is_not_followed(tmp_path):
    s.write(tmp_path, [s.started(), s.observation("O1", log_artifact="../../etc/passwd")])
    result = verify(tmp_path)
    assert [problem.seq for problem in result.problems] == [2]
    assert "not the name of an artifact" in result.problems[0].what


def test_an_approval_or_a_pull_request_anchors_like_the_report(run_dir):
    head = verify(run_dir)
    held = Anchor(head.events, head.head_hash, "pull request 7")
    assert verify(run_dir, [held, Anchor(3, decode(lines_of(run_dir)[2]).hash, "approval A1")]).ok
    cut = rewritten(run_dir, lines_of(run_dir)[:-2])
    assert cut.ok, "a chain that was cut off verifies by itself"
    (problem,) = verify(run_dir, [held]).problems
    assert problem.seq == head.events
    assert problem.what == f"event {head.events} is missing: pull request 7 was written after it"


def test_a_history_written_anew_shows_against_every_anchor_that_it_does_not_hold(run_dir, tmp_path):
    head = verify(run_dir)
    other = s.write(tmp_path / "other", [*s.story()[:-1], s.finished("not_met")])
    assert verify(other).ok
    found = verify(other, [Anchor(head.events, head.head_hash, "approval A1"), Anchor(1, "0" * 64, "report of Monday")])
    assert [problem.what for problem in found.problems] == [
        f"event {head.events} is not the one that approval A1 names",
        "event 1 is not the one that report of Monday names",
    ]
    assert [problem.line for problem in found.problems] == [head.events, 1]


def test_an_anchor_is_written_and_found_again_in_any_text(run_dir):
    head = verify(run_dir)
    with Ledger.open(run_dir, s.ticking()) as ledger:
        anchor = anchor_of(ledger.state(), "here")
    assert anchor == Anchor(head.events, head.head_hash, "here")
    text = f"## Evidence\n\nrun log head `{anchor}`, and once more ({anchor}).\n12:{'a' * 63} 0:{'b' * 64} x{anchor}"
    assert anchors_in(text, "body.md") == (Anchor(anchor.seq, anchor.head, "body.md"),) * 2
    assert parse_anchor(f" {anchor} ") == Anchor(anchor.seq, anchor.head, "anchor")


@pytest.mark.parametrize("text", ["", "12", "12:", f"0:{'a' * 64}", f"12:{'A' * 64}", f"1:{'a' * 64} 2:{'b' * 64}"])
def test_what_is_no_anchor_is_a_usage_error(text):
    with pytest.raises(UsageError, match="is not an anchor"):
        parse_anchor(text)
