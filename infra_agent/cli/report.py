"""`infra-agent report`: write a run's report again from its ledger."""

from __future__ import annotations

import sys

from infra_agent.cli.options import JsonFlag, RunRef, runs_root
from infra_agent.cli.output import print_json, print_lines
from infra_agent.cli.streams import masker_of


def report(ref: RunRef = "last", as_json: JsonFlag = False) -> int:
    """Rebuild report.html and report.json of a run. JSON keys: html, json."""
    from infra_agent.ledger.runs import find_run
    from infra_agent.publish.publish import load_state, publish

    run_dir = find_run(runs_root(), ref)
    html, document = publish(run_dir, load_state(run_dir), masker_of(sys.stdout))
    if as_json:
        print_json({"html": str(html), "json": str(document)})
    else:
        print_lines([str(html), str(document)])
    return 0
