"""`make bench-brain`: what the LLM brain costs outside the model, turn by turn of a recorded demo run.

Each turn is done again on the ledger as it was then: dossier, prompt, question stored, answer parsed and stored, with a
model that answers at once. Prints tokens (estimated, on the high side) and milliseconds; 1 when a limit is passed.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from infra_agent.agent.brains.llm import prompt
from infra_agent.agent.brains.llm.brain import LlmBrain
from infra_agent.agent.brains.llm.client import Endpoint
from infra_agent.agent.brains.llm.tokens import estimate_document
from infra_agent.agent.brains.llm.types import Answer, Credentials, LlmSettings, Mode, ToolCall, Usage
from infra_agent.agent.brains.playbook import PlaybookBrain
from infra_agent.agent.calling import RunAccounts
from infra_agent.agent.journal import LedgerJournal
from infra_agent.agent.telemetry import Spans
from infra_agent.agent.view import build_dossier
from infra_agent.harness.budget import Budget
from infra_agent.harness.budget.book import LedgerBook
from infra_agent.harness.budget.prices import FlatPrice
from infra_agent.harness.narrate import Silent
from infra_agent.harness.oracle import OracleHolder
from infra_agent.harness.retry import Seams
from infra_agent.harness.sandbox import NO_WALLS
from infra_agent.harness.session import Session
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.clock import session_clock
from infra_agent.ledger.event import parse
from infra_agent.ledger.store import Ledger
from infra_agent.library.playbooks import load_playbooks
from infra_agent.stack.engines import engine_of

RECORDED = Path(__file__).parent.parent / "tests" / "agent" / "llm" / "data" / "demo_run.jsonl.gz"
MOST_TOKENS = 6_000
MOST_MS = 200.0
FREE = FlatPrice(input_usd=0.0, output_usd=0.0, source="nothing is sent")
NONCE = "0" * 32


class Turn(NamedTuple):
    """One turn: tokens of the dossier and of the whole request, and the time outside the model."""

    turn: int
    dossier_tokens: int
    request_tokens: int
    milliseconds: float


class Instant(Endpoint):
    """A model that answers at once."""

    def chat(self, body: Mapping[str, Any], stream: bool, timeout_s: float) -> Answer:
        """One tool call that costs nothing to carry out."""
        return Answer(calls=(ToolCall("c0", "consult", "{}"),), finish="tool_calls", usage=Usage(input=1, output=1))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ledger", nargs="?", type=Path, default=RECORDED, help="events.jsonl of a run, may be gzipped")
    lines = _lines(parser.parse_args().ledger)
    turns = [_turn(lines[:end]) for end in _before_each_action(lines)]
    print(f"{'turn':>4} {'dossier':>8} {'request':>8} {'ms':>7}")
    for turn in turns:
        print(f"{turn.turn:>4} {turn.dossier_tokens:>8} {turn.request_tokens:>8} {turn.milliseconds:>7.1f}")
    tokens, slowest = max(turn.dossier_tokens for turn in turns), max(turn.milliseconds for turn in turns)
    median = statistics.median(turn.milliseconds for turn in turns)
    print(
        f"largest dossier {tokens} of {MOST_TOKENS} tokens; outside the model {median:.0f} ms a turn (median), "
        f"{slowest:.0f} ms the slowest of {len(turns)}, limit {MOST_MS:.0f} ms"
    )
    return int(tokens > MOST_TOKENS or slowest > MOST_MS)


def _lines(path: Path) -> list[bytes]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.splitlines(keepends=True)


def _before_each_action(lines: list[bytes]) -> Iterator[int]:
    """Where the brain was asked: after the tuning phase began, and after each action but the last."""
    kinds = [parse(line).kind for line in lines]
    yield next(index + 1 for index, kind in enumerate(kinds) if kind == "phase")
    yield from [index + 1 for index, kind in enumerate(kinds) if kind == "action"][:-1]


def _turn(lines: list[bytes]) -> Turn:
    with tempfile.TemporaryDirectory(prefix="infra-agent-bench-") as folder:
        run_dir = Path(folder) / "run"
        run_dir.mkdir()
        (run_dir / LEDGER_FILE).write_bytes(b"".join(lines))
        with Ledger.open(run_dir, session_clock()) as ledger:
            return _measured(_session(ledger))


def _session(ledger: Ledger) -> Session:
    state = ledger.state()
    stack = state.started.stack
    return Session(
        ledger=ledger,
        goal=state.started.goal,
        stack=stack,
        engine=engine_of(stack),
        walls=NO_WALLS,
        run_dir=ledger.run_dir,
        narrator=Silent(),
        budget=Budget(state.started.budget_s, time.monotonic, state.elapsed_s, book=LedgerBook(ledger)),
        clock=time.monotonic,
        seed=state.started.seed,
        prompts=(),
        answer_prompts=(),
        oracle=OracleHolder(stack, NO_WALLS, ledger.run_dir / "oracle"),
    )


def _measured(session: Session) -> Turn:
    settings = LlmSettings(model="instant", base_url="http://127.0.0.1:9/v1")
    seams = Seams(clock=time.monotonic, sleep=time.sleep, random=lambda: 0.0, now=lambda: datetime.now(UTC))
    accounts = RunAccounts(session.budget, FREE, 60.0, seams)
    journal = LedgerJournal(session, settings.model, accounts, Spans("bench"))
    journal.choose(Mode("tools"), "bench")
    endpoint = Instant(settings, Credentials(), time.monotonic)
    brain = LlmBrain(settings, endpoint, journal, PlaybookBrain(load_playbooks()), NONCE)
    build_dossier(session, "agent")
    started_s = time.perf_counter()
    dossier = build_dossier(session, "agent")
    brain.next(dossier)
    milliseconds = 1000 * (time.perf_counter() - started_s)
    rendered = prompt.render(dossier, MOST_TOKENS, NONCE)
    asked = list(session.state.llm_calls.values())[-1].asked
    request = estimate_document(prompt.messages(rendered.text, "tools"))
    return Turn(dossier.turn, rendered.tokens, max(request, asked.reserved_input_tokens), milliseconds)


if __name__ == "__main__":
    sys.exit(main())
