"""The budget of one call of a language model: the most it can cost is set aside, and what it did cost is charged.

Covered: failures, refusals, unreadable answers and cut streams (charged in full when the provider names no usage).
Not covered: making the call.
"""

from __future__ import annotations

from infra_agent.harness.budget.budget import Budget
from infra_agent.harness.budget.prices import Price
from infra_agent.harness.budget.reservation import Reservation
from infra_agent.ledger.kinds import SpendKind


def reserve_call(
    budget: Budget, price: Price, *, tokens_in: int, tokens_out: int, what: str = "a call of the model"
) -> Reservation:
    """Set aside the most that a call can use; BudgetSpent before it is made when that does not fit.

    `tokens_in`: the prompt, estimated on the high side; `tokens_out`: the limit that the request carries.
    """
    usd = price.usd(tokens_in, tokens_out)
    amounts: dict[SpendKind, float] = {"tokens_in": tokens_in, "tokens_out": tokens_out, "usd": usd}
    return budget.reserve_all(amounts, what)


def settle_call(
    reservation: Reservation,
    price: Price,
    *,
    tokens_in: int | None,
    tokens_out: int | None,
    cached_in: int = 0,
    outcome: str = "",
) -> None:
    """Charge the usage that the provider names; without one the reservation is charged in full."""
    if tokens_in is None or tokens_out is None:
        reservation.settle(outcome=outcome or "usage not named: charged in full")
        return
    usd = price.usd(tokens_in, tokens_out, cached_in)
    reservation.settle({"tokens_in": tokens_in, "tokens_out": tokens_out, "usd": usd}, outcome)
