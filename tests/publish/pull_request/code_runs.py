"""Finished runs on disk whose changes can be proposed: code of a small repository, launch settings, or both."""

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger import ledger_samples as samples
from publish.sample_run import GOAL, STOCK_TOK_PER_S, Run, answers, baseline, prove
from simulated.own import GIT_ENV

from infra_agent.changes.change import PatchChange
from infra_agent.changes.parse import parse
from infra_agent.changes.sources import resolve_sources
from infra_agent.changes.workspace import build_workspace
from infra_agent.ledger import kinds as k
from infra_agent.ledger.approvals import Authority
from infra_agent.ledger.artifacts import put
from infra_agent.ledger.code_kinds import PatchMade, SourceTaken
from infra_agent.publish.publish import load_state
from infra_agent.publish.pull_request.package import FOLDER, Order, Package, make_package
from infra_agent.redact.masker import NO_SECRETS, Masker
from infra_agent.stack.model import LaunchSpec, Stack

RUN_ID = "01KBCDEFGHJKMNPQRSTVWXYZ01"
SERVER = """\
import time


def answer(text: str) -> str:
    time.sleep(0.03)
    return text


def health() -> int:
    return 200
"""
FASTER = SERVER.replace("    time.sleep(0.03)\n", "")
SHORTER = FASTER.replace("    return text\n", "    return text.strip()\n")


def git(folder: Path, *words: str) -> str:
    """Git as a person would use it."""
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, env=GIT_ENV, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, files: Mapping[str, str]) -> Path:
    """A repository with one commit on `main`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder.parent, "init", "-q", "-b", "main", folder.name)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def diff(before: str, after: str, name: str = "server.py") -> str:
    lines = [text.splitlines(keepends=True) for text in (before, after)]
    return "".join(difflib.unified_diff(lines[0], lines[1], f"a/{name}", f"b/{name}"))


def code_run(
    folder: Path, *diffs: str, source: Path | None = None, risk: str = "routine", settings: bool = False, **started: Any
) -> Path:
    """A run that accepted these diffs one on top of the other, and perhaps a launch setting after them."""
    run = Run(run_id=RUN_ID, stack=_stack(source), version="0.1.0", goal=GOAL, **started)
    if source is not None:
        taken = SourceTaken(name=source.name, origin=str(source), kind="directory", files=1, size_bytes=1)
        run.add(k.WorkspaceReady(sources=(taken,), tree="0" * 64, numeric=False, wall_s=0.1))
    baseline(run)
    base, patches = "stock", ()
    for number, text in enumerate(diffs, start=1):
        patch = _patch(text)
        patches = (*patches, patch.digest)
        _accept(run, f"C{number}", base, risk, patch=patch, patches=patches)
        base = f"C{number}"
    if settings:
        _setting(run, base, patches)
    _finish(run)
    run_dir = folder / "runs" / RUN_ID
    samples.write(run_dir, [event.data for event in run.state.events])
    for text in diffs:
        put(run_dir, PatchChange.of(parse(text)).diff.encode())
    if source is not None:
        stack = _stack(source)
        build_workspace(run_dir, resolve_sources(stack), patchable=(), protected=(), judged_by=(), when_s=0)
    return run_dir


def order(run_dir: Path, **fields: Any) -> Order:
    return Order(run_dir=run_dir, folder=run_dir / FOLDER, authority=Authority(local_key=""), **fields)


def package(run_dir: Path, masker: Masker = NO_SECRETS, **fields: Any) -> Package:
    return make_package(order(run_dir, **fields), load_state(run_dir), masker)


def _stack(source: Path | None) -> Stack:
    return Stack(
        name="own server", engine="transformers", model="/models/smol",
        launch=LaunchSpec(python="/opt/python", parameters={"cb_num_blocks": 64}),
        sources=(str(source),) if source is not None else (), space={"continuous_batching": (True,)},
    )  # fmt: skip


def _patch(text: str) -> PatchMade:
    change = PatchChange.of(parse(text))
    return PatchMade(
        diff=change.diff, digest=change.digest, artifact=change.digest, files=change.files, added=1, removed=1
    )


def _accept(run: Run, id: str, base: str, risk: str, **fields: Any) -> None:
    number = int(id[1:])
    run.hypothesis(number, "code", "each answer waits for nothing", 1.5, 3.5)
    document = {
        "id": id, "title": f"no pause {id}", "hypothesis": f"H{number}", "base": base, "changes": (), "settings": {},
        "digest": f"{ord(id[1]):064x}", "risk": risk, "risk_reasons": ("other code",), "family": "code",
        "lane": "agent", "tree": "1" * 64,
    }  # fmt: skip
    run.add(k.CandidateProposed.model_validate(document | fields))
    seen = run.observe(id, "answers", answers(6, 2, 0))
    proved = prove(run, id, 2.4, blocks=3)
    run.verdict(id, "accepted", "proved", "load", "significant", (seen,), estimate=proved)
    run.add(k.Accepted(candidate=id, gate=f"class {risk}: no approval needed", elapsed_s=run.elapsed_s))


def _setting(run: Run, base: str, patches: Sequence[str]) -> None:
    fields = {
        "changes": ({"parameter": "continuous_batching", "value": True, "before": None},),
        "settings": {"cb_num_blocks": 64, "continuous_batching": True}, "patches": tuple(patches),
        "title": "continuous batching",
    }  # fmt: skip
    _accept(run, "C9", base, "numerics-minor", **fields)


def _finish(run: Run) -> None:
    run.phase("final")
    for index in range(1, 4):
        run.block(run.state.best, "stock", (STOCK_TOK_PER_S, STOCK_TOK_PER_S * 2.4), "final", index)
    last = [b for b in run.state.candidates[run.state.best].blocks if b.stage == "final"]
    found = samples.ESTIMATE.model_copy(update={"ratio": 2.41, "low": 2.2, "high": 2.6, "n": 3})
    run.add(
        k.FinalMeasured(
            candidate=run.state.best, arms=("stock", run.state.best), search_seeds=(101,), seeds=(901, 902, 903),
            estimate=found, stock_value=last[0].base_value or 0.0, candidate_value=last[0].candidate_value or 0.0,
        )
    )  # fmt: skip
    run.phase("done")
    run.add(k.RunFinished(outcome="met", exit_code=0, sentence="Goal met.", elapsed_s=run.elapsed_s))
