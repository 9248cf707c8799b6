"""The one sanitiser: nothing that acts on a terminal survives, harmless text stays as it is."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.clean import LONGEST_LINE, clean, one_line, strip, suspicious, to_json

pytestmark = pytest.mark.requirement("S3")
HOSTILE = st.text(
    st.sampled_from("\x1b[]0;31mP_^X\\\x07\x9b\x9d\x9c\x90\r\n\t\x08ab\u202e\u200b\u2066\U000e0041\ufe0f\ud800é🚀")
)
HARMLESS = st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "Mn", "Lo"]))


def acts(char: str) -> bool:
    """Whether Unicode calls it a control, format, surrogate or line-breaking character."""
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in "\n\t"


@settings(max_examples=300, deadline=None)
@given(HOSTILE | st.text())
def test_nothing_that_acts_on_a_terminal_survives(text: str) -> None:
    assert not [char for char in clean(text) if acts(char)]
    assert not suspicious(strip(text))


@settings(max_examples=200, deadline=None)
@given(HARMLESS)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


def test_every_character_of_unicode_that_acts_is_taken_out() -> None:
    left = [hex(code) for code in range(sys.maxunicode + 1) if acts(chr(code)) and chr(code) in strip(f"a{chr(code)}z")]
    assert left == []


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1bP+q\x1b\\text", "text"),
        ("\x1b]52;c;aGk=\x07text", "text"),
        ("\x1b]0;unterminated\nnext line", "\nnext line"),
        ("\x1b\x1b[31m[32mtext", "[32mtext"),
        ("abc\u202edef", "abcdef"),
        ("pass\u200bword", "password"),
        ("\U000e0073\U000e006bx", "x"),
        ("a\x08b\x7fc", "abc"),
        ("x\ufe0fy\u034fz", "xyz"),
    ],
)
def test_known_sequences_are_taken_out_whole(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


def test_a_line_that_is_too_long_is_cut_and_says_how_much_is_missing() -> None:
    shown = clean("a" * (LONGEST_LINE + 7) + "\nshort")
    assert shown.split("\n") == ["a" * LONGEST_LINE + " … (7 more characters)", "short"]


def test_one_line_stays_one_line() -> None:
    assert one_line("first\nerror: forged\tline\r") == "first error: forged line"


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(HOSTILE | st.text() | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(HOSTILE, x))
)
def test_json_reads_back_as_it_was_and_holds_nothing_that_acts(document: object) -> None:
    text = to_json(document)
    assert json.loads(text) == document
    assert not [char for char in text if acts(char)]
    text.encode("utf-8")
