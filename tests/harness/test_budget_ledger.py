"""Everything that can be spent is set aside before and charged after; no cap is passed, whoever spends."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ledger import ledger_samples as s

from infra_agent.errors import BudgetSpent, ExitCode, LedgerError
from infra_agent.goal.model import SpendingCaps
from infra_agent.harness.budget import Budget
from infra_agent.harness.budget.book import LedgerBook
from infra_agent.harness.budget.calls import reserve_call, settle_call
from infra_agent.harness.budget.prices import FlatPrice
from infra_agent.harness.budget.usage import bytes_of, gpus_used
from infra_agent.ledger import kinds as k
from infra_agent.ledger.store import Ledger

pytestmark = pytest.mark.requirement("B1")
CAPS = SpendingCaps(usd=2.0, tokens=1000, launches=3, disk_bytes=1e6, turns=2, gpu_s=60.0)
PRICE = FlatPrice(input_usd=1.0, output_usd=4.0, source="given")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "run", s.ticking()) as opened:
        opened.append(s.started())
        yield opened


def budget_of(ledger: Ledger, caps: SpendingCaps = CAPS, now_s: float = 0.0) -> Budget:
    return Budget(600.0, lambda: now_s, caps=caps, book=LedgerBook(ledger))


def kinds_in(ledger: Ledger) -> list[str]:
    return [json.loads(line)["kind"] for line in ledger.path.read_text().splitlines()]


def test_what_would_pass_a_cap_is_refused_before_it_is_spent(ledger: Ledger) -> None:
    budget = budget_of(ledger)
    budget.reserve("usd", 1.5, "a call").settle()
    with pytest.raises(BudgetSpent) as caught:
        budget.reserve("usd", 0.6, "another call")
    assert caught.value.exit_code is ExitCode.BUDGET
    assert caught.value.message == "another call needs up to 0.60 USD, and 0.50 USD of 2.00 USD are left"
    assert caught.value.hint == "raise it with --max-usd"
    assert budget.spent("usd") == 1.5
    budget.reserve("usd", 0.5, "a smaller call").settle()
    assert budget.left("usd") == 0.0


def test_a_reservation_is_an_event_before_the_act_and_its_settlement_one_after(ledger: Ledger) -> None:
    budget = budget_of(ledger)
    with budget.reserve("launches", 1, "a launch") as reservation:
        assert kinds_in(ledger) == ["run_started", "budget_reserved"]
        reservation.settle(outcome="stopped")
    assert kinds_in(ledger) == ["run_started", "budget_reserved", "budget_settled"]
    assert k.BudgetReserved.synced


def test_settled_is_what_was_used_and_may_be_less_or_more(ledger: Ledger) -> None:
    budget = budget_of(ledger)
    budget.reserve_all({"usd": 1.0, "tokens_in": 400, "tokens_out": 100}, "a call").settle({"usd": 0.25})
    assert (budget.spent("usd"), budget.spent("tokens_in", "tokens_out")) == (0.25, 500)
    budget.reserve("usd", 0.1, "a call").settle({"usd": 1.9})
    assert budget.left("usd") == 0.0
    with pytest.raises(BudgetSpent):
        budget.reserve("usd", 0.01, "one more")


def test_several_kinds_are_set_aside_together_or_not_at_all(ledger: Ledger) -> None:
    budget = budget_of(ledger)
    with pytest.raises(BudgetSpent, match="1001 tokens, and 1000 of 1000 are left"):
        budget.reserve_all({"usd": 0.1, "tokens_in": 900, "tokens_out": 101}, "a call")
    assert budget.spent("usd") == 0.0
    assert kinds_in(ledger) == ["run_started"]


def test_input_and_output_tokens_share_one_cap(ledger: Ledger) -> None:
    budget = budget_of(ledger)
    budget.reserve("tokens_in", 600, "a prompt").settle()
    with pytest.raises(BudgetSpent, match="401 tokens, and 400 of 1000 are left"):
        budget.reserve("tokens_out", 401, "an answer")


def test_without_a_cap_everything_is_counted_and_nothing_refused(ledger: Ledger) -> None:
    budget = budget_of(ledger, SpendingCaps())
    budget.reserve("usd", 1e6, "a call").settle()
    assert budget.left("usd") is None
    assert budget.spent("usd") == 1e6


def test_no_time_left_is_no_budget_left(ledger: Ledger) -> None:
    clock = iter([0.0, 601.0, 601.0])
    budget = Budget(600.0, lambda: next(clock), caps=CAPS, book=LedgerBook(ledger))
    with pytest.raises(BudgetSpent, match="all 600 s are used"):
        budget.reserve("launches", 1, "another launch")


def test_a_failure_is_charged_in_full(ledger: Ledger) -> None:
    budget = budget_of(ledger)
    with pytest.raises(ValueError, match="unreadable"), budget.reserve("usd", 0.7, "a call"):
        raise ValueError("unreadable answer")
    assert budget.spent("usd") == 0.7
    settled = [at.data for at in ledger.state().events if isinstance(at.data, k.BudgetSettled)]
    assert settled[0].outcome == "ValueError: charged in full"


def test_only_the_first_settlement_counts(ledger: Ledger) -> None:
    budget = budget_of(ledger)
    with budget.reserve("usd", 1.0, "a call") as reservation:
        reservation.settle({"usd": 0.5})
        reservation.settle({"usd": 0.1})
    assert budget.spent("usd") == 0.5


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf])
def test_an_amount_that_cannot_be_is_an_error_and_nothing_is_written(ledger: Ledger, amount: float) -> None:
    budget = budget_of(ledger, SpendingCaps())
    with pytest.raises(ValueError, match="usd"):
        budget.reserve("usd", amount, "a call")
    assert kinds_in(ledger) == ["run_started"]


def test_a_parallel_burst_never_passes_the_cap(ledger: Ledger) -> None:
    budget = budget_of(ledger, SpendingCaps(usd=2.0))
    barrier, granted, refused = threading.Barrier(16), [], []

    def child(number: int) -> None:
        barrier.wait(30)
        for _ in range(8):
            try:
                with budget.reserve("usd", 0.25, f"call of child {number}") as reservation:
                    granted.append(reservation.id)
                    assert budget.spent("usd") <= 2.0
                    reservation.settle({"usd": 0.25})
            except BudgetSpent:
                refused.append(number)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(child, range(16), timeout=120))
    assert len(granted) == len(set(granted)) == 8
    assert len(refused) == 16 * 8 - 8
    assert budget.spent("usd") == 2.0


def test_what_a_killed_process_had_set_aside_counts_in_full_after_a_resume(tmp_path: Path) -> None:
    def act() -> None:
        with Ledger.create(tmp_path / "run", s.ticking()) as opened:
            opened.append(s.started())
            budget = budget_of(opened)
            budget.reserve("usd", 0.5, "a call that ends").settle({"usd": 0.125})
            budget.reserve("usd", 1.25, "a call that is cut off")
            os.kill(os.getpid(), signal.SIGKILL)

    assert s.ended(s.in_child(act)) == -signal.SIGKILL
    with Ledger.open(tmp_path / "run", s.ticking()) as opened:
        resumed = budget_of(opened)
        assert resumed.spent("usd") == 1.375
        with pytest.raises(BudgetSpent):
            resumed.reserve("usd", 0.7, "another call")
        assert resumed.reserve("usd", 0.6, "a small call").id == "B3"


def test_a_ledger_in_which_a_settlement_has_no_reservation_cannot_have_happened(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="is not open"):
        ledger.append(k.BudgetSettled(id="B7", amounts={"usd": 1.0}))
    ledger.append(k.BudgetReserved(id="B1", what="x", amounts={"usd": 1.0}))
    with pytest.raises(LedgerError, match="open already"):
        ledger.append(k.BudgetReserved(id="B1", what="x", amounts={"usd": 1.0}))


def test_turns_are_counted_by_the_ledgers_actions(ledger: Ledger) -> None:
    budget = budget_of(ledger)
    budget.require_turn(1)
    with pytest.raises(BudgetSpent, match="its 2 turns"):
        budget.require_turn(2)


def test_a_call_is_charged_by_the_usage_that_is_named_and_in_full_without_one(ledger: Ledger) -> None:
    budget = budget_of(ledger, SpendingCaps(usd=1.0))
    call = reserve_call(budget, PRICE, tokens_in=100_000, tokens_out=50_000)
    assert call.amounts == {"tokens_in": 100_000, "tokens_out": 50_000, "usd": pytest.approx(0.3)}
    settle_call(call, PRICE, tokens_in=10_000, tokens_out=1_000, outcome="answered")
    assert budget.spent("usd") == pytest.approx(0.014)
    cut = reserve_call(budget, PRICE, tokens_in=100_000, tokens_out=50_000)
    settle_call(cut, PRICE, tokens_in=None, tokens_out=None, outcome="the stream broke")
    assert budget.spent("usd") == pytest.approx(0.314)
    with pytest.raises(BudgetSpent):
        reserve_call(budget, PRICE, tokens_in=600_000, tokens_out=50_000)


def test_disk_is_counted_in_files_and_folders_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"x" * 1000)
    (tmp_path / "log").write_bytes(b"x" * 10)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "log")
    size = (tmp_path / "a" / "link").lstat().st_size
    assert bytes_of([tmp_path / "a", tmp_path / "log", tmp_path / "log", tmp_path / "none"]) == 1020 + size


@pytest.mark.parametrize(
    ("env", "device", "count"),
    [
        ({}, None, 2),
        ({"CUDA_VISIBLE_DEVICES": "0"}, None, 1),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, None, 2),
        ({"CUDA_VISIBLE_DEVICES": ""}, None, 0),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, None, 0),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, None, 1),
        ({}, "cpu", 0),
        ({}, "cuda:0", 2),
    ],
)
def test_gpus_are_those_a_launch_may_see(env: dict[str, str], device: str | None, count: int) -> None:
    nodes = [Path("/dev") / name for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "dri")]
    assert gpus_used(nodes, env, device) == count
