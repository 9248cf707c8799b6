"""Workers that answer, refuse, die, hang, or cannot be started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from probes.kernels.process import KernelProbeError, ask

RUN = "probes.kernels.run_file"


def _ask(tmp_path: Path, body: str, timeout_s: float = 60.0) -> dict[str, object]:
    (tmp_path / "w.py").write_text(f"import os, sys, time\ndef work(request):\n    {body}\n")
    return ask(sys.executable, RUN, {"file": str(tmp_path / "w.py"), "request": {"x": 2}}, timeout_s=timeout_s)


def test_an_answer_arrives_whatever_the_module_prints(tmp_path: Path) -> None:
    assert _ask(tmp_path, "print('noise' * 10000); return {'twice': request['x'] * 2}") == {"twice": 4}


def test_an_exception_becomes_a_refusal_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(KernelProbeError, match="ValueError: no such tile") as caught:
        _ask(tmp_path, "raise ValueError('no such tile')")
    assert caught.value.kind == "failed"


def test_a_worker_that_dies_is_told_with_its_exit_and_last_lines(tmp_path: Path) -> None:
    with pytest.raises(KernelProbeError, match="exit code 7") as caught:
        _ask(tmp_path, "print('last words', flush=True); os._exit(7)")
    assert caught.value.kind == "died"
    assert "last words" in caught.value.lines


def test_a_worker_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(KernelProbeError) as caught:
        _ask(tmp_path, "time.sleep(600)", timeout_s=1.0)
    assert caught.value.kind == "timeout"


def test_an_interpreter_that_is_not_there_is_named() -> None:
    with pytest.raises(KernelProbeError, match="cannot be started") as caught:
        ask("/no/such/python", RUN, {}, timeout_s=5)
    assert caught.value.kind == "no-interpreter"


def test_a_missing_triton_is_said_with_a_next_step() -> None:
    request = {"kernel": "json:loads", "architectures": ["sm_90"], "cache": "."}
    with pytest.raises(KernelProbeError) as caught:
        ask(sys.executable, "probes.static.triton_compile.worker", request, timeout_s=60)
    assert caught.value.kind == "no-triton"
    assert "--python" in caught.value.hint
