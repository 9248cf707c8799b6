"""A run killed at any event and resumed is the same run. All events: `make test-kill`; here a sample of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulated.boundaries import (
    BARE,
    KILLED,
    MOST_THOROUGH,
    SANDBOX,
    Lab,
    compared,
    differences,
    kill_everywhere,
    plan,
    undisturbed,
)
from simulated.sameness import decisions, disorder, figures, repeated

from infra_agent.ledger import kinds as k
from infra_agent.ledger.chain import read_chain
from infra_agent.ledger.event import GENESIS, Event, seal
from infra_agent.ledger.fold import fold
from infra_agent.ledger.state import RunState

pytestmark = pytest.mark.requirement("L6")
SAMPLE = 12


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture(scope="module")
def whole(lab: Lab) -> RunState:
    return undisturbed(lab, SANDBOX)


def test_kills_spread_over_a_whole_run_change_nothing(tmp_path: Path) -> None:
    with Lab(tmp_path) as own:
        equal, tried, words = kill_everywhere(own, SAMPLE)
    assert words == []
    assert equal == tried >= SAMPLE - 1


def test_every_event_is_among_the_boundaries_and_paid_kinds_have_all_three_moments(lab: Lab, whole: RunState) -> None:
    events = read_chain(lab.run_dir(f"whole, {SANDBOX}")).events
    boundaries = list(plan(events))
    moments: dict[int, set[str]] = {}
    for boundary in boundaries:
        moments.setdefault(boundary.seq, set()).add(boundary.moment)
    assert sorted(moments) == list(range(1, len(events) + 1))
    for kind in {e.kind for e in events if k.KINDS[e.kind].synced}:
        seen = [moments[e.seq] for e in events if e.kind == kind]
        assert sum(len(each) == 3 for each in seen) == min(len(seen), MOST_THOROUGH)
    assert {m for e in events if not k.KINDS[e.kind].synced for m in moments[e.seq]} == {"before", "torn", "after"}
    assert {boundary.walls for boundary in boundaries} == {SANDBOX, BARE}


def test_the_sampled_run_is_a_full_one(whole: RunState) -> None:
    kinds = {at.data.kind for at in whole.events}
    assert {"hypothesis", "candidate", "screened", "block", "look", "verdict", "accepted", "honesty", "final"} <= kinds
    assert {c.verdict.decision for c in whole.candidates.values() if c.verdict} >= {"accepted", "invalid"}


def test_two_undisturbed_runs_are_the_same(lab: Lab, whole: RunState) -> None:
    again = undisturbed(lab, SANDBOX)
    assert list(differences(decisions(whole), decisions(again))) == []
    assert list(differences(figures(whole), figures(again))) == []


@pytest.mark.parametrize("moment", ["before", "torn", "after"])
def test_a_run_killed_again_while_it_is_resumed_is_still_the_same(lab: Lab, whole: RunState, moment: str) -> None:
    name = f"again-{moment}"
    assert lab.begin(name, crash_at="30:torn") == KILLED
    # Event 30 is then `recovered`, 31 `run_resumed`, 32 the end of the launch that was cut off.
    for seq in (30, 31, 32, 40):
        assert lab.resume(name, crash_at=f"{seq}:{moment}") == KILLED
    assert lab.resume(name) == 0
    assert compared(lab, name, whole) == []


def changed(state: RunState, lab: Lab, kind: str, **fields: Any) -> RunState:
    """The same ledger with the last event of a kind told otherwise."""
    events = list(read_chain(lab.run_dir(f"whole, {SANDBOX}")).events)
    last = max(index for index, event in enumerate(events) if event.kind == kind)
    rewritten: list[Event] = []
    prev = GENESIS
    for index, event in enumerate(events):
        data = {**event.data, **fields} if index == last else event.data
        rewritten.append(seal(seq=event.seq, prev=prev, ts=event.ts, kind=event.kind, data=data))
        prev = rewritten[-1].hash
    return fold(rewritten)


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        ("hypothesis", {"cause": "another"}, "hypotheses"),
        ("candidate", {"digest": "0" * 64}, "candidates"),
        ("accepted", {"gate": "nobody asked"}, "accepted"),
        ("verdict", {"decision": "rejected", "cause": "slower"}, "verdict"),
        ("block", {"seed": 1}, "blocks"),
        ("screened", {"outcome": "unclear"}, "screened"),
        ("launch", {"settings": {"compile": True}}, "launched"),
        ("honesty", {"best": "another"}, "honesty"),
        ("finished", {"outcome": "not_met", "exit_code": 1}, "outcome"),
    ],
)
def test_another_decision_is_noticed(lab: Lab, whole: RunState, kind: str, fields: Any, named: str) -> None:
    found = list(differences(decisions(whole), decisions(changed(whole, lab, kind, **fields))))
    assert found
    assert all(named in line for line in found)


def test_another_figure_is_noticed_and_time_is_not(lab: Lab, whole: RunState) -> None:
    assert list(differences(figures(whole), figures(changed(whole, lab, "block", base_value=1.0))))
    other = changed(whole, lab, "block", wall_s=99.0)
    assert not list(differences(figures(whole), figures(other)))
    assert not list(differences(decisions(whole), decisions(other)))


def test_work_done_twice_is_named(lab: Lab, whole: RunState) -> None:
    events = list(read_chain(lab.run_dir(f"whole, {SANDBOX}")).events)
    prev, told = GENESIS, []
    for event in [*events, next(e for e in events if e.kind == "look")]:
        told.append(seal(seq=len(told) + 1, prev=prev, ts=event.ts, kind=event.kind, data=event.data))
        prev = told[-1].hash
    assert repeated(whole, fold(told)) == ["look C1 prove 3 stands 2 times"]


def test_time_that_runs_backwards_is_named(lab: Lab, whole: RunState) -> None:
    assert disorder(whole) == []
    assert any("spent 1.0 s after" in line for line in disorder(changed(whole, lab, "finished", elapsed_s=1.0)))
    assert any("negative" in line for line in disorder(changed(whole, lab, "block", wall_s=-1.0)))
