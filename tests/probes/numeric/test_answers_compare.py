"""The verdict over answers, with an exact in-memory oracle: one character is one token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base import Cost, Observation, Verdict
from probes.numeric.compare import compare
from probes.numeric.divergence import END_TEXT, Status, classify
from probes.numeric.types import Answer, Gap, GapRequest, OracleError, Tokens


@dataclass
class CharOracle:
    """Every character is a token; `gap_nat` lies between any two, `rest_nat` behind any fork."""

    gap_nat: float = 0.04
    rest_nat: float | None = 0.0
    unfaithful: str = "\0"
    asked: list[GapRequest] = field(default_factory=list)
    name: str = "in-memory oracle"

    def digest(self) -> str:
        return "d1"

    def tokenise(self, texts: Sequence[str]) -> list[Tokens]:
        return [
            Tokens(ids=tuple(map(ord, text)), pieces=tuple(text), faithful=self.unfaithful not in text)
            for text in texts
        ]

    def gaps(self, requests: Sequence[GapRequest]) -> list[Gap]:
        self.asked += requests
        return [
            Gap(
                path_logp=-1.0,
                other_logp=-1.0 - self.gap_nat,
                best_logp=-1.0,
                best_token="x",
                rest_deficit_nat=self.rest_nat,
                rest_position=None if self.rest_nat is None else request.position + 1,
            )
            for request in requests
        ]


class BrokenOracle(CharOracle):
    def tokenise(self, texts: Sequence[str]) -> list[Tokens]:
        raise OracleError("the oracle broke off")


def answer(name: str, text: str, finish: str = "length", tokens: int | None = None) -> Answer:
    count = len(text) + (finish == "stop") if tokens is None else tokens
    return Answer(
        prompt_id=name,
        prompt=f"ask {name}",
        endpoint="chat",
        max_tokens=8,
        text=text,
        finish_reason=finish,
        output_tokens=count,
        model="m",
    )


REFERENCE = (answer("a", "abcdefgh"), answer("b", "ijklmnop"), answer("c", "qrs", "stop"))


def against(*changed: Answer, oracle: CharOracle | None = None, without: str = "") -> Observation:
    by_name = {one.prompt_id: one for one in changed}
    candidate = [by_name.get(one.prompt_id, one) for one in REFERENCE if one.prompt_id != without]
    return compare(REFERENCE, candidate, oracle=oracle or CharOracle())


def value(observation: Observation, name: str) -> float:
    quantity = observation.quantity(name)
    assert quantity is not None, name
    return quantity.value


def test_equal_answers_pass_without_asking_the_oracle():
    oracle = CharOracle()
    found = against(oracle=oracle)
    assert (found.verdict, found.summary, oracle.asked) == (Verdict.PASS, "3 same", [])
    assert found.quantity("oracle_gap_max_nat") is None


def test_a_small_gap_is_a_near_tie_with_its_place_and_both_tokens():
    oracle = CharOracle(gap_nat=0.04)
    found = against(answer("a", "abcXYZWV"), oracle=oracle)
    assert found.verdict is Verdict.PASS
    assert found.summary == "2 same, 1 near-tie (largest gap 0.04 nat)"
    row = found.detail["prompts"][0]
    assert (row["position"], row["reference_token"], row["candidate_token"]) == (3, "d", "X")
    assert row["oracle_prefers"] == "candidate"
    assert "not compared with each other" in row["reason"]
    assert oracle.asked[0].path == tuple(map(ord, "abcXYZW"))
    assert oracle.asked[0].other == ord("d")


def test_the_last_word_of_an_answer_cut_off_by_its_limit_is_not_weighed():
    # Its tokens may not be those that were generated: "in" + "dex" re-tokenise to "index".
    oracle = CharOracle(gap_nat=0.04)
    against(answer("a", "abcX ef gh"), oracle=oracle)
    assert oracle.asked[0].path == tuple(map(ord, "abcX ef "))


def test_the_whole_text_of_an_answer_that_ended_by_itself_is_weighed():
    oracle = CharOracle(gap_nat=0.04)
    against(answer("a", "abcX ef gh", finish="stop"), oracle=oracle)
    assert oracle.asked[0].path == (*map(ord, "abcX ef gh"), None)


@pytest.mark.parametrize(
    ("gap", "verdict"), [(0.1, "pass"), (0.1000001, "fail"), (math.nan, "fail"), (math.inf, "fail")]
)
def test_the_tolerance_is_the_last_gap_that_passes(gap: float, verdict: str):
    # The reference's token lies at -1 - gap, so use a gap that subtracts exactly at the edge.
    oracle = CharOracle(gap_nat=gap)
    found = compare(
        REFERENCE, [answer("a", "abcXefgh"), *REFERENCE[1:]], oracle=oracle, tolerance_nat=abs(-1 - (-1 - 0.1))
    )
    assert found.verdict.value == verdict


def test_a_large_gap_fails_and_names_the_prompt():
    found = against(answer("b", "ijkXmnop"), oracle=CharOracle(gap_nat=2.5))
    assert found.verdict is Verdict.FAIL
    assert value(found, "answers_changed") == 1
    assert value(found, "oracle_gap_max_nat") == 2.5
    assert "b: token 3: 'l' became 'X', 2.5 nat apart" in found.summary


def test_nothing_can_hide_behind_a_near_tie():
    found = against(answer("a", "abcXgarb"), oracle=CharOracle(gap_nat=0.0, rest_nat=7.0))
    assert found.verdict is Verdict.FAIL
    assert "behind it, token 4 of the candidate is 7 nat less likely" in found.summary


def test_stopping_earlier_is_a_fork_between_a_token_and_the_end():
    oracle = CharOracle(gap_nat=3.0)
    found = against(answer("a", "abcd", "stop"), oracle=oracle)
    assert found.verdict is Verdict.FAIL
    row = found.detail["prompts"][0]
    assert (row["reference_token"], row["candidate_token"], row["position"]) == ("e", END_TEXT, 4)
    assert oracle.asked[0].path[-1] is None


def test_going_on_where_the_reference_stopped_is_a_fork_too():
    oracle = CharOracle(gap_nat=3.0)
    assert against(answer("c", "qrsTUVWX"), oracle=oracle).verdict is Verdict.FAIL
    assert (oracle.asked[0].position, oracle.asked[0].other) == (3, None)


@pytest.mark.parametrize(
    "cut",
    [
        answer("a", "abcd", "length"),
        answer("a", "abXY", "length"),
        answer("a", "abcd", "length", tokens=8),
        replace(answer("a", "abcd", "length"), output_tokens=None),
    ],
    ids=["a prefix", "forked before", "token count unchanged", "no token count"],
)
def test_an_answer_cut_short_makes_the_comparison_invalid(cut: Answer):
    found = against(cut)
    assert found.verdict is Verdict.INVALID
    assert found.quantities == ()
    assert "cut" in found.summary


def test_an_invisible_end_on_the_last_allowed_token_counts_as_stopped():
    oracle = CharOracle(gap_nat=0.02, rest_nat=None)
    assert against(answer("a", "abcdefg", "length", tokens=8), oracle=oracle).verdict is Verdict.PASS
    assert oracle.asked[0].path[-1] is None


def test_a_missing_answer_and_a_failed_request_fail():
    assert against(without="b").verdict is Verdict.FAIL
    failed = against(replace(REFERENCE[1], text="", error="HTTP 500"))
    assert failed.verdict is Verdict.FAIL
    assert value(failed, "answers_missing") == 1
    assert "HTTP 500" in failed.summary


def test_a_candidate_that_answers_nothing_fails():
    assert compare(REFERENCE, [], oracle=CharOracle()).verdict is Verdict.FAIL


def test_a_reference_with_a_hole_is_invalid_and_not_the_candidates_fault():
    broken = (replace(REFERENCE[0], error="timeout"), *REFERENCE[1:])
    assert compare(broken, REFERENCE, oracle=CharOracle()).verdict is Verdict.INVALID
    assert compare([], [], oracle=CharOracle()).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "another"},
        {"max_tokens": 4},
        {"endpoint": "completions"},
        {"prompt_id": "z"},
        {"model": "other"},
        {"model": None},
    ],
    ids=str,
)
def test_other_questions_or_another_model_are_invalid(change: dict[str, str | int | None]):
    strange = replace(REFERENCE[0], **change)
    assert compare(REFERENCE, [strange, *REFERENCE[1:]], oracle=CharOracle()).verdict is Verdict.INVALID


def test_only_empty_answers_are_invalid_even_when_equal():
    empty = [replace(one, text="") for one in REFERENCE]
    assert compare(empty, empty, oracle=CharOracle()).verdict is Verdict.INVALID
    assert compare(REFERENCE, empty, oracle=CharOracle()).verdict is Verdict.INVALID


def test_a_prompt_answered_twice_is_invalid():
    assert compare(REFERENCE, [*REFERENCE, REFERENCE[0]], oracle=CharOracle()).verdict is Verdict.INVALID


def test_without_an_oracle_equal_passes_and_unequal_stays_undecided():
    assert compare(REFERENCE, REFERENCE, oracle=None).verdict is Verdict.PASS
    found = compare(REFERENCE, [answer("a", "abcXefgh"), *REFERENCE[1:]], oracle=None)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.against.digest


def test_a_text_that_does_not_survive_retokenising_is_undecided_but_never_hides_a_change():
    oracle = CharOracle(gap_nat=2.0, unfaithful="~")
    odd = answer("a", "abc~efgh")
    assert against(odd, oracle=oracle).verdict is Verdict.INCONCLUSIVE
    assert against(odd, answer("b", "iXklmnop"), oracle=oracle).verdict is Verdict.FAIL


def test_an_oracle_that_breaks_off_is_an_error_not_a_pass():
    found = against(answer("a", "abcXefgh"), oracle=BrokenOracle())
    assert (found.verdict, found.summary) == (Verdict.ERROR, "the oracle broke off")


def test_flips_of_the_reference_against_itself_are_shown_and_excuse_nothing():
    flipped = [answer("a", "abcXefgh"), *REFERENCE[1:]]
    found = compare(REFERENCE, flipped, oracle=CharOracle(gap_nat=5.0), repeat=flipped)
    assert found.verdict is Verdict.FAIL
    assert found.signals["repeat_flips"] == 1
    assert "reference against itself: 1 of 3 differ" in found.summary


def test_the_cost_of_collecting_is_kept_and_the_comparison_is_added():
    ticks = iter((10.0, 12.5))
    paid = Cost(wall_s=4.0, requests=3, launches=1)
    found = compare(REFERENCE, REFERENCE, oracle=CharOracle(), cost=paid, clock=lambda: next(ticks))
    assert found.cost == Cost(wall_s=6.5, requests=3, launches=1)


def test_a_negative_tolerance_is_refused():
    with pytest.raises(ValueError, match="tolerance_nat"):
        compare(REFERENCE, REFERENCE, oracle=None, tolerance_nat=-0.1)


@given(st.lists(st.text(alphabet="abc", max_size=8), min_size=3, max_size=3), st.floats(0, 3))
def test_every_prompt_gets_one_status_and_pass_means_no_change(texts: list[str], gap: float):
    candidate = [replace(one, text=text, output_tokens=8) for one, text in zip(REFERENCE, texts, strict=True)]
    oracle = CharOracle(gap_nat=gap)
    results = classify(REFERENCE, candidate, oracle, 0.1)
    assert [result.prompt_id for result in results] == ["a", "b", "c"]
    if compare(REFERENCE, candidate, oracle=oracle).verdict is Verdict.PASS:
        assert {result.status for result in results} <= {Status.SAME, Status.NEAR_TIE}
