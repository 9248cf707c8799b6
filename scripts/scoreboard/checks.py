"""Checks of the scoreboard on the newest finished run of the demo: `python scripts/scoreboard/checks.py D1`.

Each check prints one line with its figure and exits 0 when the row holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from infra_agent.cli.options import runs_root
from infra_agent.judge.plan import plan_blocks
from infra_agent.ledger.chain import read_chain
from infra_agent.ledger.runs import list_runs

Answer = tuple[bool, str]
Report = dict[str, Any]
FIRST_CHANGE_S = 300.0
LLM_ENV = ("OPENAI_BASE_URL", "OPENAI_API_KEY")
PLACES = ("parameter", "file", "kernel", "input", "thread", "interval_s", "whole_system")


def newest_demo() -> tuple[Report, list[Any]]:
    """Report and events of the newest finished demo run."""
    for run in list_runs(runs_root()):
        path = run.path / "report.json"
        if run.status == "finished" and path.exists():
            report = json.loads(path.read_text(encoding="utf-8"))
            if report["stack"]["name"] == "demo" and report["final"]:
                return report, list(read_chain(run.path).events)
    sys.exit("no finished demo run: make demo")


def of(events: Iterable[Any], kind: str) -> list[dict[str, Any]]:
    """What the events of a kind carry."""
    return [dict(event.data) for event in events if event.kind == kind]


def a2(report: Report, events: list[Any]) -> Answer:
    """Contract and windows hash the same input: prompts in order, lengths, number of requests, seed policy.

    Arrivals and the seed of a window are not in that hash: they are compared within each block.
    """
    made = {row["id"]: row["observation"] for row in of(events, "observation") if row["observation"]["probe"] == "load"}
    frozen = {report["stack"]["workload_sha256"]}
    measured = {window["detail"]["workload_sha256"] for window in made.values()}
    blocks = [row for row in of(events, "block") if row["valid"]]
    pairs = [(made[row["base_observation"]], made[row["candidate_observation"]]) for row in blocks]
    equal = all(_work(base) == _work(candidate) for base, candidate in pairs)
    figure = f"{len(made)} windows with {len(measured)} workload digest, {len(pairs)} pairs of equal seed and load"
    return bool(pairs) and measured == frozen and equal, figure


def _work(window: dict[str, Any]) -> tuple[Any, ...]:
    detail, signals = window["detail"], window["signals"]
    load = signals.get("concurrency"), signals.get("rate_per_s")
    # The model's name may be a path of the launch; all else of the body is the work that is asked for.
    body = {name: value for name, value in detail["body"].items() if name != "model"}
    return detail["seed"], detail["requests"], detail["warmup_requests"], json.dumps(body, sort_keys=True), load


def b4(report: Report, _: list[Any]) -> Answer:
    bare = not report["environment"].get("gpus") and not list(Path("/dev").glob("nvidia*"))
    return bare and report["outcome"]["exit_code"] in (0, 1), report["outcome"]["sentence"]


def c9(report: Report, _: list[Any]) -> Answer:
    observed = report["observations"]
    saved = report["cost"]["rungs_saved"]
    timed = all((row["cost"].get("wall_s") or 0) > 0 for row in observed if row["rung"] == "load")
    rungs = {row["candidate"]: row["rung"] for row in report["verdicts"]}
    below = [name for name in saved["candidates"] if rungs.get(name, "load") != "load"]
    ended = bool(below) and len(below) == len(saved["candidates"]) and (saved["estimated_s"] or 0) > 0
    seconds = saved["estimated_s"] or 0
    return timed and ended, f"{len(below)} candidates ended below the load rung, about {seconds:.0f} s of blocks saved"


def d1(report: Report, _: list[Any]) -> Answer:
    rows = [row for row in report["verdicts"] if row["cause"] == "proved"]
    shown = [row["estimate"] for row in rows if _whole(row["estimate"])]
    figure = "; ".join(f"x{each['ratio']:.3f} [{each['low']:.3f}, {each['high']:.3f}], n {each['n']}" for each in shown)
    return bool(rows) and len(shown) == len(rows), figure or f"{len(rows)} proved candidates, none with an interval"


def _whole(estimate: dict[str, Any] | None) -> bool:
    """An interval around the ratio, and a test."""
    if not estimate or None in (estimate["low"], estimate["high"], estimate["p"]):
        return False
    return bool(estimate["low"] <= estimate["ratio"] <= estimate["high"] and estimate["low"] < estimate["high"])


def d2(report: Report, events: list[Any]) -> Answer:
    """Valid blocks have both orders in each pair, each order the one that follows from the run's seed."""
    blocks = [row for row in of(events, "block") if row["stage"] == "prove"]
    launches = sum(1 for row in of(events, "launch") if row["purpose"] == "block")
    valid: dict[str, list[tuple[str, ...]]] = {}
    for row in blocks:
        if row["valid"]:
            valid.setdefault(row["candidate"], []).append(tuple(row["order"]))
    paired = planned = True
    for orders in valid.values():
        paired &= all(one == other[::-1] for one, other in zip(orders[::2], orders[1::2], strict=False))
        plan = plan_blocks(report["run"]["seed"], len(orders), stage="prove")
        planned &= orders == [(block.order[0].value, block.order[1].value) for block in plan]
    complete = 2 * sum(map(len, valid.values()))
    figure = f"{complete // 2} valid blocks, both orders in each pair, {launches} fresh launches"
    return paired and planned and launches >= complete > 0, figure


