"""The one budget of a run: everything that can be spent is set aside before, and charged after."""

from infra_agent.harness.budget.budget import Budget
from infra_agent.harness.budget.reservation import Reservation

__all__ = ["Budget", "Reservation"]
