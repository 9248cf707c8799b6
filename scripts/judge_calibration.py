"""How often is the judge wrong? Simulated worlds with a known truth, judged by the judge's own code.

Prints three tables: errors and power of the decision, coverage of the intervals, and the rule beside others in common
use. `--json` prints the same figures as JSON. `--check` exits 1 when, in any world that the rule promises to handle,
more than 2.5 % of useless changes are accepted or more than 2.5 % are called worse, beyond a binomial slack of 2.33
standard errors (1 % chance of a false alarm per figure when the true rate is exactly 2.5 %).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from infra_agent.judge.decide import BETTER, NO_GAIN, SLOWER, SPENDING
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.rivals import RIVALS, accept_rate, bca_covers, t_covers
from infra_agent.judge.simulate import WORLDS, World, block_log_ratios, covers, judge_rows

EFFECTS = (1.02, 1.03, 1.05, 1.10, 2.0)
LIMIT = 0.025
SLACK_SDS = 2.33
RULE_WORLDS = ("random walk", "drift", "drift, stalls")
COVERAGE_WORLDS = ("drift", "drift, stalls")
BCA_ROWS = 1000
RATES = Path(__file__).resolve().parent.parent / "infra_agent" / "publish" / "data" / "judge_error_rates.json"
Figures = dict[str, Any]


def errors(world: World, seed: int, rows: int) -> Figures:
    """False verdicts when nothing changed, and what happens to true gains."""
    where = WORLDS.index(world)
    null = judge_rows(block_log_ratios(world, 1.0, rows, np.random.default_rng((seed, where, 0))))
    gains = []
    for number, effect in enumerate(EFFECTS, start=1):
        rng = np.random.default_rng((seed, where, number))
        seen = judge_rows(block_log_ratios(world, effect, rows // 4, rng))
        gains.append(
            {
                "effect": effect,
                "accepted": seen.rate(BETTER),
                "rejected": seen.rate(SLOWER, NO_GAIN),
                "mean_blocks": float(seen.blocks.mean()),
                "interval_held": seen.held(effect),
            }
        )
    return {
        "world": world.name,
        "promised": world.held,
        "rows": rows,
        "false_accept": null.rate(BETTER),
        "false_worse": null.rate(SLOWER),
        "no_gain_shown": null.rate(NO_GAIN),
        "mean_blocks": float(null.blocks.mean()),
        "interval_held": null.held(1.0),
        "gains": gains,
    }


def coverage(world: World, seed: int, rows: int, effect: float = 1.03) -> list[Figures]:
    """Coverage of 95 % intervals at every look: ours, plain t, BCa bootstrap of the same estimate."""
    found = []
    for look in LOOKS:
        rng = np.random.default_rng((seed, WORLDS.index(world), 100, look))
        logs = block_log_ratios(world, effect, rows, rng, look)
        row: Figures = {"world": world.name, "blocks": look, "ours": covers(logs, effect), "t": t_covers(logs, effect)}
        row["bca"] = bca_covers(logs[:BCA_ROWS], effect, rng) if look >= 6 else None
        found.append(row)
    return found


def rules(world: World, seed: int, rows: int) -> list[Figures]:
    """Accept rates of other rules and of the judge in one world."""
    effects = (1.0, 1.03, 1.05, 1.10)
    found = []
    for number, rival in enumerate(RIVALS):
        rng = np.random.default_rng((seed, WORLDS.index(world), 200, number))
        rates = [accept_rate(rival, world, effect, rows, rng) for effect in effects]
        found.append({"world": world.name, "rule": rival.name, "runs": f"{len(rival.arms)}", "accepts": rates})
    rates, blocks = [], []
    for effect in effects:
        rng = np.random.default_rng((seed, WORLDS.index(world), 200, 99))
        seen = judge_rows(block_log_ratios(world, effect, rows, rng))
        rates.append(seen.rate(BETTER))
        blocks.append(2 * float(seen.blocks.mean()))
    runs = f"{min(blocks):.0f}-{max(blocks):.0f}"
    found.append({"world": world.name, "rule": "this judge", "runs": runs, "accepts": rates})
    return found


def measure(seed: int, rows: int) -> Figures:
    """All figures."""
    named = {world.name: world for world in WORLDS}
    return {
        "seed": seed,
        "rows": rows,
        "looks": {str(look): SPENDING[look] for look in LOOKS},
        "errors": [errors(world, seed, rows) for world in WORLDS],
        "coverage": [row for name in COVERAGE_WORLDS for row in coverage(named[name], seed, rows // 4)],
        "rules": [row for name in RULE_WORLDS for row in rules(named[name], seed, rows // 4)],
    }


def ceiling(rows: int) -> float:
    """Highest rate that `--check` lets pass."""
    return LIMIT + SLACK_SDS * math.sqrt(LIMIT * (1 - LIMIT) / rows)


def failures(figures: Figures) -> list[str]:
    """The worlds in which a promised error rate is broken."""
    top = ceiling(figures["rows"])
    return [
        f"{row['world']}: {name} {100 * row[name]:.2f} % is above {100 * top:.2f} %"
        for row in figures["errors"]
        if row["promised"]
        for name in ("false_accept", "false_worse")
        if row[name] > top
    ]


def worst_rates(figures: Figures) -> Figures:
    """What a report says of the judge: the worst error rates over the worlds in which they are promised."""
    promised = [row for row in figures["errors"] if row["promised"]]
    worst = {name: max(row[name] for row in promised) for name in ("false_accept", "false_worse")}
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "seed": figures["seed"], "rows": figures["rows"], "rates": worst}


def show(figures: Figures) -> None:
    """Print the tables as Markdown."""
    print(f"Nothing changed ({figures['rows']} worlds each), then true gains ({figures['rows'] // 4} each); percent\n")
    head = "".join(f" +{100 * (effect - 1):.0f} % accepted / rejected / blocks |" for effect in EFFECTS)
    print(f"| world | false accept | false worse | no gain shown | blocks | interval held |{head}")
    print("|---|" + "--:|" * (5 + len(EFFECTS)))
    for row in figures["errors"]:
        cells = [row["world"] + ("" if row["promised"] else " (not promised)")]
        cells += [f"{100 * row[name]:.2f}" for name in ("false_accept", "false_worse")]
        cells += [f"{100 * row['no_gain_shown']:.0f}", f"{row['mean_blocks']:.1f}", f"{100 * row['interval_held']:.1f}"]
        cells += [
            f"{100 * g['accepted']:.0f} / {100 * g['rejected']:.1f} / {g['mean_blocks']:.1f}" for g in row["gains"]
        ]
        print("| " + " | ".join(cells) + " |")
    print(f"\nCoverage of 95 % intervals at a fixed number of blocks (BCa: {BCA_ROWS} rows); percent\n")
    print("| world | blocks | ours | plain t | BCa bootstrap |\n|---|--:|--:|--:|--:|")
    for row in figures["coverage"]:
        bca = "" if row["bca"] is None else f"{100 * row['bca']:.1f}"
        print(f"| {row['world']} | {row['blocks']} | {100 * row['ours']:.1f} | {100 * row['t']:.1f} | {bca} |")
    print("\nRules beside each other: how often each accepts; percent\n")
    print("| world | rule | runs | useless change | +3 % | +5 % | +10 % |\n|---|---|--:|--:|--:|--:|--:|")
    for row in figures["rules"]:
        useless, *gains = (100 * rate for rate in row["accepts"])
        found = " | ".join(f"{rate:.0f}" for rate in gains)
        print(f"| {row['world']} | {row['rule']} | {row['runs']} | {useless:.1f} | {found} |")


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, measure, print, check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--rows", type=int, default=40_000, help="simulated candidates per world without a gain")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--check", action="store_true", help="exit 1 when an error rate is above its limit")
    parser.add_argument("--write", action="store_true", help="keep the worst promised rates for the reports")
    options = parser.parse_args(argv)
    if options.rows < 400:
        parser.error("--rows: at least 400 are needed for rates of a few percent")
    begun = time.perf_counter()
    figures = measure(options.seed, options.rows)
    figures["failures"] = failures(figures)
    figures["wall_s"] = round(time.perf_counter() - begun, 1)
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        show(figures)
        print(f"\n{figures['wall_s']} s, seed {options.seed}")
    if options.write and not figures["failures"]:
        RATES.write_text(json.dumps(worst_rates(figures), indent=1) + "\n", encoding="utf-8")
    for failure in figures["failures"] if options.check else ():
        print(failure, file=sys.stderr)
    return int(options.check and bool(figures["failures"]))


if __name__ == "__main__":
    sys.exit(main())
