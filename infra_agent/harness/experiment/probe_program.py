"""The probe `program`: a command of the stack that looks at one thing and writes what it saw.

Covered: one or several observations, checked; what it says is said to come from the candidate's side.
Not covered: trusting it with a verdict on a gain; only blocks decide that.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra_agent.errors import ConfigError
from infra_agent.harness.experiment.document import ObservationDocument, ProbeDocument, read_document
from infra_agent.harness.local_probes import ProbeRequest
from infra_agent.stack.engines.command import filled, places_of
from probes.base import Cost, Observation, Verdict, Where


def observe(request: ProbeRequest) -> Sequence[Observation]:
    """Run the command and read its observations. Raises StackError, and ConfigError without a command."""
    where = f"probes.{request.name}.command"
    if not request.spec.command:
        raise ConfigError("the probe has no command", where=where, hint='e.g. ["{python}", "look.py", "{result}"]')
    places = {**places_of(request.stack), "seed": str(request.seed), "result": str(request.result)}
    request.start([filled(word, places, where) for word in request.spec.command])
    document = read_document(request.result, ProbeDocument)
    return [_observation(request, each) for each in document.observations]


def _observation(request: ProbeRequest, told: ObservationDocument) -> Observation:
    checks = tuple(check.check() for check in told.checks)
    withheld = any(not check.ok for check in checks)
    place = told.where.model_dump(exclude_none=True)
    return Observation(
        probe=request.name,
        rung=request.rung,
        verdict=Verdict.INVALID if withheld else Verdict(told.verdict),
        summary=told.summary,
        where=Where(**place) if place.keys() - {"line"} else Where(whole_system=True),
        cost=Cost(wall_s=0.0),
        quantities=() if withheld else tuple(each.quantity() for each in told.quantities),
        checks=checks,
        signals=dict(told.signals),
        detail={**told.detail, "evidence_from": "the candidate's side"},
    )
