from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra_agent.harness.experiment.document import BadDocument, ProbeDocument, ResultDocument, read_document

FIGURE = {"name": "error", "unit": "1", "value": 1e-7}


def written(folder: Path, document: Any) -> Path:
    path = folder / "result.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_samples_give_their_median_and_count(tmp_path: Path) -> None:
    path = written(tmp_path, {"version": 1, "quantities": [{"name": "t_s", "unit": "s", "samples": [3.0, 1.0, 2.0]}]})
    quantity = read_document(path, ResultDocument).quantities[0].quantity()
    assert (quantity.value, quantity.n) == (2.0, 3)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"version": 2}, "version"),
        ({"version": 1, "surprise": 1}, "surprise"),
        ({"version": 1, "quantities": [FIGURE, FIGURE]}, "twice"),
        ({"version": 1, "quantities": [{**FIGURE, "samples": [1.0]}]}, "not both"),
        ({"version": 1, "quantities": [{"name": "error", "unit": "1"}]}, "value or samples"),
        ({"version": 1, "quantities": [{**FIGURE, "low": 1.0}]}, "its own interval"),
        ({"version": 1, "quantities": [{**FIGURE, "name": "No Name"}]}, "name"),
        ({"version": 1, "quantities": [{**FIGURE, "value": "fast"}]}, "value"),
        ({"version": 1, "checks": [{"name": "ok"}]}, "checks"),
        ('{"version": 1, "quantities": [{"name": "error", "unit": "1", "value": NaN}]}', "NaN"),
        ('{"version": 1, "quantities": [{"name": "error", "unit": "1", "value": 1e999}]}', "value"),
        ("[" * 100_000, "not JSON"),
        ("nonsense", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_a_document_that_cannot_be_believed_is_refused_with_the_field(tmp_path: Path, document: Any, said: str) -> None:
    with pytest.raises(BadDocument) as caught:
        read_document(written(tmp_path, document), ResultDocument)
    assert said in f"{caught.value.message} {caught.value.where}"


def test_no_document_a_link_and_a_huge_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadDocument, match="no result"):
        read_document(tmp_path / "result.json", ResultDocument)
    secret = written(tmp_path, {"version": 1})
    link = tmp_path / "link.json"
    link.symlink_to(secret)
    with pytest.raises(BadDocument, match="no result"):
        read_document(link, ResultDocument)
    with pytest.raises(BadDocument, match="at most"):
        read_document(written(tmp_path, " " * (5 << 20)), ResultDocument)


def test_a_probe_writes_one_observation_or_several_and_none_is_an_error(tmp_path: Path) -> None:
    told = {"version": 1, "verdict": "fail", "summary": "it grows", "where": {"file": "a.py", "line": 3}}
    document = read_document(written(tmp_path, {"version": 1, "observations": [told, told]}), ProbeDocument)
    assert document.observations[1].where.line == 3
    for wrong in ([], [{**told, "verdict": "accepted"}], [{**told, "summary": ""}]):
        with pytest.raises(BadDocument):
            read_document(written(tmp_path, {"version": 1, "observations": wrong}), ProbeDocument)
