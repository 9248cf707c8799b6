"""Imported once by the process from which command lines are forked: all that a run imports on its way."""

from __future__ import annotations

import infra_agent.agent.checkup
import infra_agent.agent.run
import infra_agent.agent.start
import infra_agent.cli.main
import infra_agent.cli.run
import infra_agent.harness.selftest
import infra_agent.ledger.verify
import infra_agent.publish.publish
import simulated.steady

__all__ = ["infra_agent", "simulated"]
