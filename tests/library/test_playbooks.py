from __future__ import annotations

from pathlib import Path

import pytest

from infra_agent.errors import ConfigError
from infra_agent.goal.model import Metric
from infra_agent.library.playbooks import Predicate, load_playbook, load_playbooks
from infra_agent.stack.engines import ENGINES, get_engine

PAGE = """+++
name = "p"
symptom = "s"
rank = 1
{extra}
[[levers]]
family = "batching"
cause = "c"
place = "p"
refuted_by = "r"
low = 1.0
high = 2.0
+++
text
"""


def test_the_shipped_pages_load_in_rank_order_and_end_with_the_sweep() -> None:
    pages = load_playbooks()
    assert [page.rank for page in pages] == sorted(page.rank for page in pages)
    assert pages[-1].name == "lever-sweep"
    assert all(page.text for page in pages)


def test_every_lever_family_of_a_known_engine_is_reached_by_some_page() -> None:
    reached = {lever.family for page in load_playbooks() for lever in page.levers}
    families = {parameter.family for name in ENGINES.names() for parameter in get_engine(name).parameters()}
    later = {"*", "admission"}  # caps on running requests exist in engines that are not described yet
    assert reached - later <= families
    assert {"batching", "threads", "dtype", "attention", "compile", "graphs", "limits"} <= reached


@pytest.mark.parametrize(
    ("predicate", "signals", "holds"),
    [
        ({"signal": "x", "at_least": 2.0}, {"x": 2.0}, True),
        ({"signal": "x", "at_least": 2.0}, {"x": 1.9}, False),
        ({"signal": "x", "at_most": 2.0}, {"x": 2.1}, False),
        ({"signal": "x", "equals": True}, {"x": True}, True),
        ({"signal": "x", "equals": True}, {"x": False}, False),
        ({"signal": "x", "equals": "cpu"}, {"x": "cuda"}, False),
        ({"signal": "x", "at_least": 0.0}, {}, False),
        ({"signal": "x", "at_least": 0.0}, {"x": "many"}, False),
    ],
)
def test_a_predicate_compares_one_signal(predicate: dict, signals: dict, holds: bool) -> None:
    assert Predicate(**predicate).holds(signals) is holds


def test_a_page_serves_only_the_metrics_it_names(tmp_path: Path) -> None:
    path = tmp_path / "p.md"
    path.write_text(PAGE.format(extra='metrics = ["ttft_s"]'))
    page = load_playbook(path)
    assert page.matches(Metric.TTFT_S, {})
    assert not page.matches(Metric.OUTPUT_TOK_PER_S, {})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("no front matter", "+++"),
        (PAGE.format(extra="rank = = 2"), "TOML"),
        (PAGE.format(extra='metrcs = ["ttft_s"]'), "metrcs"),
        (PAGE.format(extra='[[when]]\nsignal = "x"'), "when"),
        (PAGE.format(extra='metrics = ["speed"]'), "metrics"),
    ],
)
def test_a_faulty_page_is_refused_with_file_and_field(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "p.md"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_playbook(path)
    assert named in caught.value.message
    assert str(path) in caught.value.where
