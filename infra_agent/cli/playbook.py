"""`infra-agent playbook`: the diagnostic pages that the default brain walks."""

from __future__ import annotations

from typing import Annotated

import typer

from infra_agent.cli.options import JsonFlag
from infra_agent.cli.output import print_json, print_lines
from infra_agent.errors import UsageError

app = typer.Typer(help="Playbooks: symptom, predicates, levers.", no_args_is_help=True)


@app.command("list")
def list_(as_json: JsonFlag = False) -> int:
    """All playbooks in the order in which they are tried. JSON keys: playbooks[{name, rank, symptom, levers}]."""
    from infra_agent.library.playbooks import load_playbooks

    pages = load_playbooks()
    if as_json:
        rows = [
            {
                "name": p.name,
                "rank": p.rank,
                "symptom": p.symptom,
                "levers": [*(lever.family for lever in p.levers), *(each.family for each in p.transforms)],
            }
            for p in pages
        ]
        print_json({"playbooks": rows})
    else:
        print_lines([f"{p.rank:>3}  {p.name:<18} {p.symptom}" for p in pages])
    return 0


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="Name of a playbook.")], as_json: JsonFlag = False) -> int:
    """One playbook with its predicates. JSON: the whole page."""
    from infra_agent.library.playbooks import load_playbooks

    pages = {page.name: page for page in load_playbooks()}
    if name not in pages:
        raise UsageError(f"no playbook {name!r}", hint=f"known: {', '.join(pages)}")
    page = pages[name]
    if as_json:
        print_json(page.model_dump(mode="json"))
        return 0
    lines = [page.symptom, ""]
    for predicate in page.when:
        tests = {"equals": predicate.equals, "at least": predicate.at_least, "at most": predicate.at_most}
        words = " and ".join(f"{test} {value}" for test, value in tests.items() if value is not None)
        lines.append(f"when   {predicate.signal} {words}")
    lines += [f"look   {probe}" for probe in page.probes]
    for lever in page.levers:
        lines.append(f"try    {lever.family}: {lever.cause}; expected x{lever.low:g} to x{lever.high:g}")
        lines.append(f"       refuted by: {lever.refuted_by}")
    for transform in page.transforms:
        lines.append(
            f"try    transform {transform.name}: {transform.cause}; expected x{transform.low:g} to x{transform.high:g}"
        )
        lines.append(f"       refuted by: {transform.refuted_by}")
    print_lines([*lines, "", page.text])
    return 0
