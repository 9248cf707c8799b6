"""`infra-agent review`: what waits for a person, the evidence for it, and the person's signed decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra_agent.cli.options import JsonFlag, runs_root
from infra_agent.cli.output import print_json, print_lines, print_notes
from infra_agent.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from infra_agent.cli.gates import Gate
    from infra_agent.review.approval import Decision
    from infra_agent.review.sign import SigningKey

app = typer.Typer(help="Review: changes that wait for a person's signed decision.", no_args_is_help=True)
GateRef = Annotated[str, typer.Argument(help="RUN/CANDIDATE, e.g. last/C3; the run alone when only one change waits.")]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key", help="Key to sign with: an SSH key or one of infra-agent's. Default: your reviewer key."),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is signed, kept in the ledger and shown to the brain.")]


@app.command("list")
def list_(as_json: JsonFlag = False) -> int:
    """Everything that waits, in all runs. JSON keys: waiting[{run, candidate, title, risk, reasons, signed, needed,
    request_id, confirm, since, command}], unreadable[].
    """
    from infra_agent.cli.gates import gate_row, waiting_gates

    gates, unreadable = waiting_gates(runs_root())
    rows = [gate_row(gate) for gate in gates]
    if as_json:
        print_json({"waiting": rows, "unreadable": unreadable})
        return 0
    for row in rows:
        signed = f"{len(row['signed'])} of {row['needed']} signed"
        print_lines([f"{row['run']}/{row['candidate']}  {row['risk']:<12} {row['title']}  ({signed})"])
        print_lines([f"{'':28}{row['command']}"])
    if not rows:
        print_lines(["Nothing waits for a decision."])
    if unreadable:
        print_notes([f"not readable: {', '.join(unreadable)}; infra-agent runs verify RUN says why"])
    return 0


@app.command("show")
def show(ref: GateRef, as_json: JsonFlag = False) -> int:
    """The evidence pack: claim, change, cause, figures, answers, gaps, how to reproduce and undo, what a yes does.

    JSON: the pack; `request` is what would be signed, `confirm` the beginning of its digest.
    """
    from infra_agent.cli.gates import find_gate
    from infra_agent.publish.review.text import pack_lines

    pack = find_gate(runs_root(), ref).pack()
    if as_json:
        print_json(pack.model_dump(mode="json"))
    else:
        print_lines(pack_lines(pack))
    return 0


@app.command("approve")
def approve(
    ref: GateRef,
    key: KeyFile = None,
    reason: Reason = "",
    reviewed: Annotated[
        str, typer.Option("--yes-i-reviewed", help="Without a terminal: the first 12 characters of the request's id.")
    ] = "",
    as_json: JsonFlag = False,
) -> int:
    """Approve a change. At a terminal the evidence is shown and the candidate's id has to be typed; Enter means no.

    Without a terminal both --key and --yes-i-reviewed are needed. Exit 0 signed, 3 not approved, 2 approval refused.
    JSON keys: run, candidate, decision, status, signed[], needed, reviewer, fingerprint, request_id, file, next.
    """
    from infra_agent.cli import confirm
    from infra_agent.cli.gates import find_gate
    from infra_agent.publish.review.text import pack_lines

    gate = find_gate(runs_root(), ref)
    gate.require_open()
    gate.require_sound()
    terminal = confirm.at_terminal()
    if not terminal:
        _require_reviewed(gate, key, reviewed)
    signing = _open_key(key, create=terminal)
    gate = gate.refreshed()
    gate.require_reviewer(signing.public)
    if terminal:
        for line in pack_lines(gate.pack()):
            print_notes([line])
        if not confirm.typed(gate.id):
            return _not_approved(gate, as_json)
    return _decide(gate, signing, "approve", reason, as_json)


@app.command("reject")
def reject(ref: GateRef, reason: Reason = "", key: KeyFile = None, as_json: JsonFlag = False) -> int:
    """Turn a change down for good: the run concludes without it. JSON keys as of approve."""
    return _say_no(ref, "reject", reason, key, as_json)


@app.command("request-changes")
def request_changes(ref: GateRef, reason: Reason = "", key: KeyFile = None, as_json: JsonFlag = False) -> int:
    """Ask for something else: the change is closed, and `runs resume` lets the brain go on. JSON keys as of approve."""
    return _say_no(ref, "request_changes", reason, key, as_json)


@app.command("key")
def key_(
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Protect a new key with a passphrase.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Show your reviewer key, and make it when there is none. JSON keys: path, public_key, fingerprint, created."""
    from infra_agent.cli import confirm
    from infra_agent.review.keys import PublicKey
    from infra_agent.review.local import PRIVATE_FILE, config_dir, local_public_key
    from infra_agent.review.sign import create_key, restore_public

    line, path = local_public_key(), config_dir() / PRIVATE_FILE
    created = not line and not path.exists()
    if not line and not created:
        restore_public(config_dir(), confirm.user_name(), confirm.passphrase)
        line = local_public_key()
    if created:
        secret = confirm.new_passphrase() if passphrase else None
        if passphrase and secret is None:
            raise UsageError(
                "no passphrase was given twice alike", hint="run it at a terminal, or without --passphrase"
            )
        create_key(config_dir(), confirm.user_name(), secret)
        line = local_public_key()
    public = PublicKey.of_line(line)
    if as_json:
        print_json({"path": str(path), "public_key": line, "fingerprint": public.fingerprint, "created": created})
        return 0
    print_lines([f"{'made' if created else 'kept'}         {path}", f"public key   {line}"])
    print_lines([f"fingerprint  {public.fingerprint}", "To name it in infra-agent.toml:", "[[review.reviewers]]"])
    print_lines([f'name = "{confirm.user_name()}"', f'key = "{line}"'])
    return 0


