"""What the report says of how sure a claim is: among all that was tested, stalls apart, ratio and difference."""

from __future__ import annotations

from sample_run import complete_run, none_accepted_run

from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.html import render


def test_an_accepted_change_has_its_p_alone_and_after_holm_over_all_that_was_judged() -> None:
    (row,) = build_report(complete_run()).accepted
    assert row.corrected is not None
    assert (row.corrected.p, row.corrected.p_adjusted, row.corrected.tested) == (0.0039, 0.0078, 2)
    assert row.corrected.survives
    page = render(build_report(complete_run()))
    assert "after Holm over" in page
    assert "does not stand" not in page


def test_stalled_runs_of_both_arms_and_which_figures_were_compared_are_shown() -> None:
    report = build_report(complete_run())
    stalls = report.accepted[0].stalls
    assert stalls is not None
    assert (stalls.base, stalls.candidate, stalls.runs, stalls.p, stalls.compared) == (0, 1, 8, 0.5, "stall-free")
    assert "Stalled runs of C1" in render(report)


def test_ratio_and_difference_stand_beside_each_other_while_searching_and_on_fresh_seeds() -> None:
    report = build_report(complete_run())
    assert report.accepted[0].difference is not None
    assert report.accepted[0].difference.value == 49.1
    assert report.final is not None
    assert report.final.difference is not None
    assert [guard.state for guard in report.final.guards] == ["holds"]
    page = render(report)
    assert "+49.1" in page
    assert "+48.3" in page
    assert "x0.4 of 4 GB: holds" in page


def test_a_run_that_proved_nothing_claims_nothing() -> None:
    assert build_report(none_accepted_run()).accepted == []
