"""The figures of bench_judge.py as Markdown, for the terminal and for docs/judge.md, where each table has its marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Figures = dict[str, Any]


def page(figures: Figures) -> str:
    """All tables, one below the other."""
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in _all(figures).values()) + "\n"


def inserted(document: str, figures: Figures) -> str:
    """The document with every marked table renewed; ValueError when a mark is missing."""
    for name, (_, text) in _all(figures).items():
        mark = re.compile(rf"(<!-- {name}: .*? -->\n).*?(\n<!-- end -->)", re.DOTALL)
        if not mark.search(document):
            raise ValueError(f"the page has no mark for {name}")
        document = mark.sub(lambda found, text=text: f"{found[1]}{text}{found[2]}", document)  # type: ignore[misc]
    return document


def _all(figures: Figures) -> dict[str, tuple[str, str]]:
    tables = {
        "looks": ("Looks and what they spend", _looks),
        "promises": ("What is promised, and what was measured", _promises),
        "errors": ("Errors and power", _errors),
        "coverage": ("Coverage of 95 % intervals at a fixed number of blocks", _coverage),
        "rules": ("Rules beside each other: how often each accepts", _rules),
        "stalling": ("Candidates that stall more than their base", _stalling),
    }
    return {name: (title, "\n".join(build(figures))) for name, (title, build) in tables.items()}


def _looks(figures: Figures) -> Iterator[str]:
    yield "| blocks | spent so far | level of this look | test and interval | estimate |"
    yield "|--:|--:|--:|---|---|"
    for row in figures["looks"]:
        few = row["blocks"] < 9
        floor = 2 if row["blocks"] == 3 else 0.1
        test = (
            f"Student's t, standard deviation at least {floor:g} %" if few else "exact Wilcoxon signed-rank, inverted"
        )
        point = "mean" if row["blocks"] == 3 else "Hodges-Lehmann"
        yield f"| {row['blocks']} | {row['spent']:.5f} | {row['level']:.5f} | {test} | {point} |"


def _promises(figures: Figures) -> Iterator[str]:
    yield "| figure | measured | one standard error | promised | holds |"
    yield "|---|--:|--:|---|---|"
    for row in figures["promises"]:
        low, high = 100 * row["low"], 100 * row["high"]
        asked = f"at most {high:g} %" if not low else f"at least {low:g} %" if high == 100 else f"{low:g} to {high:g} %"
        held = "yes" if row["holds"] else "**NO**"
        yield f"| {row['name']} | {100 * row['value']:.2f} % | {100 * row['error']:.2f} | {asked} | {held} |"


def _errors(figures: Figures) -> Iterator[str]:
    effects = [gain["effect"] for gain in figures["errors"][0]["gains"]]
    yield (
        f"Nothing changed ({figures['more_rows']} repetitions), then true gains ({figures['rows']} each): "
        "accepted / rejected / mean blocks. Percent.\n"
    )
    head = "".join(f" +{100 * (effect - 1):.0f} % |" for effect in effects)
    yield f"| world | false accept | false worse | no gain shown | blocks | interval held |{head}"
    yield "|---|" + "--:|" * (5 + len(effects))
    for row in figures["errors"]:
        cells = [row["world"] + ("" if row["promised"] else " (not promised)")]
        cells += [f"{100 * row[name]:.2f}" for name in ("false_accept", "false_worse")]
        cells += [f"{100 * row['no_gain_shown']:.0f}", f"{row['mean_blocks']:.1f}", f"{100 * row['interval_held']:.1f}"]
        cells += [
            f"{100 * g['accepted']:.0f} / {100 * g['rejected']:.1f} / {g['mean_blocks']:.1f}" for g in row["gains"]
        ]
        yield "| " + " | ".join(cells) + " |"


def _coverage(figures: Figures) -> Iterator[str]:
    yield "| world | blocks | ours | plain t | BCa bootstrap | widened bootstrap | width of ours | of the widened |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    names = ("ours", "t", "bca", "widened", "width", "widened_width")
    for row in figures["coverage"]:
        shown = " | ".join(f"{100 * row[name]:.1f}" for name in names)
        yield f"| {row['world']} | {row['blocks']} | {shown} |"


def _rules(figures: Figures) -> Iterator[str]:
    yield "| world | rule | runs | useless change | +3 % | +5 % | +10 % |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for row in figures["rules"]:
        useless, *gains = (100 * rate for rate in row["accepts"])
        found = " | ".join(f"{rate:.0f}" for rate in gains)
        rule = f"**{row['rule']}**" if row["rule"] == "this judge" else row["rule"]
        yield f"| {row['world']} | {rule} | {row['runs']} | {useless:.1f} | {found} |"


def _stalling(figures: Figures) -> Iterator[str]:
    effects = [gain["effect"] for gain in figures["stalling"][0]["gains"]]
    head = "".join(f" +{100 * (effect - 1):.0f} %: mean, accepted / rejected |" for effect in effects)
    yield f"| base stalls | candidate stalls |{head}"
    yield "|--:|--:|" + "--:|" * len(effects)
    for row in figures["stalling"]:
        cells = [f"{100 * row['base_rate']:.0f} %", f"{100 * row['candidate_rate']:.0f} %"]
        cells += [
            f"x{g['mean_effect']:.2f}, {100 * g['accepted']:.0f} / {100 * g['rejected']:.0f}" for g in row["gains"]
        ]
        yield "| " + " | ".join(cells) + " |"
