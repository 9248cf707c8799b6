from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.dossiers import GOAL
from agent.sessions import (
    add_baseline,
    add_candidate,
    add_hypothesis,
    add_window,
    estimate,
    give_verdict,
    session_in,
    window,
)

from infra_agent.agent.calibration import calibration, interval_score, measurable, score_predictions
from infra_agent.agent.view import build_dossier
from infra_agent.harness.measuring import record
from infra_agent.harness.session import Session
from infra_agent.ledger import kinds as k
from probes.base import Cost, Observation, Rung, Verdict, Where


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_in(tmp_path, brain="llm") as made:
        add_baseline(made, 25.0)
        yield made


def predict(*ranges: tuple[str, str, float, float]) -> dict[str, Any]:
    names = ("rung", "metric", "low", "high")
    return {"predictions": tuple(dict(zip(names, given, strict=True)) for given in ranges)}


def screened(session: Session, ratio: float) -> None:
    session.ledger.append(
        k.Screened(
            candidate="C1", against="stock", estimate=estimate(ratio, ratio, ratio), outcome="promote", reason="",
            wall_s=1.0,
        )
    )  # fmt: skip


def candidate(session: Session) -> None:
    """C1 as a test of H1."""
    session.ledger.append(
        k.CandidateProposed(
            id="C1", title="batching", hypothesis="H1", base="stock", changes=(), settings={}, digest="d" * 64,
            risk="routine", risk_reasons=(), family="batching", lane="agent",
        )
    )  # fmt: skip


def overlap(session: Session, of: str, decoding: float) -> None:
    seen = Observation(
        probe="events.overlap", rung=Rung.EVENTS, verdict=Verdict.PASS, summary="", where=Where(whole_system=True),
        cost=Cost(wall_s=0.0), signals={"decoding_mean": decoding, "serialised": decoding <= 1},
    )  # fmt: skip
    record(session, seen, candidate=of, lane="agent", purpose="screen", launch="")


def test_the_goals_figure_is_scored_by_its_estimate_first_screened_then_proved(session: Session) -> None:
    add_hypothesis(session)
    candidate(session)
    score_predictions(session)
    assert not session.state.scores
    screened(session, 2.0)
    score_predictions(session)
    score_predictions(session)
    block = k.BlockMeasured(
        candidate="C1", base="stock", stage="prove", index=0, order=("base", "candidate"), seed=1, valid=True
    )
    session.ledger.append(block)
    give_verdict(session, "C1", "accepted", 4.0)
    score_predictions(session)
    found = [(score.basis, score.measured, score.inside) for score in session.state.scores]
    assert found == [("screen", 2.0, True), ("proved", 4.0, False)]
    assert [(c.rung, c.scored, c.inside) for c in calibration(session.state)] == [("load", 1, 0)]


def test_other_figures_are_the_ratio_to_the_bases_newest_turned_so_that_above_one_is_better(session: Session) -> None:
    add_window(session, "stock", 25.0, "measure", ttft_p50_s=2.0, requests_per_s=3.0)
    ranges = predict(("load", "ttft_p50_s", 3.0, 5.0), ("load", "requests_per_s", 1.9, 2.1), ("load", "tpot_s", 1, 2))
    add_hypothesis(session, **ranges)
    candidate(session)
    add_window(session, "C1", 50.0, "screen", ttft_p50_s=0.5, requests_per_s=6.0)
    score_predictions(session)
    found = {score.metric: (score.measured, score.inside, score.basis) for score in session.state.scores}
    assert found == {"ttft_p50_s": (4.0, True, "windows"), "requests_per_s": (2.0, True, "windows")}


def test_signals_are_plain_ratios_and_flags_are_none(session: Session) -> None:
    overlap(session, "stock", 1.0)
    add_hypothesis(session, **predict(("events", "decoding_mean", 2.0, 4.0), ("events", "serialised", 1.0, 1.0)))
    candidate(session)
    overlap(session, "C1", 3.5)
    score_predictions(session)
    assert [(s.metric, s.measured, s.inside) for s in session.state.scores] == [("decoding_mean", 3.5, True)]


def test_a_window_that_is_not_valid_scores_nothing(session: Session) -> None:
    add_hypothesis(session, **predict(("load", "output_tok_per_s", 1.0, 2.0)))
    candidate(session)
    bad = Observation(
        probe="load", rung=Rung.LOAD, verdict=Verdict.INVALID, summary="", where=Where(whole_system=True),
        cost=Cost(wall_s=0.0),
    )  # fmt: skip
    record(session, bad, candidate="C1", lane="agent", purpose="screen", launch="")
    score_predictions(session)
    assert not session.state.scores


def test_the_score_is_the_width_inside_and_ten_times_the_miss_outside() -> None:
    width = interval_score(1.0, 2.0, 1.5)
    assert width == pytest.approx(0.6931, abs=1e-4)
    assert interval_score(1.0, 2.0, 4.0) == pytest.approx(width + 10 * 0.6931, abs=1e-3)
    assert interval_score(1.0, 2.0, 0.5) == pytest.approx(width + 10 * 0.6931, abs=1e-3)
    assert interval_score(1.4, 1.6, 1.5) < width


def test_what_can_be_predicted_is_what_stock_was_measured_by(session: Session) -> None:
    overlap(session, "stock", 1.0)
    names = measurable(session.state, GOAL)
    assert "output_tok_per_s" in names["load"]
    assert names["events"] == ("decoding_mean",)
    assert "micro" not in names


def test_the_brain_is_shown_each_range_beside_its_measurement_and_its_hits_by_rung(session: Session) -> None:
    add_hypothesis(session)
    candidate(session)
    screened(session, 2.0)
    score_predictions(session)
    dossier = build_dossier(session, "agent")
    prediction = dossier.hypotheses[0].predictions[0]
    assert (prediction.measured, prediction.inside) == (2.0, True)
    assert [(view.rung, view.inside, view.scored) for view in dossier.calibration] == [("load", 1, 1)]


def test_plain_search_is_not_scored(session: Session) -> None:
    add_candidate(session)
    screened(session, 2.0)
    score_predictions(session)
    assert not session.state.scores
    assert window(1.0).verdict is Verdict.PASS