def d6(report: Report, _: list[Any]) -> Answer:
    final, search = report["final"], set(report["search"]["seeds"])
    fresh = set(final["seeds"]) - search
    beside = [row for row in report["accepted"] if row["final"] is not None and row["estimate"] is not None]
    whole = bool(fresh) and bool(search) and fresh == set(final["seeds"]) and bool(beside)
    figure = f"{len(fresh)} fresh seeds, x{final['estimate']['ratio']:.3f}"
    return whole, figure + (f" beside x{beside[-1]['estimate']['ratio']:.3f} while searching" if beside else "")


def e1(report: Report, _: list[Any]) -> Answer:
    causes = [claim for claim in report["claims"] if claim["kind"] == "cause"]
    whole = all(claim["evidence"].get(part) for claim in causes for part in ("apply", "revert", "placebo"))
    return bool(causes) and whole, f"{len(causes)} causes with apply, revert and placebo"


def e2(report: Report, _: list[Any]) -> Answer:
    agent = [row for row in report["candidates"] if row["lane"] == "agent"]
    single = all(len(row["changes"]) == 1 for row in agent)
    return bool(agent) and single and "stock" in report["final"]["arms"], f"{len(agent)} candidates of one change each"


def e4(report: Report, _: list[Any]) -> Answer:
    """A place names something; `whole_system` is a place only when it is said to be one, and not for every row."""
    observed = report["observations"]
    placed = [row for row in observed if any(row["where"].get(name) for name in PLACES)]
    exact = [row for row in placed if not row["where"].get("whole_system")]
    figure = f"{len(placed)} of {len(observed)} observations with a place, {len(exact)} narrower than the whole system"
    return bool(observed) and len(placed) == len(observed) and bool(exact), figure


def e5(report: Report, events: list[Any]) -> Answer:
    """Scored predictions, each stated before its candidate was launched."""
    order = [(event.kind, dict(event.data)) for event in events]
    stated = {data["id"]: at for at, (kind, data) in enumerate(order) if kind == "hypothesis"}
    begun = {data["id"]: at for at, (kind, data) in enumerate(order) if kind == "candidate"}
    scored = [row for row in report["hypotheses"] if row["inside"] is not None]
    first = all(stated[row["id"]] < begun[name] for row in scored for name in row["candidates"])
    hits = sum(1 for row in scored if row["inside"])
    return bool(scored) and first, f"{hits} of {len(scored)} predictions held"


def f4(report: Report, events: list[Any]) -> Answer:
    return d6(report, events)


