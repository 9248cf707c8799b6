"""Twenty A/A comparisons on a real engine: stock against itself, judged by the real judge. None may be accepted.

Design. The pool is made of real blocks: two fresh launches of stock each, planned, measured and voided by neighbours
as in any run. The first comparisons take the pool in the order in which it was measured, 16 blocks each, none twice.
All others draw 16 blocks of the pool without putting back, and draw which of a block's two launches is called the
candidate, which is fair because both are stock. They share launches, so they are not independent: what they show is
the judge on this engine's real noise, many times, and not a rate of errors (`make bench-judge` is that).

Cost. 32 blocks are 64 launches, about 25 minutes for the demo on 2 cores, and never more than --minutes; what is there
by then is used. Everything measured is kept in a ledger, so that the command goes on where it was stopped.

Prints one line per comparison, and as last line compact JSON. Exits 1 when a comparison was accepted, 4 when the pool
is too small to compare.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from infra_agent.agent.choose import Choice
from infra_agent.agent.noise import TWIN, measure_against_itself, throughput_goal
from infra_agent.agent.start import Request, begin, resume
from infra_agent.cli.narrator import TerminalNarrator
from infra_agent.cli.output import print_error, stderr
from infra_agent.errors import BudgetSpent, ExitCode, InfraAgentError, StackError
from infra_agent.goal.model import Goal
from infra_agent.harness.evidence import evidence_of
from infra_agent.harness.sandbox import hold_walls
from infra_agent.harness.session import Session
from infra_agent.judge.decide import Decision
from infra_agent.judge.evidence import Evidence, Stalls, look_at
from infra_agent.judge.plan import LOOKS
from infra_agent.judge.types import Look
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.stack.cache import state_dir
from infra_agent.stack.demo import prepare_demo
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.files import DEMO, resolve_stack, validate_paths
from infra_agent.stack.model import Stack

SEED = 20261130
EXIT_ACCEPTED, EXIT_TOO_FEW = 1, 4


@dataclass(frozen=True, slots=True)
class Draw:
    """Which blocks of the pool a comparison takes, in which order, and in which of them the names are swapped."""

    blocks: tuple[int, ...]
    swapped: tuple[bool, ...]
    how: str


def draws(pool: int, comparisons: int, seed: int) -> list[Draw]:
    """As many comparisons as asked: the pool as measured first, then draws from it."""
    size = min(LOOKS[-1], pool)
    rng = np.random.default_rng(seed)
    found = []
    for number in range(comparisons):
        start = number * size
        if start + size <= pool:
            found.append(Draw(tuple(range(start, start + size)), (False,) * size, "as measured"))
            continue
        drawn = rng.choice(pool, size, replace=False)
        found.append(Draw(tuple(map(int, drawn)), tuple(map(bool, rng.integers(0, 2, size))), "drawn"))
    return found


def compared(pool: Evidence, draw: Draw) -> Look:
    """The judge at all its looks on one comparison's blocks."""
    evidence = _taken(pool, draw)
    planned = [look for look in LOOKS if look <= len(draw.blocks)]
    for count in planned:
        look = look_at(evidence.first(count), max_blocks=planned[-1])
        if look.decision is not None:
            return look
    return look


def _taken(pool: Evidence, draw: Draw) -> Evidence:
    plain = tuple(-pool.plain[i] if swap else pool.plain[i] for i, swap in zip(draw.blocks, draw.swapped, strict=True))
    if pool.stalls is None:
        return Evidence(plain=plain)
    base, candidate = pool.stalls
    pairs = [(candidate, base) if swap else (base, candidate) for swap in draw.swapped]
    arms = [
        Stalls(
            stalled=tuple(pair[arm].stalled[i] for i, pair in zip(draw.blocks, pairs, strict=True)),
            loss=tuple(pair[arm].loss[i] for i, pair in zip(draw.blocks, pairs, strict=True)),
        )
        for arm in range(2)
    ]
    return Evidence(plain=plain, stalls=(arms[0], arms[1]))


def fill_pool(session: Session, blocks: int) -> Evidence:
    """Measure blocks of stock against itself until there are as many, or the time is out; returns what there is."""
    try:
        measure_against_itself(session, blocks)
    except (BudgetSpent, StackError) as error:
        session.narrator.line("Pool", f"stopped early: {error.message}")
    return evidence_of(session.state, session.goal, TWIN, "prove").first(blocks)


