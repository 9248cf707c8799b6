"""Risk class of a code change: every rule by its own examples, then what no single rule can show."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra_agent.review.code_diff import differences, parse_source
from infra_agent.review.code_risk import ChangedFile, Surroundings, code_risk, imports_numbers
from infra_agent.review.code_rules import RULES, Rule
from infra_agent.review.risk import STRICTNESS, derive_risk
from infra_agent.stack.engines.base import RiskClass

PLAIN = Surroundings(numeric=False)
NUMERIC = Surroundings(numeric=True)
EXAMPLES = [(rule, before, after, True) for rule in RULES for before, after in rule.match] + [
    (rule, before, after, False) for rule in RULES for before, after in rule.differ
]


def wrapped(code: str) -> str:
    """Statements inside a private function: what stands at module level has rules of its own."""
    if code.startswith(("def ", "async def ", "@")):
        return f"class _C:\n{textwrap.indent(code, '    ')}\n"
    return f"def _f():\n{textwrap.indent(code, '    ')}\n"


def reasons(
    before: str, after: str, sources: Surroundings = PLAIN, path: str = "app.py"
) -> list[tuple[RiskClass, str]]:
    return list(code_risk([ChangedFile(path=path, was=path, before=before.encode(), after=after.encode())], sources))


def strictest(before: str, after: str, sources: Surroundings = PLAIN) -> RiskClass:
    found = derive_risk([], [], reasons(textwrap.dedent(before), textwrap.dedent(after), sources))
    assert found.reasons
    return found.risk


@pytest.mark.parametrize(("rule", "before", "after", "expected"), EXAMPLES)
def test_each_rule_finds_its_examples_and_leaves_the_others(
    rule: Rule, before: str, after: str, expected: bool
) -> None:
    found = reasons(wrapped(before), wrapped(after), NUMERIC if rule.numeric_only else PLAIN)
    mine = [why for risk, why in found if risk is rule.risk and why.endswith(rule.why)]
    assert bool(mine) is expected, found


def test_every_rule_has_examples_of_both_kinds() -> None:
    assert all(rule.match and rule.differ for rule in RULES)


def test_all_gated_classes_of_the_table_have_a_rule() -> None:
    assert {rule.risk for rule in RULES} == {
        RiskClass.NUMERICS, RiskClass.CONCURRENCY, RiskClass.MEMORY, RiskClass.PRODUCTION,
    }  # fmt: skip


SERVER = """
import time
from http.server import BaseHTTPRequestHandler

DELAY_S = 0.05


class Handler(BaseHTTPRequestHandler):
    def answer(self, prompt):
        '''Says it.'''
        time.sleep(DELAY_S)
        return prompt.upper()


def _reply(prompt, n=2):
    return prompt * n
