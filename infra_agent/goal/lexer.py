"""Text to tokens: characters are normalised, numbers are read exactly, everything else stays visible.

Covered: digits of every script, full-width forms, thousands separators, decimal point and unambiguous decimal comma,
fraction characters, `1/3`, `1.5k`, minus signs and ranges (as tokens that later stages refuse).
Not covered: meaning. A character that is not known becomes a token of kind `other`, never nothing.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

MAX_TEXT_LENGTH = 2000
_MAX_DIGITS = 40
_SAME = {
    "٪": "%",
    "٫": ".",
    "٬": ",",
    "،": ",",
    "、": ",",
    "。": ".",
    "×": "x",
    "✕": "x",
    "✖": "x",
    "–": "-",
    "‑": "-",
    "‐": "-",
    "−": "-",
    "—": " - ",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "µ": "μ",
    "⩽": "≤",
    "⩾": "≥",
    "≦": "≤",
    "≧": "≥",
    "·": ";",
    "•": ";",
    "\u202f": "\u00a0",
    "\u2009": "\u00a0",
}
_TOKEN = re.compile(
    r"(?P<ratio>\d+/\d+(?![\d.,]))"
    r"|(?P<num>\d{1,3}(?:\u00a0\d{3})+(?![\d.,])|\d+(?:[.,_]\d+)*|(?<![\w.])\.\d+)"
    r"|(?P<part>[¼-¾⅐-⅞])"
    r"|(?P<word>e2e(?!\w)|p\d+(?:[.,]\d+)?(?!\w)|[^\W\d_¼-¾⅐-⅞]+(?:'[^\W\d_]+)*)"
    r"|(?P<op><=|>=|=<|=>|.)",
    re.DOTALL,
)
_SEPARATORS = frozenset(",;.!?()[]{}|")
_QUOTES = frozenset("\"'`*")
_OPERATORS = frozenset(("<=", ">=", "=<", "=>", *"<>≤≥=%/+~≈&:@$"))


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `kind`: word, num, frac, op, sep, minus, bad (an unreadable number) or other."""

    kind: str
    text: str
    number: Fraction = Fraction(0)
    note: str = ""


def normalise(text: str) -> str:
    """The text in lower case, with ASCII digits and one form of each sign."""
    return "".join(_normal_char(char) for char in text).lower()


def _normal_char(char: str) -> str:
    if char in _SAME:
        return _SAME[char]
    if unicodedata.category(char) == "Nd":
        return str(unicodedata.decimal(char))
    if "\uff01" <= char <= "\uff5e":
        return chr(ord(char) - 0xFEE0)
    if unicodedata.category(char) == "Cf":
        return ""
    return char


def tokenize(text: str) -> list[Token]:
    """All tokens of the text, in order; white space and quotation marks are dropped."""
    clean = normalise(text)
    tokens: list[Token] = []
    for match in _TOKEN.finditer(clean):
        token = _token(match, clean)
        if token is None:
            continue
        glued = match.start() > 0 and clean[match.start() - 1].isdigit()
        if token.text == "k" and glued and tokens and tokens[-1].kind == "num":
            last = tokens.pop()
            token = Token("num", f"{last.text}k", last.number * 1000)
        tokens.append(token)
    return tokens


def _token(match: re.Match[str], clean: str) -> Token | None:
    text = match[0]
    if match["ratio"]:
        return _ratio(text)
    if match["num"]:
        return read_number(text)
    if match["word"]:
        return Token("word", text)
    if text.isspace() or text in _QUOTES:
        return None
    if text == "-":
        return _dash(match, clean)
    if text in _SEPARATORS:
        return Token("sep", text)
    if text in _OPERATORS:
        return Token("op", text)
    return _fraction_char(text)


def _fraction_char(text: str) -> Token:
    if unicodedata.decomposition(text).startswith("<fraction>"):
        return Token("frac", text, Fraction(unicodedata.numeric(text)).limit_denominator(10))
    return Token("other", text)


def _dash(match: re.Match[str], clean: str) -> Token | None:
    before = clean[match.start() - 1 : match.start()]
    after = clean[match.end() : match.end() + 1]
    if after.isdigit() or (after == "." and clean[match.end() + 1 : match.end() + 2].isdigit()):
        return Token("minus", f"-{after}")
    joins = (before.isalnum() or before == "%") and after.isalpha()
    return None if joins else Token("sep", "-")


def _ratio(text: str) -> Token:
    over, under = text.split("/")
    if len(text) > _MAX_DIGITS or int(under) == 0:
        return Token("bad", text, note=f"'{text}' is not a usable fraction")
    return Token("frac", text, Fraction(int(over), int(under)))


def read_number(text: str) -> Token:
    """Read one number; kind `bad` with a note when it has two readings or is out of range."""
    if sum(char.isdigit() for char in text) > _MAX_DIGITS:
        return Token("bad", text[:20], note=f"'{text[:20]}…' has more than {_MAX_DIGITS} digits")
    plain, note = text, ""
    if re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", text):
        plain = text.replace(",", "")
        note = f"'{text}' read as {plain} (comma between thousands)"
    elif re.fullmatch(r"\d{1,3}(?:[_\u00a0]\d{3})+(?:\.\d+)?", text):
        plain = re.sub(r"[_\u00a0]", "", text)
    elif re.fullmatch(r"\d+,\d+", text):
        plain = text.replace(",", ".")
        note = f"'{text}' read as {plain} (decimal comma)"
    elif not re.fullmatch(r"\d+(?:\.\d+)?|\.\d+", text) or re.fullmatch(r"[1-9]\d{0,2}\.\d00", text):
        return Token("bad", text, note=f"the number '{text}' can be read in two ways; write it without separators")
    return Token("num", text, Fraction(plain), note)
