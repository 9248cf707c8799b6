"""How often is the judge wrong, how soon is it right? Seeded worlds with a known truth, judged by the judge's own code.

Prints what is promised beside what was measured, then tables: errors and power of the decision, coverage of intervals,
other rules in the same worlds, and candidates that stall. The last line is the same as compact JSON. Exits 1 when a
promised figure does not hold. `--write` also renews what reports and docs/judge.md say. `--rows` is the number of
repetitions of a figure; error rates and coverage, which are small differences, take five times as many.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import judge_tables as tables
import numpy as np

from infra_agent.judge.decide import BETTER, NO_GAIN, SLOWER
from infra_agent.judge.estimate import estimate_rows
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.rivals import RIVALS, accept_rate, bca_covers, t_covers, widened_bootstrap
from infra_agent.judge.simulate import STALLS_MORE, covers, judge_rows, simulate_blocks
from infra_agent.judge.spending import SPENDING, spent
from infra_agent.judge.worlds import WORLDS, World

EFFECTS = (1.02, 1.03, 1.05, 1.10, 2.0)
RULE_EFFECTS = (1.0, 1.03, 1.05, 1.10)
ERROR_LIMIT = 0.025
POWER = {"drift": 0.95, "drift, stalls": 0.70}
"""Promised share of +3 % gains that are accepted by the last look."""
POWER_EFFECT = 1.03
COVERAGE = (0.94, 0.96)
COVERAGE_WORLDS = ("drift", "drift, stalls", "drift, slow runs")
COVERAGE_BLOCKS = tuple(look for look in LOOKS if look >= 6)
RULE_WORLDS = ("drift", "drift, stalls", "random walk")
STALLING = ((0.0, 0.3), (0.08, 0.3), (0.0, 0.5), (0.08, 0.5), (0.08, 1.0))
"""Stall rates of base and candidate."""
MORE = 5
BOOTSTRAP_ROWS = 1000
ROOT = Path(__file__).resolve().parent.parent
RATES = ROOT / "infra_agent" / "publish" / "data" / "judge_error_rates.json"
FIGURES = ROOT / "docs" / "judge.json"
PAGE = ROOT / "docs" / "judge.md"
NAMED = {world.name: world for world in WORLDS}
Figures = dict[str, Any]


def errors(world: World, seed: int, rows: int) -> Figures:
    """False verdicts when nothing changed, and what becomes of true gains."""
    where = WORLDS.index(world)
    null = judge_rows(simulate_blocks(world, 1.0, MORE * rows, np.random.default_rng((seed, where, 0))))
    gains = []
    for number, effect in enumerate(EFFECTS, start=1):
        seen = judge_rows(simulate_blocks(world, effect, rows, np.random.default_rng((seed, where, number))))
        gains.append(
            {
                "effect": effect,
                "accepted": seen.rate(BETTER),
                "rejected": seen.rate(SLOWER, NO_GAIN, STALLS_MORE),
                "mean_blocks": float(seen.blocks.mean()),
            }
        )
    return {
        "world": world.name,
        "promised": world.held,
        "false_accept": null.rate(BETTER),
        "false_worse": null.rate(SLOWER, STALLS_MORE),
        "no_gain_shown": null.rate(NO_GAIN),
        "mean_blocks": float(null.blocks.mean()),
        "interval_held": null.held(1.0),
        "gains": gains,
    }


def coverage(world: World, seed: int, rows: int) -> list[Figures]:
    """Coverage of 95 % intervals at fixed numbers of blocks: ours, plain t, two bootstraps of the same estimate."""
    found = []
    for blocks in COVERAGE_BLOCKS:
        rng = np.random.default_rng((seed, WORLDS.index(world), 100, blocks))
        logs = simulate_blocks(world, POWER_EFFECT, MORE * rows, rng, blocks).log_ratios
        few = logs[:BOOTSTRAP_ROWS]
        ours, truth = estimate_rows(few, 0.05), math.log(POWER_EFFECT)
        low, high = widened_bootstrap(few, rng)
        found.append(
            {
                "world": world.name,
                "blocks": blocks,
                "ours": covers(logs, POWER_EFFECT),
                "t": t_covers(logs, POWER_EFFECT),
                "bca": bca_covers(few, POWER_EFFECT, rng),
                "widened": float(((low <= truth) & (truth <= high)).mean()),
                "width": float(np.median(ours.high - ours.low)),
                "widened_width": float(np.median(high - low)),
            }
        )
    return found


def rules(world: World, seed: int, rows: int) -> list[Figures]:
    """How often other rules and the judge accept in one world."""
    found = []
    for number, rival in enumerate(RIVALS):
        rng = np.random.default_rng((seed, WORLDS.index(world), 200, number))
        rates = [accept_rate(rival, world, effect, rows, rng) for effect in RULE_EFFECTS]
        found.append({"world": world.name, "rule": rival.name, "runs": f"{len(rival.arms)}", "accepts": rates})
    rng = np.random.default_rng((seed, WORLDS.index(world), 200, 99))
    seen = [judge_rows(simulate_blocks(world, effect, rows, rng)) for effect in RULE_EFFECTS]
    runs = [2 * float(each.blocks.mean()) for each in seen]
    ours = [each.rate(BETTER) for each in seen]
    found.append(
        {"world": world.name, "rule": "this judge", "runs": f"{min(runs):.0f}-{max(runs):.0f}", "accepts": ours}
    )
    return found


def stalling(base_rate: float, candidate_rate: float, seed: int, rows: int) -> Figures:
    """What becomes of a candidate that is faster between its stalls, but stalls more than its base."""
    world = replace(NAMED["drift"], stall_rate=base_rate, candidate_stall_rate=candidate_rate)
    gains = []
    for effect in (1.03, 1.10, 2.0):
        rng = np.random.default_rng((seed, 300, round(100 * base_rate), round(100 * candidate_rate)))
        seen = judge_rows(simulate_blocks(world, effect, rows, rng))
        # A run of rate r with a pause of 0.5625 s does its work in 1 / r + 0.5625 s.
        lost = (1 / world.stall_factor - 1) * effect
        mean = effect * (1 - candidate_rate + candidate_rate / (1 + lost)) / (1 - base_rate * (1 - world.stall_factor))
        gains.append(
            {
                "effect": effect,
                "mean_effect": mean,
                "accepted": seen.rate(BETTER),
                "rejected": seen.rate(SLOWER, NO_GAIN, STALLS_MORE),
            }
        )
    return {"base_rate": base_rate, "candidate_rate": candidate_rate, "gains": gains}


def measure(seed: int, rows: int) -> Figures:
    """All figures."""
    found: Figures = {
        "seed": seed,
        "rows": rows,
        "more_rows": MORE * rows,
        "looks": [{"blocks": look, "spent": spent(look), "level": SPENDING[look]} for look in LOOKS],
        "errors": [errors(world, seed, rows) for world in WORLDS],
        "coverage": [row for name in COVERAGE_WORLDS for row in coverage(NAMED[name], seed, rows)],
        "rules": [row for name in RULE_WORLDS for row in rules(NAMED[name], seed, rows)],
        "stalling": [stalling(base, candidate, seed, rows) for base, candidate in STALLING],
    }
    return {**found, "promises": promises(found)}


def promises(figures: Figures) -> list[Figures]:
    """Each promise with its figure, the standard error of the simulation, and whether it holds."""
    rows, more = figures["rows"], figures["more_rows"]
    found = []
    for row in figures["errors"]:
        where = row["world"]
        if row["promised"]:
            found.append(_promise(f"useless change accepted, {where}", row["false_accept"], 0.0, ERROR_LIMIT, more))
            found.append(_promise(f"useless change called worse, {where}", row["false_worse"], 0.0, ERROR_LIMIT, more))
        if where in POWER:
            power = next(gain["accepted"] for gain in row["gains"] if gain["effect"] == POWER_EFFECT)
            found.append(_promise(f"+3 % accepted by 16 blocks, {where}", power, POWER[where], 1.0, rows))
    for row in figures["coverage"]:
        name = f"95 % interval holds the truth, {row['blocks']} blocks, {row['world']}"
        found.append(_promise(name, row["ours"], *COVERAGE, more))
    return found


def _promise(name: str, value: float, low: float, high: float, rows: int) -> Figures:
    error = math.sqrt(value * (1 - value) / rows)
    return {"name": name, "value": value, "error": error, "low": low, "high": high, "holds": low <= value <= high}


def worst_rates(figures: Figures) -> Figures:
    """What a report says of the judge: the worst error rates over the worlds in which they are promised."""
    promised = [row for row in figures["errors"] if row["promised"]]
    worst = {name: max(row[name] for row in promised) for name in ("false_accept", "false_worse")}
    return {"date": figures["date"], "seed": figures["seed"], "rows": figures["more_rows"], "rates": worst}


def last_line(figures: Figures) -> str:
    """Everything promised, and whether all of it holds, in one line of JSON."""
    kept = {name: figures[name] for name in ("seed", "rows", "more_rows", "promises", "ok", "wall_s")}
    return json.dumps({"bench": "judge", **kept}, separators=(",", ":"))


def write(figures: Figures) -> None:
    """Renew what the reports and the page say."""
    RATES.write_text(json.dumps(worst_rates(figures), indent=1) + "\n", encoding="utf-8")
    kept = {name: value for name, value in figures.items() if name != "wall_s"}
    FIGURES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(tables.inserted(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, measure, print, check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--rows", type=int, default=4000, help="repetitions of a figure (default 4000)")
    parser.add_argument("--write", action="store_true", help="renew docs/judge.md and the rates that reports show")
    options = parser.parse_args(argv)
    if options.rows < 100:
        parser.error("--rows: at least 100 are needed for rates of a few percent")
    begun = time.perf_counter()
    figures = measure(options.seed, options.rows)
    figures["ok"] = all(promise["holds"] for promise in figures["promises"])
    figures["date"] = f"{datetime.now(UTC):%Y-%m-%d}"
    figures["wall_s"] = round(time.perf_counter() - begun, 1)
    print(tables.page(figures))
    print(f"{figures['wall_s']} s, seed {options.seed}: {'every' if figures['ok'] else 'NOT every'} promise holds")
    if options.write and figures["ok"]:
        write(figures)
    print(last_line(figures))
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
