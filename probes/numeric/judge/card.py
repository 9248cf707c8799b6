"""A verdict in a few lines for people.

Covered: verdict, fault with its place, smallest failing case, kill rate, the tolerance with its derivation, cost.
Not covered: the JSON document (it is printed as it is).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from probes.base import Json

_WIDTH = 11


def card(document: Mapping[str, Json]) -> list[str]:
    """The lines."""
    return [f"{name:<{_WIDTH}}{text}" for name, text in _rows(document)]


def _rows(document: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    detail = document["detail"]
    yield "Verdict", f"{document['verdict']} · {document['summary']}"
    against = document["against"]
    yield "Candidate", f"{document['where']['kernel']} against {against['name']} · {detail['walls']}"
    failing = detail.get("failing_case")
    if failing:
        yield "Case", f"{failing['name']} · shapes {_shapes(failing['shapes'])}"
        if failing["smallest"]:
            yield "Smallest", failing["smallest"]
        for line in detail["fault"]["lines"][-3:]:
            yield "It said", line
    for strength in detail["strength"]:
        text = f"{strength['caught']}/{strength['made']} = {strength['rate']:.2f} under {strength['rule']}"
        survivors = strength["survivors"]
        yield "Kill rate", text + (f"; let through: {', '.join(survivors[:4])}" if survivors else "")
    for each in detail["tolerance"]:
        yield (
            "Tolerance",
            (
                f"{each['output']} {each['allowed']:.2e} = 8 x max(own error {each['own_error']:.1e}, one rounding of "
                f"the inputs {each['conditioning']:.1e}, of the result {each['result_rounding']:.1e}) "
                f"+ accumulation {each['accumulation']:.1e} ({each['terms']} terms, {each['claim']})"
            ),
        )
    yield (
        "Cost",
        f"{document['cost']['wall_s']:.2f} s, {document['cost']['requests']} calls"
        + (f" · from the cache in {document['answered_s']:.3f} s" if document.get("cached") else ""),
    )


def _shapes(shapes: Mapping[str, list[int]]) -> str:
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
