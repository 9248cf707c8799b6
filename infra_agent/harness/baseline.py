"""Measures configurations outside the ladder: stock at the start of a run, and repeats that a brain asks for."""

from __future__ import annotations

from functools import partial

from infra_agent.changes.change import STOCK
from infra_agent.errors import StackError
from infra_agent.harness.experiment.baseline import measure_stock_run
from infra_agent.harness.experiment.measuring import Wanted, measure_experiment
from infra_agent.harness.figure import quantity_name, why_no_value
from infra_agent.harness.ladder import End, give_verdict, screen_seed
from infra_agent.harness.launching import launched
from infra_agent.harness.measuring import Measured, measure_undisturbed, record_reference_answers, record_snapshot
from infra_agent.harness.memory import FIGURE_PROBES, launch_logs, reference_answers
from infra_agent.harness.noise import know_noise, record_noise, require_provable, tell_prior
from infra_agent.harness.session import Session
from infra_agent.harness.windows import figure_rung
from infra_agent.ledger import kinds as k
from infra_agent.stack.engines.experiment import is_experiment


def measure_stock(session: Session) -> None:
    """Stock's figure, effective state and answers, on one launch; then whether the goal can be proved at all.

    Raises StackError when the figure is withheld, NotProvable when the goal asks for less than can be proved.
    """
    if is_experiment(session.stack):
        _measure_run(session)
        return
    tell_prior(session)
    started_s = session.clock()
    session.narrator.status("starting the stock stack")
    with launched(session, STOCK, arm="stock", purpose="baseline", lane="agent", reporter=True) as launch:
        session.narrator.status("measuring the stock stack")
        measured = measure_undisturbed(
            session, launch, candidate=STOCK, lane="agent", purpose="baseline", seed_of=partial(screen_seed, session)
        )
        if measured.value is not None:
            _tell_baseline(session, measured, session.clock() - started_s)
            record_snapshot(session, launch, candidate=STOCK, lane="agent")
            session.narrator.status("collecting the stock stack's answers")
            record_reference_answers(session, launch)
    if measured.value is None:
        raise _unmeasurable(session, measured)
    if reference_answers(session.state) is None:
        raise StackError(
            "the stock stack does not answer every reference prompt",
            where=session.stack.reference.prompts,
            hint="infra-agent runs show last --json names each failed answer under observations",
        )
    know_noise(session)
    require_provable(session)


def _measure_run(session: Session) -> None:
    started_s = session.clock()
    measured = measure_stock_run(session)
    if measured.value is None:
        raise _unmeasurable(session, measured)
    _tell_baseline(session, measured, session.clock() - started_s)


def baseline_complete(session: Session) -> bool:
    """Whether window, effective state, answers and a noise floor of stock are all in the ledger.

    A run that was cut off in between measures stock again: a candidate cannot be compared with half a baseline.
    """
    state = session.state
    snapshots = [
        made
        for made in state.standing
        if made.candidate == STOCK and made.observation.get("probe") == "effective-state"
    ]
    answers = is_experiment(session.stack) or reference_answers(state)
    return all((launch_logs(state, session.goal, STOCK), snapshots, answers, state.noise))


def _unmeasurable(session: Session, measured: Measured) -> StackError:
    failed = any(not check.ok for check in measured.observation.checks)
    hint = "mend what the failed check names" if failed else "choose a metric that this stack can show"
    return StackError(
        f"the stock stack cannot be measured: {why_no_value(session.goal, measured.observation)}",
        where=f"ledger observation {measured.id}",
        hint=f"{hint}; nothing is tuned on a figure that is not there",
    )


def measure_again(session: Session, candidate: str, lane: k.Lane) -> None:
    """One more launch and window of a configuration, on the next screening seed."""
    repeat = sum(
        1
        for made in session.state.standing
        if made.candidate == candidate and made.observation.get("probe") in FIGURE_PROBES and made.purpose != "block"
    )
    try:
        measured = _once_more(session, candidate, lane, repeat)
    except StackError as error:
        _repeat_failed(session, candidate, error)
        return
    value = "withheld" if measured.value is None else f"{measured.value:.4g}"
    session.narrator.line(f"  {candidate}", f"{session.title_of(candidate)}   measured again: {value}")
    record_noise(session)


def _once_more(session: Session, candidate: str, lane: k.Lane, repeat: int) -> Measured:
    if is_experiment(session.stack):
        wanted = Wanted(candidate, "candidate", "climb", lane, screen_seed(session, repeat))
        return measure_experiment(session, wanted, "measure")
    with launched(session, candidate, arm="candidate", purpose="climb", lane=lane) as launch:
        return measure_undisturbed(
            session, launch, candidate=candidate, lane=lane, purpose="measure",
            seed_of=lambda attempt: screen_seed(session, repeat + attempt),
        )  # fmt: skip


def _repeat_failed(session: Session, candidate: str, error: StackError) -> None:
    """A repeat that fails ends a candidate, and is only noted for stock: the run goes on."""
    if candidate == STOCK or session.state.candidates[candidate].verdict is not None:
        session.ledger.append(k.Note(topic="warning", text=f"a repeat of {candidate} failed: {error.message}"))
        return
    reason = " · ".join([f"failed when launched again: {error.message}", *error.lines[-1:]])
    give_verdict(session, candidate, End("invalid", "crashed", figure_rung(session.stack), reason))


def _tell_baseline(session: Session, measured: Measured, wall_s: float) -> None:
    goal = session.goal
    name = quantity_name(goal.metric, goal.statistic)
    quantity = measured.observation.quantity(name)
    if quantity is None:
        return
    interval = (
        f" [{quantity.low:.4g}, {quantity.high:.4g}]" if quantity.low is not None and quantity.high is not None else ""
    )
    others = [
        f"{other.name} {other.value:.3g} {other.unit}"
        for other in measured.observation.quantities
        if other.name in ("ttft_s", "tpot_s") and other.name != name
    ]
    unit = "" if quantity.unit == "1" else f" {quantity.unit}"
    text = "   ".join([f"{name} {quantity.value:.4g}{unit}{interval}", *others])
    session.narrator.line("Baseline", text, wall_s)
