"""Perfetto traces built with the real messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probes.trace.profile.breakdown import break_down
from probes.trace.profile.columns import Trace
from probes.trace.profile.read import read
from probes.trace.profile.source import UnreadableTrace

pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def packets(count: int) -> list[Any]:
    trace = pb.Trace()
    first = trace.packet.add()
    first.trusted_packet_sequence_id = 1
    first.sequence_flags = 1
    first.track_descriptor.uuid = 7
    first.track_descriptor.process.pid = 42
    first.track_descriptor.process.process_name = "GPU 0"
    name = first.interned_data.event_names.add()
    name.iid, name.name = 5, "gemm"
    for number in range(count):
        for kind, at in ((1, 100_000 * number), (2, 100_000 * number + 40_000)):
            packet = trace.packet.add()
            packet.trusted_packet_sequence_id = 1
            packet.timestamp = at
            packet.track_event.type = kind
            packet.track_event.track_uuid = 7
            if kind == 1:
                packet.track_event.name_iid = 5
    return [trace, first]


def test_slices_are_read_with_interned_names_and_their_process(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    path.write_bytes(packets(20)[0].SerializeToString())
    found = read(path)
    assert isinstance(found, Trace)
    assert len(found) == 20
    assert set(found.length_us) == {40.0}
    row = break_down(found).device_rows[0]
    assert (row.name, row.count) == ("gemm", 20)


def test_a_cut_file_gives_its_whole_packets(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    raw = packets(200)[0].SerializeToString()
    path.write_bytes(raw[: len(raw) // 2])
    found = read(path)
    assert isinstance(found, Trace)
    assert 50 < len(found) < 200
    assert any("breaks off" in note for note in found.notes)


def test_a_trace_without_slices_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    path.write_bytes(packets(0)[0].SerializeToString())
    with pytest.raises(UnreadableTrace, match="no slices"):
        read(path)
