"""Numbers and fractions written as words: "twenty-five", "two hundred", "a third", "one and a half", "half a dozen".

Covered: zero to 999 999, halves, thirds, quarters, fifths, tenths, "single".
Not covered: vague amounts ("a few", "a couple of"), ordinals.
"""

from __future__ import annotations

from fractions import Fraction

from infra_agent.goal.lexer import Token

_SMALL_WORDS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_TENS_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_SMALL_WORDS.split())} | {"single": 1}
_TENS = {word: 10 * value for value, word in enumerate(_TENS_WORDS.split(), start=2)}
_LARGE = {"dozen": 12, "hundred": 100, "thousand": 1000}
_PARTS = {
    "half": Fraction(1, 2),
    "third": Fraction(1, 3),
    "thirds": Fraction(1, 3),
    "quarter": Fraction(1, 4),
    "quarters": Fraction(1, 4),
    "fifth": Fraction(1, 5),
    "fifths": Fraction(1, 5),
    "tenth": Fraction(1, 10),
    "tenths": Fraction(1, 10),
}


def read_numerals(tokens: list[Token]) -> list[Token]:
    """The tokens with every run of number words replaced by one `num` or `frac` token."""
    out: list[Token] = []
    index = 0
    while index < len(tokens):
        found = _fraction(tokens, index) or _cardinal(tokens, index)
        if found is None:
            out.append(tokens[index])
            index += 1
            continue
        token, index = found
        out.append(token)
    return _join_halves(out)


def _word(tokens: list[Token], index: int) -> str:
    return tokens[index].text if index < len(tokens) and tokens[index].kind == "word" else ""


def _fraction(tokens: list[Token], index: int) -> tuple[Token, int] | None:
    first = _word(tokens, index)
    if first in _PARTS:
        return Token("frac", first, _PARTS[first]), index + 1
    second = _word(tokens, index + 1)
    if second not in _PARTS or (first not in ("a", "one") and not second.endswith("s")):
        return None
    count = 1 if first == "a" else _SMALL.get(first, 0)
    if not count:
        return None
    return Token("frac", f"{first} {second}", count * _PARTS[second]), index + 2


def _cardinal(tokens: list[Token], index: int) -> tuple[Token, int] | None:
    start, total, group, read = index, 0, 0, False
    if _word(tokens, index) in ("a", "an") and _word(tokens, index + 1) in _LARGE:
        group, index = 1, index + 1
    while True:
        word = _word(tokens, index)
        if word in _SMALL and group % 10 == 0 and group % 100 in (0, 20, 30, 40, 50, 60, 70, 80, 90):
            if read and (_SMALL[word] == 0 or (_SMALL[word] >= 10 and group % 100)):
                break
            group += _SMALL[word]
        elif word in _TENS and group % 100 == 0:
            group += _TENS[word]
        elif word in _LARGE and group:
            if word == "thousand":
                total, group = total + group * 1000, 0
            else:
                group *= _LARGE[word]
        elif word == "and" and group and group % 100 == 0 and _word(tokens, index + 1) in _SMALL | _TENS:
            index += 1
            continue
        else:
            break
        read = True
        index += 1
    if not read:
        return None
    words = " ".join(token.text for token in tokens[start:index])
    return Token("num", words, Fraction(total + group)), index


def _join_halves(tokens: list[Token]) -> list[Token]:
    """Read "one and a half" and "1½" as one number."""
    out: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        rest = tokens[index + 1 : index + 3]
        if token.kind == "num" and rest and _word(tokens, index + 1) == "and" and rest[-1].kind == "frac":
            if rest[-1].text in ("a half", "a quarter", "one half"):
                out.append(Token("num", f"{token.text} and {rest[-1].text}", token.number + rest[-1].number))
                index += 3
                continue
        elif token.kind == "num" and rest and rest[0].kind == "frac" and len(rest[0].text) == 1:
            out.append(Token("num", token.text + rest[0].text, token.number + rest[0].number))
            index += 2
            continue
        out.append(token)
        index += 1
    return out
