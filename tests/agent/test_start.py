"""What a run's first event holds: everything that a later session, or a person, must find there again."""

from __future__ import annotations

from pathlib import Path

from agent.sessions import GOAL

from infra_agent.agent.choose import Choice
from infra_agent.agent.start import Request, begin
from infra_agent.harness.budget.prices import FlatPrice, price_from
from infra_agent.harness.narrate import Silent
from infra_agent.harness.sandbox import NO_WALLS
from infra_agent.ledger.approvals import Authority
from infra_agent.stack.model import Stack

ATTACHED = Stack(name="s", engine="openai", model="m", url="http://127.0.0.1:9")


def test_price_source_of_the_stack_and_reviewer_are_part_of_the_contract(tmp_path: Path) -> None:
    request = Request(
        goal=GOAL,
        stack=ATTACHED,
        brain=Choice(name="playbook", note="a test"),
        seed=7,
        run_dir=tmp_path / "run",
        walls=NO_WALLS,
        command=("infra-agent", "run"),
        price=FlatPrice(input_usd=1.0, output_usd=2.0, source="given"),
        stack_source="/somewhere/infra-agent.toml",
        authority=Authority(local_key="ssh-ed25519 AAAA"),
    )
    with begin(request, Silent()) as session:
        started = session.state.started
    price = price_from(started.price)
    assert price is not None
    assert (price.input_usd, price.output_usd) == (1.0, 2.0)
    assert started.stack_source == "/somewhere/infra-agent.toml"
    assert started.reviewer_key == "ssh-ed25519 AAAA"
    assert (started.brain, started.brain_note) == ("playbook", "a test")
