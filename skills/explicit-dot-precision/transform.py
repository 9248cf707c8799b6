"""States the precision of named `tl.dot` calls: three TF32 products where the hardware has them, else full float32.

The patched module decides when a kernel is compiled, for the device that it is compiled for: `tf32x3` on NVIDIA devices
of compute capability 8.0 and later, `ieee` on all others (where `tf32x3` is a compile error or means nothing).

Covered: any module that imports `triton` and `triton.language`; calls over several lines; a precision that was stated
before (by name or position) is replaced; several files at once; a second run on patched sources proposes nothing.
Not covered: Triton before 3.5 (it has neither `constexpr_function` nor `target_info`); `a @ b` in place of `tl.dot`.

Alone: `python transform.py TREE FILE:LINE[:COLUMN] ...` prints the diff. Needs the standard library only.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RULE = "float32_product_precision"
_HELPER = f'''
@{{triton}}.constexpr_function
def {RULE}():
    """Three TF32 products on NVIDIA from compute capability 8.0 on; full float32 where there is no tf32x3."""
    return "tf32x3" if cuda_capability_geq(8) else "ieee"

'''
_IMPORT = "from triton.language.target_info import cuda_capability_geq"
_POSITION = 3
"""Of `input_precision` among the arguments of `tl.dot`; `allow_tf32` comes next."""


class Unfit(ValueError):
    """A site or a module that this transformation does not fit; the message says why."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A call site: the file below the tree, its line, and its column (from 0) where the line has several calls."""

    file: str
    line: int
    column: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    """Replace the text between two offsets."""

    start: int
    end: int
    text: str


def propose(tree: Path, sites: Iterable[Place | Mapping[str, Any]]) -> list[str]:
    """One unified diff per file (paths below `tree`, a/ and b/ in front), empty where nothing is left to do.

    A site is a Place or a mapping with `file`, `line` and perhaps `column`; absolute files must lie below the tree.
    Raises Unfit when there is no `tl.dot` at a site, or the module cannot hold the rule.
    """
    places: dict[Path, set[Place]] = defaultdict(set)
    for site in sites:
        place = _place(tree, site)
        places[Path(place.file)].add(place)
    diffs = []
    for file in sorted(places):
        before = (tree / file).read_text(encoding="utf-8")
        after = rewritten(before, sorted(places[file], key=lambda place: (place.line, place.column or 0)), str(file))
        if after != before:
            diffs.append(_diff(file.as_posix(), before, after))
    return diffs


def rewritten(source: str, places: Iterable[Place], name: str = "the module") -> str:
    """The module with the rule in it, and the precision stated at these places."""
    module = ast.parse(source)
    offsets = _Offsets(source)
    edits: set[_Edit] = set()
    for place in places:
        for call in _calls_at(module, offsets, place):
            edits.add(_stated(call, offsets))
    edits = {edit for edit in edits if source[edit.start : edit.end] != edit.text}
    if not edits:
        return source
    if not _has_rule(module):
        edits |= _rule(module, offsets, name)
    for edit in sorted(edits, reverse=True):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source


class _Offsets:
    """From the line and byte column of a syntax tree to an offset in the text."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """Offset of a position; lines count from 1, columns in bytes from 0."""
        if line > len(self.lines):
            return self.starts[-1]
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def of(self, node: Any) -> tuple[int, int]:
        """First and last offset of a node."""
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)


def _place(tree: Path, site: Place | Mapping[str, Any]) -> Place:
    found = site if isinstance(site, Place) else Place(site["file"], int(site["line"]), site.get("column"))
    file = Path(found.file)
    if file.is_absolute():
        try:
            file = file.resolve().relative_to(tree.resolve())
        except ValueError:
            raise Unfit(f"{file} does not lie below {tree}") from None
    if ".." in file.parts or not (tree / file).is_file():
        raise Unfit(f"there is no file {file} below {tree}")
    return Place(file.as_posix(), found.line, found.column)


def _calls_at(module: ast.Module, offsets: _Offsets, place: Place) -> list[ast.Call]:
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and _is_dot(node.func)]
    begun = [call for call in calls if call.lineno == place.line]
    here = [call for call in begun if place.column in (None, offsets.of(call)[0] - offsets.at(call.lineno, 0))]
    if not here:
        # A column counted in a source that was dedented differs; a line with a single call leaves no doubt.
        here = begun if len(begun) == 1 else []
    if not here:
        where = place.file if place.column is None else f"{place.file}, column {place.column}"
        raise Unfit(f"no tl.dot begins at line {place.line} of {where}")
    return here


def _is_dot(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "dot" and isinstance(function.value, ast.Name)


def _stated(call: ast.Call, offsets: _Offsets) -> _Edit:
    for keyword in call.keywords:
        if keyword.arg in ("input_precision", "allow_tf32"):
            return _Edit(*offsets.of(keyword), f"input_precision={RULE}()")
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords):
        raise Unfit(f"line {call.lineno}: the arguments of this tl.dot are not all written out")
    if len(call.args) > _POSITION:
        first, last = call.args[_POSITION], call.args[min(len(call.args) - 1, _POSITION + 1)]
        if len(call.args) > _POSITION + 2:
            raise Unfit(f"line {call.lineno}: this tl.dot gives more than its precision by position")
        return _Edit(offsets.of(first)[0], offsets.of(last)[1], f"input_precision={RULE}()")
    last = max([*call.args, *call.keywords], key=lambda node: offsets.of(node)[1])
    end = offsets.of(last)[1]
    return _Edit(end, end, f", input_precision={RULE}()")


def _has_rule(module: ast.Module) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == RULE for node in module.body)


def _rule(module: ast.Module, offsets: _Offsets, name: str) -> set[_Edit]:
    """The import behind the last one of Triton, the function before the module's first definition."""
    imports = [node for node in module.body if isinstance(node, ast.Import)]
    aliases = [(node, alias) for node in imports for alias in node.names]
    triton = next((alias.asname or alias.name for _, alias in aliases if alias.name == "triton"), None)
    if triton is None:
        raise Unfit(f"{name} does not import triton, so it cannot hold the rule for its devices")
    last = max((node for node, alias in aliases if alias.name.startswith("triton")), key=lambda node: node.lineno)
    behind = offsets.at((last.end_lineno or last.lineno) + 1, 0)
    found = {_Edit(behind, behind, f"{_IMPORT}\n")}
    first = next((node for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)), None)
    if first is None or first.lineno <= last.lineno:
        raise Unfit(f"{name} imports triton behind its first definition")
    begin = offsets.at(min([first.lineno, *(one.lineno for one in first.decorator_list)]), 0)
    found.add(_Edit(begin, begin, _HELPER.format(triton=triton).lstrip("\n") + "\n"))
    return found


def _diff(file: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{file}", f"b/{file}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def main(arguments: list[str]) -> int:
    """Print the diff for sites given as FILE:LINE or FILE:LINE:COLUMN."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python transform.py TREE FILE:LINE[:COLUMN] ...\n")
        return 2
    try:
        places = []
        for text in arguments[1:]:
            file, *numbers = text.split(":")
            places.append(Place(file, *(int(number) for number in numbers)))
        sys.stdout.write("".join(propose(Path(arguments[0]), places)))
    except (Unfit, OSError, SyntaxError, TypeError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
