"""Chrome traces as they come: whole, packed, cut off, malformed, in odd forms."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from probes.trace.profile import chrome
from probes.trace.profile.columns import Trace
from probes.trace.profile.read import read
from probes.trace.profile.source import UnreadableTrace


def event(number: int, **more: Any) -> dict[str, Any]:
    args = {"correlation": number, "stream": 7, "nested": [{"a": 1}, {"b": "},{"}]}
    return {
        "ph": "X", "cat": "kernel", "name": f"k{number % 3}", "pid": 0, "tid": 7, "ts": 10.0 * number, "dur": 5.0,
        "args": args, **more,
    }  # fmt: skip


def document(count: int = 50, indent: int | None = 2) -> str:
    events = [{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "GPU 0"}}]
    events += [event(number) for number in range(count)]
    return json.dumps({"schemaVersion": 1, "traceEvents": events, "displayTimeUnit": "ms"}, indent=indent)


def trace(path: Path, content: str | bytes) -> Trace:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read(path)
    assert isinstance(found, Trace)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


@pytest.mark.parametrize("piece", [64, 701, 8 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_every_event_is_read_however_the_file_falls_into_pieces(
    path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, indent: int | None
) -> None:
    monkeypatch.setattr("probes.trace.profile.source.PIECE", piece)
    found = trace(path, document(indent=indent))
    assert len(found) == 50
    assert found.notes == ()
    assert found.start_us[-1] == 490.0
    assert found.process_names["0"] == "GPU 0"
    assert list(found.correlations[:3]) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["gz", "zst", "zip"])
def test_packed_files_are_read_without_unpacking_them_first(path: Path, kind: str) -> None:
    raw = document().encode()
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("trace.json", raw)
        packed = path.read_bytes()
    else:
        packed = gzip.compress(raw) if kind == "gz" else zstandard.compress(raw)
    assert len(trace(path, packed)) == 50


@pytest.mark.parametrize("kind", ["plain", "gz", "zst"])
def test_a_file_that_breaks_off_gives_what_came_before_and_says_so(path: Path, kind: str) -> None:
    raw = document(count=2000).encode()
    packed = {"plain": raw, "gz": gzip.compress(raw), "zst": zstandard.compress(raw)}[kind]
    found = trace(path, packed[: len(packed) * 2 // 3])
    assert 10 < len(found) < 2000
    assert any("break" in note for note in found.notes)


def test_a_bare_list_without_its_end_is_a_whole_trace(path: Path) -> None:
    rows = ",\n".join(json.dumps(event(number)) for number in range(9))
    for content in (f"[{rows}]", f"[{rows}", f"[{rows},\n", f"\ufeff[{rows}\n]\n"):
        found = trace(path, content)
        assert len(found) == 9
        assert found.notes == ()


def test_one_bad_event_costs_one_event(path: Path) -> None:
    rows = [json.dumps(event(number)) for number in range(30)]
    rows[7] = '{"ph": "X", "name": "broken \\x quote", "ts": 70, "dur": 5}'
    rows[20] = '{"ph": "X", "name": "no number", "ts": {}, "dur": 5}'
    found = trace(path, '{"traceEvents": [' + ",\n".join(rows) + "]}")
    assert len(found) == 28
    assert "2 events cannot be read and are left out" in found.notes


def test_texts_that_are_not_unicode_and_odd_types_keep_their_events(path: Path) -> None:
    rows = [json.dumps(event(number)).encode() for number in range(4)]
    rows[1] = rows[1].replace(b'"k1"', b'"k\xff\xfe"')
    rows[2] = json.dumps(event(2, ts="20.0", pid="p", tid=None, args=None, cat=None)).encode()
    found = trace(path, b"[" + b",".join(rows) + b"]")
    assert len(found) == 4
    assert any("�" in name for name in found.names)


def test_begin_and_end_make_one_event_and_an_open_one_is_told(path: Path) -> None:
    rows = [
        {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 0},
        {"ph": "B", "name": "inner", "pid": 1, "tid": 1, "ts": 2},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 5}, {"ph": "E", "pid": 1, "tid": 1, "ts": 9},
        {"ph": "B", "name": "never", "pid": 1, "tid": 2, "ts": 3}, {"ph": "E", "pid": 1, "tid": 9, "ts": 3},
    ]  # fmt: skip
    found = trace(path, json.dumps(rows))
    lengths = {found.names[name]: length for name, length in zip(found.name_ids, found.length_us, strict=True)}
    assert lengths == {"outer": 9.0, "inner": 3.0}
    assert any("1 events begin and never end" in note for note in found.notes)


def test_times_that_cannot_be_are_left_out(path: Path) -> None:
    rows = [event(0), event(1, dur=-4.0), event(2)]
    found = trace(path, json.dumps(rows))
    assert len(found) == 2
    assert any("no possible time" in note for note in found.notes)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"), (b"{}", "no list named traceEvents"), (b'{"traceEvents": []}', "list of events is empty"),
        (b"hello", "none of the profiles"), (b"\x1f\x8b\x08\x00", "holds nothing"),
        (b"\x1f\x8bnonsense", "holds nothing"),
        (b'{"a": 1', "no list named traceEvents"), (b"[", "no event can be read"), (b"PK\x03\x04junk", "damaged"),
        (b"\x28\xb5\x2f\xfdjunkjunkjunk", "holds nothing"), (b'{"traceEvents": [{{{{', "no event can be read"),
        (b"\x00\x01\x02\x03", "none of the profiles"), (b'["a", 1, null]', "no event can be read"),
    ],
)  # fmt: skip
def test_files_that_are_no_trace_say_what_they_are(path: Path, content: bytes, says: str) -> None:
    path.write_bytes(content)
    with pytest.raises(UnreadableTrace, match=says) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_folder_and_a_missing_file_are_told_plainly(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(UnreadableTrace, match="cannot open"):
            read(path)


def test_a_small_archive_that_unpacks_to_very_much_ends_at_the_limit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.trace.profile.source.LARGEST", 20_000)
    monkeypatch.setattr("probes.trace.profile.source.PIECE", 4096)
    found = trace(path, gzip.compress(document(count=3000).encode()))
    assert 0 < len(found) < 3000
    assert any("the rest is left out" in note for note in found.notes)


def test_a_piece_without_an_end_of_an_event_stops_the_reading_and_keeps_what_came_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.trace.profile.source.PIECE", 4096)
    monkeypatch.setattr(chrome, "LONGEST_EVENT", 50_000)
    rows = ",".join(json.dumps(event(number)) for number in range(60))
    found = trace(path, f'[{rows},{{"name": "' + "x" * 400_000 + '"}]')
    assert 50 <= len(found) <= 60
    assert any("the rest of the file is left out" in note for note in found.notes)


def test_many_bad_pieces_do_not_take_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome, "MOST_CUTS", 3)
    rows = [json.dumps(event(n)) if n % 2 else '{"ph": "X", "ts": tru}' for n in range(400)]
    found = trace(path, "[" + ",".join(rows) + "]")
    assert len(found) == 200
