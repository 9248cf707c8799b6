"""Every way to tamper with an approval, tried on real files and keys, as a table: `make tamper-table`.

Each attack stands alone on a run of its own; the ledger must be as it was before. Exit 0 only when all are refused.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from review.test_tampering import AFTER_SIGNING, EDITED_FILES, flip, rewrite, table
from review.waiting import NOW, RUN_ID, Person, Waiting, person, waiting_run

from infra_agent.agent.decisions import require_decided
from infra_agent.changes.change import settings_digest
from infra_agent.errors import ApprovalRefused
from infra_agent.ledger import artifacts
from infra_agent.ledger.chain import LEDGER_FILE
from infra_agent.ledger.decision_files import write_decision
from infra_agent.review.approval import as_text

Attack = Callable[[Path, Person, Person], Waiting]


@dataclass(frozen=True)
class Row:
    """One attack: what was done, whether it was refused, and in which words."""

    name: str
    refused: bool
    said: str


def edited(name: str) -> Attack:
    def attack(folder: Path, alice: Person, _: Person) -> Waiting:
        run = waiting_run(folder, local=alice)
        run.decide(alice)
        AFTER_SIGNING[name][0](run)
        return run

    return attack


def forged(name: str) -> Attack:
    def attack(folder: Path, alice: Person, _: Person) -> Waiting:
        run = waiting_run(folder, local=alice)
        rewrite(run.decide(alice, "reject", reason="no"), EDITED_FILES[name][0])
        return run

    return attack


def edited_diff(folder: Path, alice: Person, _: Person) -> Waiting:
    run = waiting_run(folder, local=alice)
    name = artifacts.put(run.run_dir, b"--- a/x\n+++ b/x\n")
    state = run.state()
    digest = settings_digest(state.started.stack_digest, state.candidates["C2"].proposed.settings, (name,))
    run.edit("candidate", lambda data: data.update(patches=[name], digest=digest), 1)
    run.edit("waiting", lambda data: data.update(request=""))
    run.decide(alice)
    flip(run.run_dir / "artifacts" / name)
    return run


def other_run(folder: Path, alice: Person, _: Person) -> Waiting:
    here = waiting_run(folder / "a", local=alice)
    there = waiting_run(folder / "b", local=alice, run_id=RUN_ID[:-1] + "2")
    (here.run_dir / "approvals").mkdir()
    shutil.copy(there.decide(alice), here.run_dir / "approvals")
    return here


def other_candidate(folder: Path, alice: Person, _: Person) -> Waiting:
    run = waiting_run(folder, local=alice, also=("C3",))
    write_decision(run.run_dir, run.request("C2"), run.grant(alice, id="C3"))
    return run


def expired(folder: Path, alice: Person, _: Person) -> Waiting:
    run = waiting_run(folder, local=alice)
    run.decide(alice, expires=as_text(NOW + timedelta(hours=1)))
    run.now[0] = NOW + timedelta(hours=2)
    return run


def from_the_future(folder: Path, alice: Person, _: Person) -> Waiting:
    run = waiting_run(folder, local=alice)
    run.decide(alice, time=as_text(NOW + timedelta(hours=1)))
    return run


def replayed(folder: Path, alice: Person, _: Person) -> Waiting:
    run = waiting_run(folder, local=alice, also=("C3",))
    run.decide(alice, nonce="ab" * 16)
    run.take_in()
    run.decide(alice, id="C3", nonce="ab" * 16)
    return run


def by(review: Callable[[Person, Person], dict[str, Any] | None], signer: int, **fields: Any) -> Attack:
    """A decision signed by alice (0) or bob (1) under a table of reviewers; None: alice's own key alone."""

    def attack(folder: Path, alice: Person, bob: Person) -> Waiting:
        found = review(alice, bob)
        run = waiting_run(folder, found, local=alice if found is None else None)
        run.decide((alice, bob)[signer], **fields)
        return run

    return attack


ATTACKS: dict[str, Attack] = {
    "edited diff": edited_diff,
    "a decision of another run": other_run,
    "a decision on another candidate": other_candidate,
    "expired": expired,
    "signed in the future": from_the_future,
    "replayed": replayed,
    "wrong key": by(lambda _a, _b: None, 1),
    "wrong key, a reviewer's name": by(lambda a, _: table(a.entry()), 1, reviewer="alice"),
    "one reviewer as another": by(lambda a, b: table(a.entry(), b.entry()), 1, reviewer="alice"),
    "reviewer not allowed for the class": by(lambda a, b: table(a.entry(classes=["memory"]), b.entry()), 0),
    "reviewer whose time is over": by(lambda a, _: table(a.entry(valid_until="2026-11-30T12:30:00Z")), 0),
    "one of two persons": by(lambda a, b: table(a.entry(), b.entry(), required={"numerics": 2}), 0),
    **{f"edited after signing: {name}": edited(name) for name in AFTER_SIGNING},
    **{f"edited decision: {name}": forged(name) for name in EDITED_FILES},
}


def rows() -> list[Row]:
    """Try them all."""
    with tempfile.TemporaryDirectory(prefix="infra-agent-tamper-") as folder:
        people = Path(folder) / "people"
        alice, bob = person(people, "alice"), person(people, "bob")
        return [tried(Path(folder) / str(n), name, alice, bob) for n, name in enumerate(ATTACKS)]


def tried(folder: Path, name: str, alice: Person, bob: Person) -> Row:
    run = ATTACKS[name](folder, alice, bob)
    before = (run.run_dir / LEDGER_FILE).read_bytes()
    try:
        run.take_in()
        # Too few persons are no error yet: the run may not go on with it.
        require_decided(run.run_dir, run.state(), run.authority)
    except ApprovalRefused as error:
        unchanged = (run.run_dir / LEDGER_FILE).read_bytes() == before
        return Row(name, unchanged, error.what)
    return Row(name, False, "TAKEN IN")


def main() -> int:
    """Print the table."""
    found = rows()
    for row in found:
        sys.stdout.write(f"{'refused' if row.refused else 'NOT REFUSED':<12} {row.name:<58} {row.said[:90]}\n")
    refused = sum(row.refused for row in found)
    sys.stdout.write(f"{refused} of {len(found)} refused\n")
    return 0 if refused == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