"""

CHANGES = {
    "a comment": ("time.sleep(DELAY_S)", "time.sleep(DELAY_S)  # slow", RiskClass.ROUTINE),
    "a docstring": ("'''Says it.'''", "'''Says it loud.'''", RiskClass.ROUTINE),
    "a docstring gone": ("        '''Says it.'''\n", "", RiskClass.ROUTINE),
    "a sleep gone": ("        time.sleep(DELAY_S)\n", "", RiskClass.ROUTINE),
    "another answer": ("prompt.upper()", "prompt.lower()", RiskClass.ROUTINE),
    "a private function's signature": ("n=2", "n=3", RiskClass.ROUTINE),
    "a new private helper": ("def _reply", "def _more(x):\n    return x\n\n\ndef _reply", RiskClass.ROUTINE),
    "a standard import": ("import time\n", "import time\nimport re\n", RiskClass.ROUTINE),
    "a default": ("DELAY_S = 0.05", "DELAY_S = 0", RiskClass.PRODUCTION),
    "a public signature": ("def answer(self, prompt)", "def answer(self, prompt, n=1)", RiskClass.PRODUCTION),
    "a public function renamed": ("def answer(", "def reply(", RiskClass.PRODUCTION),
    "a decorator": ("    def answer", "    @property\n    def answer", RiskClass.PRODUCTION),
    "a new dependency": ("import time\n", "import time\nimport orjson\n", RiskClass.PRODUCTION),
    "a base class": ("(BaseHTTPRequestHandler)", "(object)", RiskClass.PRODUCTION),
    "a class attribute": (
        "    def answer",
        "    protocol_version = 'HTTP/1.1'\n\n    def answer",
        RiskClass.PRODUCTION,
    ),
    "threads by import": ("import time\n", "import time\nimport threading\n", RiskClass.CONCURRENCY),
    "a module that computes": ("prompt * n", "prompt * int(n / 1)", RiskClass.ROUTINE),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_of_a_plain_server_has_the_class_of_the_design(case: str) -> None:
    old, new, expected = CHANGES[case]
    assert old in SERVER
    assert strictest(SERVER, SERVER.replace(old, new, 1)) is expected


def test_a_line_that_leaves_a_lock_is_concurrency_though_its_words_are_the_same() -> None:
    before = "class A:\n    def f(self):\n        with self._lock:\n            x = g()\n            y = h()\n"
    after = "class A:\n    def f(self):\n        with self._lock:\n            x = g()\n        y = h()\n"
    assert strictest(before, after) is RiskClass.CONCURRENCY


def test_a_lock_is_known_by_what_it_holds_not_by_what_it_is_called() -> None:
    head = "class A:\n    def __init__(self):\n        self._turn = threading.Lock()\n\n"
    before = head + "    def _f(self):\n        with self._turn:\n            x = g()\n"
    assert strictest(before, before.replace("g()", "h()")) is RiskClass.CONCURRENCY


def test_a_line_that_leaves_any_with_block_is_concurrency() -> None:
    before = "def _f(self):\n    with self.turn:\n        x = g()\n        y = h()\n"
    after = "def _f(self):\n    with self.turn:\n        x = g()\n    y = h()\n"
    assert strictest(before, after) is RiskClass.CONCURRENCY
    assert strictest(before, before.replace("h()", "k()")) is RiskClass.ROUTINE


def test_every_line_of_a_coroutine_is_concurrency() -> None:
    before = "async def _h():\n    if x:\n        y = f()\n"
    assert strictest(before, before.replace("f()", "g()")) is RiskClass.CONCURRENCY


def test_statements_that_change_places_are_a_difference() -> None:
    assert strictest("def _f():\n    a()\n    lock.release()\n", "def _f():\n    lock.release()\n    a()\n") is (
        RiskClass.CONCURRENCY
    )


def test_the_line_of_a_compiled_kernel_is_numerics_whatever_its_words() -> None:
    before = "@triton.jit\ndef _k(p):\n    x = load(p)\n    store(p, x)\n"
    assert strictest(before, before.replace("load(p)", "load(p + 0)")) is RiskClass.NUMERICS


def test_arithmetic_is_numerics_only_where_the_sources_compute_with_tensors() -> None:
    before, after = "def _f(a, b):\n    return a * b\n", "def _f(a, b):\n    return b * a\n"
    assert strictest(before, after, PLAIN) is RiskClass.ROUTINE
    assert strictest(before, after, NUMERIC) is RiskClass.NUMERICS
    assert strictest(f"import torch\n{before}", f"import torch\n{after}", PLAIN) is RiskClass.NUMERICS


@pytest.mark.parametrize(
    ("path", "was", "before", "after"),
    [
        ("kernel.cu", "kernel.cu", b"a", b"b"),
        ("README.md", "README.md", b"a", b"b"),
        ("requirements.txt", "requirements.txt", b"a", b"b"),
        ("setup.py", "setup.py", b"a = 1", b"a = 2"),
        ("app.py", "app.py", b"a = (", b"a = 1"),
        ("app.py", "app.py", b"a = 1", b"\0"),
        ("app.py", "app.py", b"def f(): pass", None),
        ("new.py", "app.py", b"def f(): pass", b"def f(): pass"),
        ("pkg/json.py", "pkg/json.py", None, b"def f(): pass"),
        ("app.py", "app.sh", b"x", b"x = 1"),
        ("app.py", "app.py", b"x = 1", b"x = " + b"(" * 4000),
    ],
)
def test_what_cannot_be_told_or_moves_waits_for_a_person(
    path: str, was: str, before: bytes | None, after: bytes | None
) -> None:
    found = code_risk([ChangedFile(path=path, was=was, before=before, after=after)], PLAIN)
    risk = derive_risk([], [], found)
    assert risk.risk is RiskClass.PRODUCTION
    assert risk.gated


def test_a_new_module_of_plain_code_is_routine_and_its_own_import_is_no_dependency() -> None:
    new = ChangedFile(path="fast.py", was="fast.py", before=None, after=b"LIMITS = 0\n\n\ndef fast(x):\n    return x\n")
    plain = ChangedFile(
        path="fast.py", was="fast.py", before=None, after=b"TABLE = {}\n\n\ndef fast(x):\n    return x\n"
    )
    assert derive_risk([], [], code_risk([plain], PLAIN)).risk is RiskClass.ROUTINE
    assert derive_risk([], [], code_risk([new], PLAIN)).risk is RiskClass.PRODUCTION
    before, after = "import time\n", "import time\nfrom fast import fast\n"
    assert strictest(before, after) is RiskClass.PRODUCTION
    assert strictest(before, after, Surroundings(numeric=False, own_modules=frozenset({"fast"}))) is RiskClass.ROUTINE


def test_the_strictest_of_several_files_wins_and_each_reason_names_its_line() -> None:
    quiet = ChangedFile(path="a.py", was="a.py", before=b"# x\n", after=b"# y\n")
    loud = ChangedFile(path="b.py", was="b.py", before=b"def f():\n    pass\n", after=b"def f():\n    x.half()\n")
    found = derive_risk([], [], code_risk([quiet, loud], PLAIN))
    assert found.risk is RiskClass.NUMERICS
    assert found.reasons[0].startswith("b.py:2 ")
    assert any("a.py" in reason for reason in found.reasons)


def test_libraries_that_compute_are_seen_in_any_import() -> None:
    assert imports_numbers(b"import os\nfrom torch import nn\n")
    assert imports_numbers(b"def f():\n    import numpy as np\n")
    assert not imports_numbers(b"# import torch\nimport torchless\n")


WORDS = st.sampled_from(["x", "lock", "dtype", "cache", "limit", "y"])
STATEMENTS = st.recursive(
    st.builds("{} = {}({})\n".format, WORDS, WORDS, WORDS),
    lambda inner: st.builds(
        lambda head, body: f"{head}:\n" + textwrap.indent("".join(body), "    "),
        st.sampled_from(["if x", "with y", "for x in y", "def f(x)", "async def g(y)", "class C", "while x"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)
PROGRAMS = st.lists(STATEMENTS, max_size=5).map("".join)


@settings(max_examples=300, deadline=None)
@given(before=PROGRAMS, after=PROGRAMS)
def test_no_difference_that_python_would_execute_is_missed(before: str, after: str) -> None:
    old, new = parse_source(before.encode()), parse_source(after.encode())
    assert old is not None
    assert new is not None
    assert bool(differences(old, new)) == (ast.dump(old) != ast.dump(new))
    found = reasons(before, after)
    assert found
    assert {risk for risk, _ in found} <= set(STRICTNESS)
