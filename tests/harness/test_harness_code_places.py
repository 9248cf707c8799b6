"""The places that a patch changes, and the lines that prove them."""

from __future__ import annotations

import difflib
import textwrap

import pytest

from infra_agent.changes.hunks import edit
from infra_agent.changes.parse import parse
from infra_agent.harness.code_places import Place, places_of

pytestmark = pytest.mark.requirement("P1")
SOURCE = textwrap.dedent(
    '''\
    """A module."""
    import time

    LIMIT = 3


    def slow(x, n=1):
        """Says it."""
        time.sleep(0.1)
        y = (x +
             1)
        if y:
            y += 1
        return y


    class A:
        size = 1

        def method(self):
            return [
                1,
            ]


    def last():
        return 1
    '''
)


def places(after: str, before: str = SOURCE) -> list[Place]:
    lines = [text.splitlines(keepends=True) for text in (before, after)]
    diff = "".join(difflib.unified_diff(lines[0], lines[1], "a/m.py", "b/m.py"))
    file = parse(diff).files[0]
    edited = edit(before.encode(), file)
    assert edited.content == after.encode()
    return list(places_of(edited.patch, edited.content or b""))


def the_place(old: str, new: str) -> Place:
    assert old in SOURCE
    (found,) = places(SOURCE.replace(old, new, 1))
    return found


def lines_of(text: str, *wanted: str) -> set[int]:
    return {number for number, line in enumerate(text.splitlines(), start=1) if any(w in line for w in wanted)}


CASES = {
    "a line of a function": ("return y\n", "return y + 1\n", "slow", "function", ["return y + 1"]),
    "an inner line of a statement": ("  1)", "  2)", "slow", "function", ["y = (x", "  2)"]),
    "the head of a block": ("if y:", "if y > 0:", "slow", "function", ["if y > 0:"]),
    "a line that was removed": ("    time.sleep(0.1)\n", "", "slow", "function",
                                ["y = (x", "  1)", "if y:", "y += 1", "return y"]),
    "a docstring": ("Says it.", "Says it all.", "slow", "function",
                    ["time.sleep", "y = (x", "  1)", "if y:", "y += 1", "return y"]),
    "a signature": ("n=1", "n=2", "slow", "function", ["time.sleep", "y = (x", "  1)", "if y:", "y += 1", "return y"]),
    "a method": ("            1,", "            2,", "A.method", "function", ["return [", "2,", "        ]"]),
    "a constant": ("LIMIT = 3", "LIMIT = 4", "", "statement", ["LIMIT = 4"]),
    "a class attribute": ("size = 1", "size = 2", "", "statement", ["size = 2"]),
    "an import": ("import time", "import time, os", "", "import", ["import time, os"]),
    "the last line of a function, removed": ("        y += 1\n    return y\n", "        y += 1\n", "slow", "function",
                                             ["time.sleep", "y = (x", "  1)", "if y:", "y += 1"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_changed_line_is_proved_by_its_statement_or_its_function(case: str) -> None:
    old, new, name, kind, wanted = CASES[case]
    place = the_place(old, new)
    assert (place.name, place.kind) == (name, kind)
    assert place.proof == lines_of(SOURCE.replace(old, new, 1), *wanted)


def test_a_function_that_is_added_is_proved_by_its_body_and_not_by_its_definition() -> None:
    after = SOURCE + "\n\ndef never():\n    return 2\n"
    (place,) = places(after)
    assert (place.name, place.kind) == ("never", "function")
    assert place.proof == lines_of(after, "return 2")


def test_changes_of_one_function_are_one_place_and_of_two_are_two() -> None:
    one = places(SOURCE.replace("time.sleep(0.1)", "time.sleep(0)").replace("return y\n", "return -y\n"))
    assert [place.name for place in one] == ["slow"]
    two = places(SOURCE.replace("time.sleep(0.1)", "time.sleep(0)").replace("    return 1\n", "    return 2\n"))
    assert [place.name for place in two] == ["slow", "last"]


def test_what_this_python_cannot_parse_is_taken_line_by_line() -> None:
    before = "x = 1\nmatch y z\n"
    (place,) = places("x = 2\nmatch y z\n", before)
    assert place.proof == {1}


def test_a_renamed_file_is_proved_by_any_of_its_lines() -> None:
    diff = "diff --git a/m.py b/n.py\nsimilarity index 100%\nrename from m.py\nrename to n.py\n"
    (place,) = places_of(parse(diff).files[0], SOURCE.encode())
    assert 2 in place.proof
