"""Checks of the scoreboard on the newest finished run of the demo: `python scripts/scoreboard/checks.py D1`.

Each check prints one line with its figure and exits 0 when the row holds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra_agent.cli.options import runs_root
from infra_agent.ledger.chain import read_chain
from infra_agent.ledger.runs import list_runs

Answer = tuple[bool, str]
Report = dict[str, Any]


def newest_demo() -> tuple[Report, list[Any]]:
    """Report and events of the newest finished demo run."""
    for run in list_runs(runs_root()):
        path = run.path / "report.json"
        if run.status == "finished" and path.exists():
            report = json.loads(path.read_text(encoding="utf-8"))
            if report["stack"]["name"] == "demo" and report["final"]:
                return report, list(read_chain(run.path).events)
    sys.exit("no finished demo run: make demo")


def a2(report: Report, _: list[Any]) -> Answer:
    digest = report["stack"]["workload_sha256"]
    return len(digest) == 64, f"workload {digest[:12]}"


def b4(report: Report, _: list[Any]) -> Answer:
    bare = not report["environment"].get("gpus") and not list(Path("/dev").glob("nvidia*"))
    return bare and report["outcome"]["exit_code"] in (0, 1), report["outcome"]["sentence"]


def c9(report: Report, _: list[Any]) -> Answer:
    costs = [row["cost"]["wall_s"] for row in report["observations"]]
    saved = report["cost"]["rungs_saved"]
    return all(cost >= 0 for cost in costs) and saved is not None, f"rungs saved: {json.dumps(saved)}"


def d1(report: Report, _: list[Any]) -> Answer:
    rows = [row for row in report["verdicts"] if row["cause"] == "proved"]
    whole = all(row["estimate"]["low"] < row["estimate"]["ratio"] < row["estimate"]["high"] for row in rows)
    shown = rows[0]["estimate"] if rows else {}
    return bool(rows) and whole, f"x{shown.get('ratio', 0):.3f} [{shown.get('low', 0):.3f}, {shown.get('high', 0):.3f}]"


def d2(_: Report, events: list[Any]) -> Answer:
    orders = [tuple(e.data["order"]) for e in events if e.kind == "block" and e.data["stage"] == "prove"]
    launches = sum(1 for e in events if e.kind == "launch" and e.data["purpose"] == "block")
    return len(set(orders[:2])) == 2 and launches >= 2 * len(orders), f"{len(orders)} blocks, {launches} fresh launches"


def d4(report: Report, _: list[Any]) -> Answer:
    noise = report["noise"]
    return noise[
        "source"
    ] != "assumed", f"mde x{noise['mde_ratio']:.4f} in {noise['blocks']} blocks ({noise['source']})"


def d6(report: Report, _: list[Any]) -> Answer:
    fresh = set(report["final"]["seeds"]) - set(report["search"]["seeds"])
    return fresh == set(
        report["final"]["seeds"]
    ), f"{len(fresh)} fresh seeds, x{report['final']['estimate']['ratio']:.3f}"


def d7(report: Report, _: list[Any]) -> Answer:
    facts = report["environment"]
    return {"cpu", "cores", "memory_bytes"} <= set(facts), f"{facts['cpu']}, {facts['cores']} cores"


def e1(report: Report, _: list[Any]) -> Answer:
    causes = [claim for claim in report["claims"] if claim["kind"] == "cause"]
    whole = all({"apply", "revert", "placebo"} <= set(claim["evidence"]) for claim in causes)
    return bool(causes) and whole, f"{len(causes)} causes with apply, revert and placebo"


def e2(report: Report, _: list[Any]) -> Answer:
    agent = [row for row in report["candidates"] if row["lane"] == "agent"]
    single = all(len(row["changes"]) == 1 for row in agent)
    return bool(agent) and single and "stock" in report["final"]["arms"], f"{len(agent)} candidates of one change each"


def e4(report: Report, _: list[Any]) -> Answer:
    placed = [row for row in report["observations"] if row["where"]]
    return len(placed) == len(report["observations"]), f"{len(placed)} observations, each with a place"


def e5(report: Report, _: list[Any]) -> Answer:
    scored = [row for row in report["hypotheses"] if row["inside"] is not None]
    hits = sum(1 for row in scored if row["inside"])
    return bool(scored), f"{hits} of {len(scored)} predictions held"


def f4(report: Report, events: list[Any]) -> Answer:
    return d6(report, events)


def g1(report: Report, _: list[Any]) -> Answer:
    row = report["honesty_row"]
    ratio = row["wall_s"] / report["agent"]["wall_s"]
    found = f"x{row['estimate']['ratio']:.2f}" if row["estimate"] else "nothing"
    return 0.8 < ratio < 1.5, f"search {found} in {ratio:.2f} of the agent's screening time"


def g2(report: Report, _: list[Any]) -> Answer:
    return "stock" in report["final"]["arms"], ", ".join(report["final"]["arms"])


def g4(report: Report, _: list[Any]) -> Answer:
    families = {row["family"]: row["disposition"] for row in report["families"]}
    return bool(families) and all(families.values()), ", ".join(f"{k} {v}" for k, v in families.items())


def h1(report: Report, _: list[Any]) -> Answer:
    return report["run"]["brain"] == "playbook", f"brain {report['run']['brain']}"


def l3(report: Report, _: list[Any]) -> Answer:
    return len(report["reproduce"]) >= 3, f"{len(report['reproduce'])} commands"


def m4(report: Report, _: list[Any]) -> Answer:
    ended = [row for row in report["candidates"] if row["verdict"]]
    return len(ended) == report["proposals"], f"{len(ended)} of {report['proposals']} proposals with a verdict"


def m5(report: Report, _: list[Any]) -> Answer:
    return bool(report["not_measured"]), f"{len(report['not_measured'])} things named as not measured"


def m6(report: Report, _: list[Any]) -> Answer:
    undo = [row["undo"]["command"] for row in report["accepted"]]
    return bool(undo) and all(undo), undo[0] if undo else ""


def p1(report: Report, events: list[Any]) -> Answer:
    return p2(report, events)


def p2(report: Report, events: list[Any]) -> Answer:
    accepted = [e.data["elapsed_s"] for e in events if e.kind == "accepted"]
    return bool(report["accepted"]) and accepted[
        0
    ] < 300, f"first proved change after {accepted[0]:.0f} s" if accepted else ""


def p3(_report: Report, _events: list[Any]) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "."]
        subprocess.run(pip, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall_s = time.monotonic() - started
        size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file() and not f.is_symlink()) / 1e6
        listed = subprocess.run(
            [f"{folder}/bin/python", "-m", "pip", "list"], capture_output=True, text=True, check=True
        )
    return "torch" not in listed.stdout and size < 300, f"{size:.0f} MB in {wall_s:.0f} s, no torch"


CHECKS: dict[str, Callable[[Report, list[Any]], Answer]] = {
    name.upper(): check
    for name, check in list(globals().items())
    if callable(check) and name[:1] in "abcdefghlmp" and name[1:].isdigit()
}


def main() -> int:
    """Run one check."""
    ok, figure = CHECKS[sys.argv[1]](*newest_demo())
    print(figure)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
