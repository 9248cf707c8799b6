"""C++ source made ready for the parser: project macros expanded, CUDA launches and CPython's thread macros rewritten.

Every line keeps its number: an expansion stands on the line of its use, and a use over several lines is followed by as
many line ends. Covered: object-like and function-like macros of the scanned files, `#`, `##`, `__VA_ARGS__`, nesting.
Not covered: macros of headers that are not scanned, `#undef`, conditional definitions (the last one wins).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

LONGEST_EXPANSION = 20_000
DEEPEST = 12
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\\r?\n|\\.)*)
      | (?P<string>R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
      | (?P<word>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\(([^)]*)\))?[ \t]*(.*)$", re.DOTALL)
_LAUNCHED = re.compile(r"[A-Za-z_][\w:]*(?:<[^<>;{}()]{0,200}>)?\s*$")
_LONGEST_CONFIGURATION = 2_000
_CODE = re.compile(r"[({;:]|<.*>|\b(?:while|for|if|return|release|acquire)\b|\bgil", re.IGNORECASE)
_THREADS = {
    "Py_BEGIN_ALLOW_THREADS": "{ PyEval_SaveThread();",
    "Py_END_ALLOW_THREADS": "PyEval_RestoreThread(0); }",
    "Py_BLOCK_THREADS": "PyEval_RestoreThread(0);",
    "Py_UNBLOCK_THREADS": "PyEval_SaveThread();",
    "Py_RETURN_NONE": "return Py_NewRef(Py_None)",
    "Py_RETURN_TRUE": "return Py_NewRef(Py_True)",
    "Py_RETURN_FALSE": "return Py_NewRef(Py_False)",
}
LAUNCH_CALL = "launch_of_a_kernel_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """One `#define`; `parameters` is None for a macro without parentheses."""

    name: str
    parameters: tuple[str, ...] | None
    body: str


def macros_of(text: str) -> dict[str, Macro]:
    """The macros that a file defines and whose body is code; plain constants stay names."""
    found = {}
    for match in _TOKEN.finditer(text):
        definition = _DEFINE.match(match["directive"] or "")
        if definition is None:
            continue
        name, bracket, parameters, body = definition.groups()
        body = re.sub(r"\\\r?\n", " ", re.sub(r"//[^\n]*|/\*.*?\*/", "", body, flags=re.DOTALL)).strip()
        if name in _THREADS or not _CODE.search(body):
            continue
        names = tuple(part.strip() for part in (parameters or "").split(",") if part.strip())
        found[name] = Macro(name=name, parameters=names if bracket else None, body=body)
    return found


def prepare(text: str, macros: Mapping[str, Macro]) -> str:
    """The text as the parser should see it, line for line."""
    return _launches(_expand(text, macros, frozenset()))


def _launches(text: str) -> str:
    """`kernel<<<grid, block>>>(x)` as an ordinary call."""
    parts, at = [], 0
    while (start := text.find("<<<", at)) >= 0:
        end = text.find(">>>", start, start + _LONGEST_CONFIGURATION)
        name = _LAUNCHED.search(text, max(at, start - 300), start)
        if end < 0 or name is None or ";" in text[start:end]:
            parts.append(text[at : start + 3])
            at = start + 3
            continue
        parts += [text[at : name.start()], LAUNCH_CALL, "\n" * text.count("\n", name.start(), end)]
        at = end + 3
    return "".join([*parts, text[at:]])


def _expand(text: str, macros: Mapping[str, Macro], inside: frozenset[str]) -> str:
    parts: list[str] = []
    at = 0
    for match in _TOKEN.finditer(text):
        if match.start() < at or match["word"] is None:
            continue
        word = match["word"]
        if word in _THREADS:
            parts += [text[at : match.start()], _THREADS[word]]
            at = match.end()
            continue
        macro = macros.get(word)
        if macro is None or word in inside or len(inside) >= DEEPEST:
            continue
        end, arguments = match.end(), None
        if macro.parameters is not None:
            arguments, end = _arguments(text, match.end())
            if arguments is None:
                continue
        body = _substitute(macro, [_expand(part, macros, inside) for part in arguments or []], arguments or [])
        if len(body) > LONGEST_EXPANSION:
            continue
        body = _expand(body, macros, inside | {word})
        parts += [text[at : match.start()], body.replace("\n", " "), "\n" * text.count("\n", match.start(), end)]
        at = end
    return "".join([*parts, text[at:]])


def _arguments(text: str, at: int) -> tuple[list[str] | None, int]:
    """The comma-separated arguments that begin at the next parenthesis, and where they end."""
    while at < len(text) and text[at] in " \t\n":
        at += 1
    if at >= len(text) or text[at] != "(":
        return None, at
    parts: list[str] = []
    depth, start = 0, at + 1
    for index, character in _characters(text, at):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return [*parts, text[start:index]], index + 1
        if character == "," and depth == 1:
            parts.append(text[start:index])
            start = index + 1
    return None, at


def _characters(text: str, at: int) -> Iterator[tuple[int, str]]:
    """Characters outside strings and comments."""
    skip = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'", re.DOTALL)
    while at < len(text):
        match = skip.match(text, at)
        if match:
            at = match.end()
            continue
        yield at, text[at]
        at += 1


def _substitute(macro: Macro, expanded: list[str], raw: list[str]) -> str:
    if macro.parameters is None:
        return macro.body
    values: dict[str, tuple[str, str]] = {}
    for index, name in enumerate(macro.parameters):
        if name.endswith("..."):
            key = name.removesuffix("...").strip() or "__VA_ARGS__"
            values[key] = (", ".join(expanded[index:]), ", ".join(raw[index:]))
        else:
            values[name] = (expanded[index], raw[index]) if index < len(raw) else ("", "")

    def replace(match: re.Match[str]) -> str:
        if match["string"] or match["paste"]:
            return match["string"] or ""
        name = match["quoted"] or match["word"]
        if name not in values:
            return match[0]
        full, plain = values[name]
        return '"' + plain.strip().replace("\\", "\\\\").replace('"', '\\"') + '"' if match["quoted"] else full.strip()

    pattern = r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<paste>\s*\#\#\s*)|(?<!\#)\#\s*(?P<quoted>\w+)|(?P<word>[A-Za-z_]\w*)'
    return re.sub(pattern, replace, macro.body)
