"""Where the time of a trace went, on traces small enough to know every answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from probes.base import Verdict
from probes.trace.profile.breakdown import Breakdown, break_down
from probes.trace.profile.columns import Trace
from probes.trace.profile.observe import observe_trace
from probes.trace.profile.read import read
from probes.trace.profile.run import profile


def x(cat: str, name: str, ts: float, dur: float, lane: int = 1, **args: Any) -> dict[str, Any]:
    pid = 0 if cat in ("kernel", "gpu_memcpy") else 100
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": lane, "ts": ts, "dur": dur, "args": args}


def broken(tmp_path: Path, rows: list[dict[str, Any]]) -> Breakdown:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    found = read(path)
    assert isinstance(found, Trace)
    return break_down(found)


def test_time_by_kernel_overlap_and_idle_are_exact(tmp_path: Path) -> None:
    found = broken(
        tmp_path,
        [
            x("kernel", "gemm", 0, 100, 7), x("kernel", "gemm", 200, 100, 7), x("kernel", "ncclAllReduce", 50, 100, 20),
            x("gpu_memcpy", "Memcpy HtoD", 290, 20, 24),
        ],
    )  # fmt: skip
    assert found.span_us == 310
    assert found.busy_us == {"compute": 200, "communication": 100, "copy": 20}
    assert found.exposed_us == {"communication": 50, "copy": 10}
    assert found.idle_us == 50
    top = found.device_rows[0]
    assert (top.name, top.count, top.total_us, top.mean_us) == ("gemm", 2, 200, 100)


@pytest.mark.parametrize(
    ("launch_us", "wait", "cause"),
    [
        (190.0, None, "the host was late"),
        (190.0, ("cudaStreamSynchronize", 100.0, 85.0), "the host waited in a synchronising call"),
        (50.0, None, "launched, not started"),
        (None, None, "not known (no launch found)"),
    ],
)
def test_a_pause_of_the_device_is_put_down_to_what_its_launch_says(
    tmp_path: Path, launch_us: float | None, wait: tuple[str, float, float] | None, cause: str
) -> None:
    rows = [x("kernel", "one", 0, 100, 7, correlation=1), x("kernel", "two", 200, 100, 7, correlation=2)]
    rows.append(x("cuda_runtime", "cudaLaunchKernel", 0, 3, correlation=1))
    if launch_us is not None:
        rows.append(x("cuda_runtime", "cudaLaunchKernel", launch_us, 3, correlation=2))
    if wait is not None:
        rows.append(x("cuda_runtime", wait[0], wait[1], wait[2]))
    found = broken(tmp_path, rows)
    assert max(found.idle_causes_us, key=lambda name: found.idle_causes_us[name]) == cause
    assert sum(found.idle_causes_us.values()) == pytest.approx(found.idle_us)


def test_the_longest_pause_names_what_the_host_did_and_its_neighbours(tmp_path: Path) -> None:
    found = broken(
        tmp_path,
        [
            x("kernel", "one", 0, 10, 7, correlation=1), x("kernel", "two", 500, 10, 7, correlation=2),
            x("cuda_runtime", "cudaLaunchKernel", 490, 3, correlation=2),
            x("python_function", "loader.py(12): wait", 5, 480),
        ],
    )  # fmt: skip
    gap = found.gaps[0]
    assert (gap.length_us, gap.before, gap.after, gap.cause) == (490, "one", "two", "host late")
    assert gap.host == "loader.py(12): wait"


def test_a_trace_of_the_cpu_alone_shows_own_time_and_pauses_of_the_busiest_thread(tmp_path: Path) -> None:
    found = broken(
        tmp_path,
        [
            x("cpu_op", "aten::linear", 0, 100), x("cpu_op", "aten::addmm", 10, 80), x("cpu_op", "aten::relu", 400, 50),
            x("cpu_op", "aten::linear", 0, 20, 2),
        ],
    )  # fmt: skip
    assert not found.has_device
    own = {row.name: row.total_us for row in found.host_rows}
    assert own == {"aten::addmm": 80, "aten::relu": 50, "aten::linear": 40}
    assert found.idle_us == 300
    assert "no device" in " ".join(found.notes)
    seen = observe_trace(found, wall_s=0.0, source="t.json")
    assert seen.where.interval_s == (pytest.approx(100e-6), pytest.approx(400e-6))


def test_events_without_any_work_are_inconclusive_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([x("user_annotation", "ProfilerStep#1", 0, 5)]))
    seen = profile(path)
    assert seen.verdict is Verdict.INCONCLUSIVE
    assert seen.quantities == ()


def test_devices_are_known_by_the_name_of_their_process_too(tmp_path: Path) -> None:
    name = {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "args": {"name": "/device:TPU:0"}}
    rows = [name, {"ph": "X", "name": "fusion.12", "pid": 9, "tid": 1, "ts": 0, "dur": 5, "args": {}}]
    found = broken(tmp_path, rows)
    assert found.has_device
    assert found.device_rows[0].name == "fusion.12"


def test_signals_carry_what_the_limits_are_decided_from(tmp_path: Path) -> None:
    rows = [x("kernel", "k", 0, 10, 7, correlation=1), x("kernel", "k", 100, 10, 7, correlation=2)]
    rows.append(x("cuda_runtime", "cudaLaunchKernel", 99, 1, correlation=2))
    seen = observe_trace(broken(tmp_path, rows), wall_s=0.0, source="t")
    assert seen.signals["launch_gap_share"] == pytest.approx(89 / 110)
    assert seen.signals["communication_exposed_share"] == 0
