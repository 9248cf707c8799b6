"""The ledger is where secrets stop: events and artifacts hold none, in no encoding, and still verify."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from ledger import ledger_samples as s

from infra_agent.ledger import kinds as k
from infra_agent.ledger.store import Ledger
from infra_agent.ledger.verify import verify
from infra_agent.redact.masker import Masker

pytestmark = pytest.mark.requirement("S1")
SECRET = 'sk-canary-"quoted"-0123456789'
ENCODED = base64.b64encode(f"user:{SECRET}".encode()).decode()


def bytes_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_events_hold_no_secret_in_any_form_and_verify(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "run", s.ticking(), Masker([SECRET])) as ledger:
        ledger.append(s.started())
        ledger.append(k.Note(topic="info", text=f"the engine said {SECRET}"))
        ledger.append(k.ActionRefused(turn=0, action=json.dumps({"cause": SECRET}), error=ENCODED))
        ledger.append(k.Note(topic="info", text="\u200b".join(SECRET)))
        texts = [note.text for note in ledger.state().notes]
    stored = bytes_below(tmp_path)
    assert b"canary" not in stored
    assert ENCODED[8:24].encode() not in stored
    assert texts == ["the engine said ***", "***"]
    assert verify(tmp_path / "run").ok


def test_what_is_in_memory_is_what_is_read_back(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "run", s.ticking(), Masker([SECRET])) as ledger:
        ledger.append(s.started())
        ledger.append(k.Note(topic="info", text=SECRET))
        before = ledger.state()
    with Ledger.open(tmp_path / "run", s.ticking()) as ledger:
        assert ledger.state() == before


def test_artifacts_hold_no_secret_and_their_name_is_the_digest_of_what_is_stored(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(b"x" * (1 << 20) + f" API_KEY={SECRET}\n".encode() + b"\xff\xfe binary stays\n")
    with Ledger.create(tmp_path / "run", s.ticking(), Masker([SECRET])) as ledger:
        ledger.append(s.started())
        names = [ledger.put_artifact(log), ledger.put_artifact(f"{ENCODED} {SECRET}".encode())]
        ledger.append(
            k.LaunchStarted(
                id="L1", candidate="stock", arm="stock", purpose="baseline", lane="agent", settings={}, argv=("x",)
            )
        )
        ledger.append(k.LaunchEnded(id="L1", outcome="stopped", ready_s=1.0, wall_s=1.0, log_artifact=names[0]))
        kept = ledger.artifact_path(names[0]).read_bytes()
    assert kept.endswith(b" API_KEY=***\n\xff\xfe binary stays\n")
    assert b"canary" not in bytes_below(tmp_path / "run")
    assert verify(tmp_path / "run").ok
