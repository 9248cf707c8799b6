"""What was not measured, what was degraded, what was refused: absence is a line, never a zero.

Covered: notes of the ledger, and lines derived from what is missing in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra_agent.changes.change import STOCK
from infra_agent.ledger import kinds as k
from infra_agent.publish.report.facts import Facts, json_safe, label, split_name
from infra_agent.publish.report.model import FailedLaunch, Gap, NoteRow, ObservationRow, Refused
from infra_agent.stack.engines.experiment import is_experiment

_EXPECTED = ("output_tok_per_s", "ttft", "tpot", "e2e", "memory_bytes", "startup")
_NETWORK_HELD = ("held", "isolated", "loopback only", "own network")
_ABSENT = ("", "0", "none", "no", "false")


def observation_rows(facts: Facts) -> list[ObservationRow]:
    """All observations, in the ledger's order."""
    return [_observation(facts, made) for made in facts.state.observations.values()]


def _observation(facts: Facts, made: k.ObservationMade) -> ObservationRow:
    document = json_safe(made.observation)
    return ObservationRow(
        id=made.id,
        candidate=made.candidate,
        lane=made.lane,
        purpose=made.purpose,
        launch=made.launch,
        probe=str(document.get("probe", "")),
        rung=str(document.get("rung", "")),
        verdict=str(document.get("verdict", "error")),
        summary=str(document.get("summary", "")),
        where={key: item for key, item in (document.get("where") or {}).items() if item not in (None, False)},
        against=document.get("against") or {},
        quantities=list(document.get("quantities") or []),
        checks=list(document.get("checks") or []),
        cost=document.get("cost") or {},
        event=facts.seq(made),
    )


def not_measured(facts: Facts, extra: Mapping[str, Any]) -> list[Gap]:
    """Noted gaps first, then those that follow from what the ledger lacks."""
    noted = [
        Gap(what="note", reason=note.text, event=facts.seq(note))
        for note in facts.state.notes
        if note.topic == "not_measured"
    ]
    head = facts.state.head_seq
    derived = {**_machine_gaps(facts), **_metric_gaps(facts), **_proof_gaps(facts, extra)}
    return noted + [Gap(what=what, reason=reason, event=head) for what, reason in derived.items()]


def _machine_gaps(facts: Facts) -> dict[str, str]:
    gaps: dict[str, str] = {}
    started = facts.state.started
    if not any(name.startswith("device_time") for name in _quantities(facts)):
        gpu = any(
            "gpu" in key.lower() and str(value).strip().lower() not in _ABSENT
            for key, value in started.environment.items()
        )
        gaps["device_time"] = "no probe measured it" if gpu else "no GPU on this machine"
    network = started.walls.get("network", "")
    if not network.lower().startswith(_NETWORK_HELD):
        gaps["network_isolation"] = f"not held: {network}" if network else "not recorded"
    return gaps


def _metric_gaps(facts: Facts) -> dict[str, str]:
    if STOCK not in {made.candidate for made in facts.state.observations.values()}:
        return {"baseline": "no measurement of the stock configuration"}
    stack = facts.state.started.stack
    if is_experiment(stack):
        told = _quantities(facts)
        return {name: f"{spec.meaning}: no run reported it" for name, spec in stack.metrics.items() if name not in told}
    have = {split_name(name)[0] for name in _quantities(facts)}
    if any(ended.ready_s for ended in facts.state.launches_ended.values()):
        have.add("startup")
    return {name: f"{label(name)}: no probe reported it" for name in _EXPECTED if name not in have}


def _proof_gaps(facts: Facts, extra: Mapping[str, Any]) -> dict[str, str]:
    state = facts.state
    gaps: dict[str, str] = {}
    checks = [made for made in state.observations.values() if made.purpose == "answers"]
    if is_experiment(state.started.stack):
        if state.best != STOCK and not _compared(facts):
            gaps["results"] = f"no probe held the results of {state.best} against a reference; its own checks did"
    elif state.best != STOCK and not any(made.candidate == state.best for made in checks):
        gaps["answers"] = f"the answers of {state.best} were not compared with stock's"
    if checks and not any("logprob" in name for name in _quantities(facts)):
        gaps["logprobs"] = "answers were compared as text: the server's own log-probabilities were not offered"
    if state.noise is None or state.noise.source == "assumed":
        gaps["noise_floor"] = "assumed, not measured on this machine" if state.noise is not None else "not measured"
    if state.honesty is None and (state.started.stack.space or not is_experiment(state.started.stack)):
        gaps["honesty_row"] = "plain search was not run"
    if state.best != STOCK and state.final is None:
        gaps["final_relaunch"] = "the winner was not relaunched on fresh seeds: its estimate may flatter"
    if not extra.get("judge_error_rates"):
        gaps["judge_error_rates"] = "no measured error rates of the judge were given to this report"
    return gaps


def _compared(facts: Facts) -> bool:
    """Whether a numeric probe of the best passed."""
    made = (made for made in facts.state.observations.values() if made.candidate == facts.state.best)
    told = (each.observation for each in made if each.purpose == "probe")
    return any(each.get("rung") == "numeric" and each.get("verdict") == "pass" for each in told)


def _quantities(facts: Facts) -> set[str]:
    documents = (made.observation for made in facts.state.observations.values())
    return {str(quantity.get("name", "")) for document in documents for quantity in document.get("quantities", ())}


def degraded(facts: Facts) -> list[NoteRow]:
    """Notes on what worked worse than promised, and walls that were not held."""
    rows = [
        NoteRow(topic=note.topic, text=note.text, event=facts.seq(note))
        for note in facts.state.notes
        if note.topic in ("degraded", "warning", "stalled")
    ]
    start = facts.seq(facts.state.started)
    walls = facts.state.started.walls
    if walls.get("mode", "none") == "none":
        text = walls.get("detail") or "no sandbox: the engine ran with the rights of its user"
        rows.append(NoteRow(topic="wall", text=text, event=start))
    fell = facts.state.fell_back
    if fell is not None:
        text = f"the brain {fell.brain} gave up in turn {fell.turn} and {fell.to} went on: {fell.reason}"
        rows.append(NoteRow(topic="brain", text=text, event=facts.seq(fell)))
    for seq, event in facts.of(k.Recovered):
        if isinstance(event, k.Recovered):
            text = f"a torn record of {event.dropped_bytes} bytes was cut off, kept as {event.kept_as}"
            rows.append(NoteRow(topic="recovered", text=text, event=seq))
    return rows


def notes(facts: Facts) -> list[NoteRow]:
    """Everything else that was noted."""
    return [
        NoteRow(topic=note.topic, text=note.text, event=facts.seq(note))
        for note in facts.state.notes
        if note.topic == "info"
    ]


def refused(facts: Facts) -> list[Refused]:
    """Actions that were asked for and not carried out."""
    return [Refused(action=each.action, error=each.error, event=facts.seq(each)) for each in facts.state.refused]


def failed_launches(facts: Facts) -> list[FailedLaunch]:
    """Engine starts that ended badly, with the log's last lines."""
    rows = []
    for identity, ended in facts.state.launches_ended.items():
        if ended.outcome == "stopped":
            continue
        launch = facts.state.launches.get(identity)
        rows.append(
            FailedLaunch(
                id=identity,
                candidate=launch.candidate if launch is not None else "",
                outcome=ended.outcome,
                message=ended.message,
                last_lines=list(ended.last_lines),
                wall_s=ended.wall_s,
                event=facts.seq(ended),
            )
        )
    return rows
