from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from probes.causes import Cause, Suspicion

HERE = Path(__file__).parent / "red_herrings" / "investigate.py"


def test_the_log_blames_another_part_and_a_setting_goes_along_but_the_right_cause_is_found(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("red_herrings_investigate", HERE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for attempt in range(4):  # a busy machine leaves causes undecided, never wrong
        found = module.investigate(tmp_path / f"service-{attempt}.log")
        if all(told.verdict != "undecided" for told in found.told.values() if isinstance(told, Suspicion)):
            break
    assert found.blamed == "fetch_buffer_kb"
    causes = [name for name, told in found.told.items() if isinstance(told, Cause)]
    assert causes == ["flush_each"]
    assert found.told["flush_each"].effect < -0.5
    for innocent in ("fetch_buffer_kb", "trace_labels"):
        assert isinstance(found.told[innocent], Suspicion)
        assert found.told[innocent].verdict in ("refuted", "undecided")