def _require_reviewed(gate: Gate, key: Path | None, reviewed: str) -> None:
    """Without a person at a terminal: a key named on purpose, and a digest that only who looked at the request has."""
    from infra_agent.errors import ApprovalRefused
    from infra_agent.publish.review.pack import CONFIRM_CHARACTERS

    if key is None or not reviewed:
        raise UsageError(
            "without a terminal an approval needs --key FILE and --yes-i-reviewed DIGEST",
            hint=f"the first {CONFIRM_CHARACTERS} characters of the request in `infra-agent review show {gate.ref}`",
        )
    wanted = reviewed.lower()
    if len(wanted) < CONFIRM_CHARACTERS or not gate.request.id.startswith(wanted):
        raise ApprovalRefused(
            f"request digest: what was given is not the beginning of it ({CONFIRM_CHARACTERS} characters at least)",
            hint=f"infra-agent review show {gate.ref}",
        )


def _open_key(path: Path | None, create: bool) -> SigningKey:
    """The key to sign with. The user's own is made at the first decision at a terminal, with a plain word about it."""
    from infra_agent.cli import confirm
    from infra_agent.review.local import PRIVATE_FILE, config_dir
    from infra_agent.review.sign import create_key, open_key

    own = config_dir() / PRIVATE_FILE
    if path is None and create and not own.exists():
        public = create_key(config_dir(), confirm.user_name())
        text = f"You had no reviewer key yet: made {own} ({public.fingerprint}). It never leaves this machine."
        print_notes([text])
    return open_key(path.expanduser() if path is not None else own, confirm.passphrase)


def _not_approved(gate: Gate, as_json: bool) -> int:
    if as_json:
        print_json({"run": gate.run_dir.name, "candidate": gate.id, "decision": None, "status": "waiting"})
    else:
        print_lines([f"Not approved. {gate.id} waits as before."])
    return int(ExitCode.WAITING)


def _say_no(ref: str, decision: Decision, reason: str, key: Path | None, as_json: bool) -> int:
    from infra_agent.cli import confirm
    from infra_agent.cli.gates import find_gate

    if not reason.strip():
        raise UsageError("a reason is needed: it is what the run goes on with", hint='--reason "..."')
    gate = find_gate(runs_root(), ref)
    gate.require_open()
    signing = _open_key(key, create=confirm.at_terminal())
    return _decide(gate.refreshed(), signing, decision, reason, as_json)


def _decide(gate: Gate, signing: SigningKey, decision: Decision, reason: str, as_json: bool) -> int:
    """Sign, store, and let the run take it in, unless a live run does that itself."""
    from infra_agent.review.sign import sign_grant

    signed = sign_grant(gate.grant(decision, signing.public, reason.strip()), signing)
    done: dict[str, Any] = gate.record(signed)
    done["fingerprint"] = signing.public.fingerprint
    if as_json:
        print_json(done)
        return 0
    names = ", ".join(done["signed"])
    print_lines([f"{decision.replace('_', ' ')}: {gate.ref}, signed by {names} ({signing.public.fingerprint})"])
    print_lines([f"status   {done['status']}", f"next     {done['next']}"])
    return 0
