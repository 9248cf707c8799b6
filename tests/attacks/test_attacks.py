"""A sample of the exploits in every run; all of them with `make attacks`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import suite  # noqa: E402
from catalogue import ATTACKS, HONEST, Attack  # noqa: E402

SAMPLE = ("clock_stopped", "thread_after_return", "by_pointer", "by_content_alias", "from_gc", "zeros", "history_cut",
          "tf32_inputs", "nan_as_wildcard", "printed_verdict", "falls_back")  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> suite.Suite:
    return suite.Suite(tmp_path_factory.mktemp("attacks"))


def test_there_are_enough_attacks_and_each_has_a_twin_that_must_pass() -> None:
    assert len(ATTACKS) >= 45
    assert len(HONEST) >= 20
    honest = {each.name for each in HONEST}
    assert [attack.name for attack in ATTACKS if attack.twin not in honest] == []
    assert [name for name, count in Counter(attack.name for attack in ATTACKS).items() if count > 1] == []


@pytest.mark.parametrize("attack", [each for each in ATTACKS if each.name in SAMPLE], ids=lambda each: each.name)
def test_an_exploit_that_fools_a_naive_judge_is_caught(bench: suite.Suite, attack: Attack) -> None:
    assert bench.naive(attack) == "fooled"
    row = bench.judged(attack)
    assert row.verdict == "fail", row


@pytest.mark.parametrize("name", ["softmax_online", "falls_back_when_needed", "scan_in_chunks"])
def test_an_honest_twin_passes(bench: suite.Suite, name: str) -> None:
    row = bench.judged(next(each for each in HONEST if each.name == name))
    assert row.verdict == "pass", row


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_exploit_is_caught_and_no_honest_twin_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert suite.main([]) == 0
    counts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert counts["caught"] == counts["attacks"] >= 45
    assert counts["honest_rejected"] == 0
