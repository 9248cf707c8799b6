"""Runs whose ledger holds a proved candidate at its gate, on real files, and people with real keys. No engine runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tomli_w
from ledger import ledger_samples as samples

from infra_agent.changes.change import settings_digest
from infra_agent.goal.files import dump_goal
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import Authority, gate_event, recorded_policy, request_of
from infra_agent.ledger.chain import LEDGER_FILE, read_chain
from infra_agent.ledger.decision_files import write_decision
from infra_agent.ledger.decisions import Ruling, take_in
from infra_agent.ledger.event import GENESIS, encode, seal
from infra_agent.ledger.fold import fold
from infra_agent.ledger.state import RunState
from infra_agent.ledger.store import Ledger
from infra_agent.review.approval import Decision, Grant, SignedGrant, as_text
from infra_agent.review.request import ApprovalRequest
from infra_agent.review.sign import SigningKey, create_key, open_key, sign_grant
from infra_agent.stack.digest import stack_digest
from infra_agent.stack.files import dump_stack, load_stack

NOW = datetime(2026, 11, 30, 13, 0, tzinfo=UTC)
RUN_ID = "01KBCDEFGHJKMNPQRSTVWXYZ01"
NONCE = "0123456789abcdef0123456789abcdef"


def nobody(_: str) -> bytes | None:
    return None


@dataclass(frozen=True)
class Person:
    """A reviewer with a key of their own."""

    name: str
    signing: SigningKey

    @property
    def line(self) -> str:
        return f"{self.signing.public.line} {self.name}"

    def entry(self, **extra: Any) -> dict[str, Any]:
        """Their entry in a [review] table."""
        return {"name": self.name, "key": self.line, **extra}


def person(folder: Path, name: str) -> Person:
    """Makes a key in a folder of its own."""
    create_key(folder / name, name)
    return Person(name, open_key(folder / name / "reviewer.key", nobody))


def write_stack(folder: Path, review: dict[str, Any] | None = None) -> Path:
    """A stack file with a model of one small file, and perhaps a [review] table."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text("{}")
    (folder / "prompts.jsonl").write_text('{"prompt": "Say something."}\n')
    document: dict[str, Any] = {
        "stack": {"name": "s", "engine": "transformers", "model": str(model)},
        "space": {"dtype": ["float32"], "continuous_batching": [True]},
        "workload": {"prompts": "./prompts.jsonl"},
        "reference": {"oracle": "none"},
    }
    if review is not None:
        document["review"] = review
    path = folder / "infra-agent.toml"
    path.write_text(tomli_w.dumps(document))
    return path


@dataclass
class Waiting:
    """A run that ended waiting for a person to decide on C2."""

    run_dir: Path
    stack_file: Path
    local_key: str = ""
    now: list[datetime] = field(default_factory=lambda: [NOW])

    @property
    def authority(self) -> Authority:
        return Authority(local_key=self.local_key, clock=lambda: self.now[0])

    def state(self) -> RunState:
        return fold(read_chain(self.run_dir).events)

    def request(self, id: str = "C2") -> ApprovalRequest:
        return request_of(self.state(), id)

    def grant(self, by: Person, decision: Decision = "approve", id: str = "C2", **fields: Any) -> SignedGrant:
        """A decision as the command line would sign it."""
        now = self.now[0]
        expires_s = recorded_policy(self.state(), self.local_key).expires_s
        content = {
            "request": self.request(id).id, "decision": decision, "reviewer": by.name, "time": as_text(now),
            "expires": as_text(now + timedelta(seconds=expires_s)), "nonce": fresh_nonce(), "reason": "",
        }  # fmt: skip
        return sign_grant(Grant.model_validate(content | fields), by.signing)

    def decide(self, by: Person, decision: Decision = "approve", id: str = "C2", **fields: Any) -> Path:
        """Sign, and leave the decision file for whoever writes the run next."""
        return write_decision(self.run_dir, self.request(id), self.grant(by, decision, id, **fields))

    def take_in(self) -> list[Ruling]:
        with Ledger.open(self.run_dir, lambda: self.now[0]) as ledger:
            return take_in(ledger, self.authority)

    def edit(self, kind: str, change: Callable[[dict[str, Any]], None], index: int = 0) -> None:
        """Rewrite one event and all hashes after it, as somebody with the files in hand could."""
        events, prev, seen = [], GENESIS, 0
        for event in read_chain(self.run_dir).events:
            data = json.loads(json.dumps(dict(event.data)))
            if event.kind == kind:
                if seen == index:
                    change(data)
                seen += 1
            sealed = seal(seq=event.seq, prev=prev, ts=event.ts, kind=event.kind, data=data)
            events.append(sealed)
            prev = sealed.hash
        assert seen > index
        (self.run_dir / LEDGER_FILE).write_bytes(b"".join(map(encode, events)))


