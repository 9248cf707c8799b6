"""Secrets are masked wherever they stand, as they are or encoded; harmless text stays as it is."""

from __future__ import annotations

import base64
import html
import json
import shlex
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from infra_agent.redact.masker import NO_SECRETS, SHORTEST, Masker
from infra_agent.redact.stream import MaskedStream
from probes.clean import strip

pytestmark = pytest.mark.requirement("S1")
PLAIN = "sk-canary-0123456789abcdef"
AWKWARD = "p@ss w/rd+\"quo'te\\x&<é>"
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "json": lambda s: json.dumps(s)[1:-1],
    "json in json in json": lambda s: json.dumps(json.dumps(json.dumps(s))),
    "json, not ascii": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "address": lambda s: urllib.parse.quote(s, safe=""),
    "address, slashes left": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "lower-case address": lambda s: urllib.parse.quote(s, safe="").lower() if s.lower() == s else s,
    "page": html.escape,
    "shell": shlex.quote,
    "python": repr,
    "python bytes": lambda s: repr(s.encode()),
    "hexadecimal": lambda s: s.encode().hex(),
    "HEXADECIMAL": lambda s: s.encode().hex().upper(),
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "basic auth": lambda s: base64.b64encode(f"user:{s}".encode()).decode(),
    "base64 inside": lambda s: base64.b64encode(f"ab{s}and more".encode()).decode(),
    "base64 of addresses": lambda s: base64.urlsafe_b64encode(f"u:{s}".encode()).decode(),
    "base64 in an address": lambda s: urllib.parse.quote(base64.b64encode(s.encode()), safe=""),
}


def core(form: str) -> str:
    """A piece of a form that must not be left: its middle third."""
    third = len(form) // 3
    return form[third : 2 * third]


@pytest.mark.parametrize("secret", [PLAIN, AWKWARD])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_secret_is_masked(name: str, secret: str) -> None:
    form = FORMS[name](secret)
    masker = Masker([secret])
    text = f'{{"said": "{form}", "x": 1}}'
    for masked in (masker.text(text), masker.data(text.encode()).decode()):
        assert core(form) not in masked
        assert "***" in masked
        assert masked.startswith('{"said": "')
        assert masked.endswith('", "x": 1}')


@pytest.mark.parametrize("glue", ["\x1b[0m", "\u200b", "\u202e", "\x08", "\x00", "\U000e0041", "\u034f"])
def test_a_secret_cut_up_by_what_cannot_be_seen_is_masked(glue: str) -> None:
    masker = Masker([PLAIN])
    hidden = f"key: {glue.join(PLAIN)} end"
    for masked in (masker.text(hidden), masker.data(hidden.encode()).decode()):
        assert PLAIN not in strip(masked)
        assert masked == "key: *** end"


def test_the_lines_of_a_secret_of_several_lines_are_secrets() -> None:
    masker = Masker([PEM])
    assert "MIIEvQIB" not in masker.text("key\n  MIIEvQIBADANBgkqhkiG9w0B\n")
    assert "AQEFAASC" not in masker.text(json.dumps({"key": PEM}))
    assert masker.text(base64.b64encode(PEM.strip().encode()).decode()).count("*") >= 3


def test_the_longer_of_two_secrets_is_masked_whole() -> None:
    assert Masker([PLAIN, PLAIN + "-and-more"]).text(f"<{PLAIN}-and-more>") == "<***>"


def test_a_tree_is_masked_in_keys_and_values_and_keeps_its_form() -> None:
    tree = {PLAIN: [1, True, None, 2.5, PLAIN], "b": {"c": (PLAIN, "x")}, "n": 12345678}
    assert Masker([PLAIN, "12345678"]).value(tree) == {
        "***": [1, True, None, 2.5, "***"], "b": {"c": ("***", "x")}, "n": 12345678,
    }  # fmt: skip


def test_two_secrets_as_keys_do_not_become_one() -> None:
    masked = Masker(["first-secret", "second-secret"]).value({"first-secret": 1, "second-secret": 2})
    assert sorted(masked.values()) == [1, 2]


def test_without_secrets_nothing_is_touched() -> None:
    text = f"\x1b[0m{PLAIN}"
    assert NO_SECRETS.text(text) is text
    assert not NO_SECRETS
    assert not Masker(["short", "   "])
    assert repr(Masker([PLAIN])) == "Masker(1 secrets)"


def test_more_secrets_make_another_masker() -> None:
    first = Masker([PLAIN])
    second = first.adding(["another-secret"])
    assert first.text("another-secret") == "another-secret"
    assert second.text(f"another-secret {PLAIN}") == "*** ***"
    assert second.adding([PLAIN]) is second


SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=SHORTEST, max_size=60).filter(
    lambda text: len(text.strip()) >= SHORTEST and len(text.strip().splitlines()) == 1 and strip(text) == text
)


@settings(max_examples=300, deadline=None)
@given(SECRETS, st.text(max_size=30), st.text(max_size=30))
def test_any_secret_anywhere_is_masked(secret: str, before: str, after: str) -> None:
    value = secret.strip()
    assume("*" not in value)
    assert value not in Masker([secret]).text(f"{before} {value} {after}")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_text_without_the_secret_stays_as_it_is(text: str) -> None:
    assume("canary" not in text)
    assert Masker([PLAIN, AWKWARD]).text(text) == text


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([PLAIN, AWKWARD, "plain words ", "\n", "x" * 50, "é", "\r"]), max_size=12).map("".join),
    st.lists(st.integers(1, 40), max_size=60),
)
def test_a_stream_read_in_pieces_is_masked_like_the_whole(text: str, sizes: list[int]) -> None:
    masker, data = Masker([PLAIN, AWKWARD]), text.encode()
    stream, parts = MaskedStream(masker), []
    for size in sizes:
        parts.append(stream.feed(data[:size]))
        data = data[size:]
    parts += [stream.feed(data), stream.flush()]
    assert b"".join(parts).decode() == masker.text(text)


def test_a_stream_without_line_ends_goes_on_and_does_not_grow() -> None:
    stream = MaskedStream(Masker([PLAIN]))
    out = b"".join(stream.feed(b"0123456789" * 100) for _ in range(100))
    assert len(out) > 90_000
    assert len(stream.held()) < 4 * Masker([PLAIN]).longest_bytes


def test_a_secret_at_the_edge_of_a_long_line_is_still_found() -> None:
    masker = Masker([PLAIN])
    for lead in range(0, 3000, 7):
        stream = MaskedStream(masker)
        data = b"x" * lead + PLAIN.encode() + b"y" * 3000
        out = stream.feed(data[: lead + 5]) + stream.feed(data[lead + 5 :]) + stream.flush()
        assert b"canary" not in out
