from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra_agent.agent.quoting import BAR, block, inline


@given(st.text(max_size=200))
def test_a_line_stays_one_line_between_its_marks_and_can_be_stored(text: str) -> None:
    shown = inline(text, 100)
    assert shown[0] + shown[-1] == "«»"
    assert not set(shown[1:-1]) & set("«»<>`\n\r\x1b\u202e\u2028")
    assert len(shown) < 140
    shown.encode("utf-8")


@given(st.text(max_size=200))
def test_every_line_of_a_block_begins_with_the_bar(text: str) -> None:
    shown = block(text)
    assert all(line.startswith(BAR) for line in shown.split("\n") if shown)
    shown.encode("utf-8")


def test_a_cut_says_how_much_it_left_out() -> None:
    assert inline("x" * 130, 100) == f"«{'x' * 100} … 30 characters left out»"
    assert inline("x" * 100, 100) == f"«{'x' * 100}»"


def test_halves_of_characters_and_terminal_sequences_are_gone() -> None:
    assert inline("a\ud800b\x1b[31mc\u202ed\te", 100) == "«abcd e»"
