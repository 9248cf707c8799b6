"""Puts the sections into a project's own template: below the headings that ask for them, the rest after it.

Headings and check lists of the template stay as they are (a person ticks them); its comments go where something stands
in their place.

Covered: Markdown templates with `#` headings. A template without headings is an instruction: its project's known
headings are used, or our own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from infra_agent.publish.pull_request.sections import Section
from infra_agent.publish.report.format import clean

_HEADING = re.compile(r"^(#{1,4})\s+(.*?)\s*#*\s*$")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ASKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("purpose", ("purpose", "motivation", "overview", "summary", "description", "why", "what does")),
    ("change", ("modification", "change", "implementation", "what changed")),
    ("duplicate", ("duplicate", "related", "existing")),
    ("accuracy", ("accuracy", "correctness", "quality", "test result", "results", "evaluation")),
    ("micro", ("benchmark", "profiling", "performance", "speed", "test result", "results")),
    ("end_to_end", ("benchmark", "profiling", "performance", "speed", "test result", "results")),
    ("tests", ("test plan", "testing", "how was this tested", "how has this been tested", "unit test", "tests")),
    ("environment", ("test plan", "environment", "reproduc", "testing", "commands")),
    ("limits", ("limitation", "where it does not", "drawback", "known issue")),
    ("ai", ("ai usage", "ai assistance", "disclosure", "requirements")),
    ("human", ("human",)),
)
"""Which words of a heading ask for a section; the first heading that has one of them gets it."""
_ALIKE = {"micro": "Micro-benchmarks", "end_to_end": "End to end"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A heading of the template with the text below it."""

    heading: str
    level: int
    text: str


def parts_of(template: str) -> list[Part]:
    """The template's headings; what stands before the first is left out."""
    found: list[Part] = []
    bare = _COMMENT.sub(lambda match: match[0].replace("#", "\u0000"), template)
    for line in bare.splitlines():
        match = _HEADING.match(line)
        if match:
            found.append(Part(heading=clean(match[2]), level=len(match[1]), text=""))
        elif found:
            last = found[-1]
            found[-1] = Part(heading=last.heading, level=last.level, text=f"{last.text}{line}\n".replace("\u0000", "#"))
    return found


def arrange(sections: Sequence[Section], template: str = "", headings: Sequence[str] = ()) -> str:
    """The body. `headings`: the project's own, for a template that has none."""
    parts = parts_of(template) or [Part(heading=heading, level=2, text="") for heading in headings]
    placed: dict[int, list[Section]] = {}
    rest: list[Section] = []
    for section in sections:
        at = _place(section, parts)
        if at is None:
            rest.append(section)
        else:
            placed.setdefault(at, []).append(section)
    lines: list[str] = []
    for index, part in enumerate(parts):
        lines += [f"{'#' * part.level} {part.heading}", "", *_below(part, placed.get(index, []))]
    for section in rest:
        lines += [f"## {section.title}", "", *section.lines, ""]
    return "\n".join(lines).rstrip() + "\n"


def _place(section: Section, parts: Sequence[Part]) -> int | None:
    wanted = dict(_ASKS).get(section.key, ())
    for word in wanted:
        for index, part in enumerate(parts):
            if word in part.heading.lower() and "checklist" not in part.heading.lower():
                return index
    return None


def _below(part: Part, sections: Sequence[Section]) -> list[str]:
    own = _COMMENT.sub("", part.text) if sections else part.text
    kept = [line for line in clean(own.strip(), 8000).split("\n") if line.strip()]
    lines: list[str] = []
    for section in sections:
        if len(sections) > 1 or section.key in _ALIKE:
            lines += [f"{'#' * min(part.level + 1, 6)} {section.title}", ""]
        lines += [*section.lines, ""]
    return [*lines, *kept, *([""] if kept else [])]