_counter = iter(range(1, 10**9))


def fresh_nonce() -> str:
    return f"{next(_counter):032x}"


def waiting_run(
    folder: Path,
    review: dict[str, Any] | None = None,
    *,
    local: Person | None = None,
    recorded_key: str | None = None,
    risk: str = "numerics",
    also: Sequence[str] = (),
    run_id: str = RUN_ID,
    finished: bool = True,
) -> Waiting:
    """A run with C1 accepted (routine) and C2, built on it, at its gate. `also`: further candidates that wait."""
    folder.mkdir(parents=True, exist_ok=True)
    stack_file = write_stack(folder, review)
    run_dir = folder / "runs" / run_id
    stack = load_stack(stack_file)
    digest = stack_digest(stack, {})
    local_key = local.line if local is not None else ""
    with Ledger.create(run_dir, samples.ticking()) as ledger:
        artifact = ledger.put_artifact(b"a log")
        started = samples.started(
            run_id=run_id, stack=stack, stack_digest=digest, stack_source=str(stack_file), walls={"mode": "none"},
            reviewer_key=local_key if recorded_key is None else recorded_key, brain="script",
        )  # fmt: skip
        (run_dir / "goal.toml").write_text(dump_goal(started.goal))
        (run_dir / "stack.toml").write_text(dump_stack(stack))
        ledger.append(started)
        ledger.append(k.WorkspaceReady(sources=(), tree="0" * 64, numeric=False, wall_s=0.1))
        ledger.append(samples.phase("tuning", 1.0))
        ledger.append(samples.launch("L1"))
        ledger.append(samples.launch_ended("L1", log_artifact=artifact))
        ledger.append(samples.observation("O1", verdict="pass", value=25.25))
        ledger.append(candidate("C1", digest, {"continuous_batching": True}, "routine", "stock"))
        ledger.append(samples.verdict("C1"))
        ledger.append(samples.accepted("C1"))
        for id in ("C2", *also):
            settings = {"continuous_batching": True, "dtype": "float32", **({} if id == "C2" else {"extra": id})}
            ledger.append(candidate(id, digest, settings, risk, "C1"))
            ledger.append(samples.observation(f"O{id}", id, verdict="pass", value=80.5))
            ledger.append(samples.verdict(id))
            ledger.append(gate_event(run_dir, ledger.state(), id))
        if finished:
            ledger.append(samples.phase("done", 250.0))
            ledger.append(samples.finished("waiting"))
    return Waiting(run_dir, stack_file, local_key)


def candidate(id: str, stack: str, settings: dict[str, Any], risk: str, base: str) -> k.CandidateProposed:
    return k.CandidateProposed(
        id=id, title=f"candidate {id}", hypothesis="", base=base,
        changes=tuple({"parameter": name, "value": value, "before": None} for name, value in settings.items()),
        settings=settings, digest=settings_digest(stack, settings), risk=risk, risk_reasons=("data type is gated",),
        family="dtype", lane="agent",
    )  # fmt: skip