@contextmanager
def opened(stack: Stack, goal: Goal, folder: Path, no_sandbox: bool, narrator: TerminalNarrator) -> Iterator[Session]:
    """The pool's ledger: a new one, or the one of an earlier call."""
    walls = hold_walls(no_sandbox)
    if (folder / LEDGER_FILE).exists():
        with resume(folder, walls, narrator) as session:
            yield session
        return
    request = Request(
        goal=goal, stack=stack, brain=Choice(name="none", note="A/A only"), seed=SEED, run_dir=folder, walls=walls,
        command=("scripts/aa_demo.py",),
    )  # fmt: skip
    with begin(request, narrator) as session:
        yield session


def report(looks: Sequence[tuple[Draw, Look]], blocks: int) -> dict[str, Any]:
    """Counts, and each comparison's end."""
    ends = [look.decision.value if look.decision is not None else "inconclusive" for _, look in looks]
    return {
        "bench": "aa",
        "comparisons": len(looks),
        "pool_blocks": blocks,
        "pool_launches": 2 * blocks,
        "accepted": ends.count("accepted"),
        "slower": sum(look.decision is Decision.REJECTED and look.estimate.high < 1 for _, look in looks),
        "no_gain": sum(look.decision is Decision.REJECTED and look.estimate.high >= 1 for _, look in looks),
        "inconclusive": ends.count("inconclusive"),
        "as_measured": sum(draw.how == "as measured" for draw, _ in looks),
    }


def line(number: int, draw: Draw, look: Look) -> str:
    """One comparison for people."""
    found = look.estimate
    end = look.decision.value if look.decision is not None else "inconclusive"
    return (
        f"{number:>3}  {draw.how:<12} {look.blocks:>2} blocks  x{found.ratio:.4f} "
        f"[{found.low:.4f}, {found.high:.4f}]  {end}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Fill the pool, compare, print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", help="infra-agent.toml, or demo (default)", default=DEMO)
    parser.add_argument("--blocks", type=int, default=32, help="blocks of the pool, two launches each (default 32)")
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=35.0, help="most that launching may take, all calls together")
    parser.add_argument("--dir", type=Path, help="where the pool is kept (default: the user's state directory)")
    parser.add_argument("--no-sandbox", action="store_true")
    options = parser.parse_args(argv)
    try:
        with TerminalNarrator(stderr()) as narrator:
            stack = _stack(options.stack, narrator)
            goal = throughput_goal().model_copy(update={"budget_s": 60 * options.minutes})
            folder = options.dir or state_dir() / "aa" / stack_digest(stack, {})[:16]
            folder.parent.mkdir(parents=True, exist_ok=True)
            with opened(stack, goal, folder, options.no_sandbox, narrator) as session:
                pool = fill_pool(session, options.blocks)
    except KeyboardInterrupt:
        sys.stderr.write("stopped; what was measured is kept, and the same command goes on from there\n")
        return int(ExitCode.INTERRUPTED)
    except InfraAgentError as error:
        print_error(error, as_json=False)
        return int(error.exit_code)
    return conclude(pool, options.comparisons)


def _stack(reference: str, narrator: TerminalNarrator) -> Stack:
    stack, source = resolve_stack(reference, Path.cwd())
    if source == DEMO:
        return prepare_demo(lambda text: narrator.line("Set-up", text))
    validate_paths(stack)
    return stack


def conclude(pool: Evidence, comparisons: int) -> int:
    """Judge the comparisons and print them."""
    blocks = len(pool.plain)
    if blocks < LOOKS[0]:
        sys.stderr.write(f"error: only {blocks} valid blocks; a comparison needs {LOOKS[0]}\n")
        return EXIT_TOO_FEW
    looks = [(draw, compared(pool, draw)) for draw in draws(blocks, comparisons, SEED)]
    for number, (draw, look) in enumerate(looks, start=1):
        print(line(number, draw, look))
    document = report(looks, blocks)
    print(json.dumps(document, separators=(",", ":")))
    return EXIT_ACCEPTED if document["accepted"] else 0


if __name__ == "__main__":
    sys.exit(main())