def g1(report: Report, _: list[Any]) -> Answer:
    row, agent_s = report["honesty_row"], report["agent"]["wall_s"]
    if row is None or not agent_s:
        return False, "no honesty row"
    ratio = row["wall_s"] / agent_s
    found = f"x{row['estimate']['ratio']:.2f}" if row["estimate"] else "nothing"
    return 0.8 < ratio < 1.5, f"search {found} in {ratio:.2f} of the agent's screening time"


def g2(report: Report, _: list[Any]) -> Answer:
    final = report["final"]
    measured = final["stock_value"] > 0 and bool(final["blocks"])
    return "stock" in final["arms"] and measured, f"{', '.join(final['arms'])} in {len(final['blocks'])} blocks"


def g4(report: Report, _: list[Any]) -> Answer:
    """No family of the search space may be left untested while there was budget for it."""
    rows = report["families"]
    left_s = report["cost"]["budget_s"] - report["cost"]["total_s"]
    idle = [r["family"] for r in rows if r["disposition"] in ("untested", "open")]
    block_s = report["cost"]["rungs_saved"]["mean_block_s"] or 0.0
    figure = ", ".join(f"{row['family']} {row['disposition']}" for row in rows)
    return bool(rows) and (not idle or left_s < block_s), f"{figure}; {left_s:.0f} s of budget left"


def h1(report: Report, _: list[Any]) -> Answer:
    """The playbook brain, no tokens, no LLM settings in this shell (those of the run's own shell are not recorded)."""
    present = [name for name in LLM_ENV if os.environ.get(name)]
    free = report["cost"]["brain_tokens"] == 0 and not present
    kept = len(report["accepted"])
    figure = f"brain {report['run']['brain']}, {kept} proved changes, LLM settings here: {', '.join(present) or 'none'}"
    return report["run"]["brain"] == "playbook" and free and kept > 0, figure


def l3(report: Report, _: list[Any]) -> Answer:
    """A command for the run; for stock and best the launch, its accepted flags, and a window with its seed."""
    lines = report["reproduce"]
    launches = [line for line in lines if line.endswith("server=$!")]
    windows = [line for line in lines if "probes.load" in line and "--seed " in line]
    flags = {change["flag"] for row in report["accepted"] for change in row["changes"]}
    shown = {flag for flag in flags if any(flag in line for line in launches)}
    whole = len(launches) == len(windows) == 2 and shown == flags and any(" run " in line for line in lines)
    return whole and bool(flags), f"{len(lines)} lines, {len(shown)} of {len(flags)} accepted flags in them"


def m4(report: Report, _: list[Any]) -> Answer:
    ended = [row for row in report["candidates"] if row["verdict"] and row["verdict"]["reason"]]
    failed = [row for row in ended if row["verdict"]["decision"] != "accepted"]
    whole = len(ended) == report["proposals"] and bool(failed)
    return whole, f"{len(ended)} of {report['proposals']} proposals with a verdict and its reason"


def m5(report: Report, _: list[Any]) -> Answer:
    """Each line has a reason, and what this run certainly did not measure is among them."""
    lines = report["not_measured"]
    reasoned = [line for line in lines if line["what"].strip() and line["reason"].strip()]
    named = {line["what"] for line in lines}
    expected = set() if report["environment"].get("gpus") else {"device_time"}
    return bool(lines) and len(reasoned) == len(lines) and expected <= named, f"{len(lines)} things not measured, why"


def m6(report: Report, _: list[Any]) -> Answer:
    undo = [row["undo"] for row in report["accepted"]]
    whole = bool(undo) and all(each["command"].startswith("infra-agent ") and each["text"] for each in undo)
    return whole, f"{undo[0]['command']} ({undo[0]['text']})" if undo else "nothing was accepted"


def p1(report: Report, events: list[Any]) -> Answer:
    return p2(report, events)


def p2(report: Report, events: list[Any]) -> Answer:
    accepted = [row["elapsed_s"] for row in of(events, "accepted")]
    if not accepted or not report["accepted"]:
        return False, "nothing was accepted"
    return accepted[0] < FIRST_CHANGE_S, f"first proved change after {accepted[0]:.0f} s"


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
