"""What `probe run load` does: measure, or judge two sets of results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra_agent.cli.output import print_json, print_lines, stderr
from infra_agent.cli.run import MAX_SEED
from infra_agent.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from infra_agent.harness.foreign_results import Comparison
    from probes.events.signals import Signal
    from probes.load.session import Session
    from probes.load.types import LoadRequest

WAYS = ("concurrency", "rate", "ramp", "trace")
EXAMPLE = "for example: infra-agent probe run load --url http://127.0.0.1:8000 --rate 2 --duration 60"


def measure(options: Mapping[str, Any], stack_ref: str | None, as_json: bool) -> int:
    """Run the windows; what was measured is shown and written even when the user stops it."""
    from infra_agent.harness.measuring import to_json
    from probes.load.progress import Progress
    from probes.load.session import Session
    from probes.load.validity import Limits

    session = Session(Limits(allowed_failures=options["allow_failures"]))
    requests = _requests(options, stack_ref)
    progress = Progress(sys.stderr)
    interrupted = _run(session, requests, progress)
    _write(session, options)
    if as_json:
        seen = [to_json(told.observation) for told in session.told]
        print_json({"observation": seen[0]} if len(requests) == 1 and seen else {"observations": seen})
    else:
        _show(session)
    if interrupted:
        stderr().print("stopped by the user; what had been answered was kept, and the window is invalid")
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.OK if session.all_valid else ExitCode.NOT_MET)


def warm_up(options: Mapping[str, Any], stack_ref: str | None) -> None:
    """A few answers before a window that another probe watches; the window has none of its own then."""
    from probes.load.progress import Progress
    from probes.load.session import Session

    users = str(options["concurrency"]).split(",")[0]
    few = {**given(options), "requests": int(users) if users.isdigit() else None, "max_tokens": 4, "warmup": 0}
    _run(Session(), _one_window({**few, "seed": options["seed"] + 1}, stack_ref), Progress(sys.stderr))


def measured_beside(options: Mapping[str, Any], stack_ref: str | None) -> list[Signal]:
    """One window for another probe's sake: what the client saw of the server, and of itself. Warm-up comes before."""
    from probes.events.client import from_result
    from probes.load.progress import Progress
    from probes.load.session import Session

    session = Session()
    _run(session, _one_window({**given(options), "warmup": 0}, stack_ref), Progress(sys.stderr))
    return [signal for told in session.told for signal in from_result(told.observation, told.result)]


def _one_window(options: Mapping[str, Any], stack_ref: str | None) -> tuple[LoadRequest, ...]:
    from probes.load.options import DEFAULTS

    return _requests({**DEFAULTS, **options}, stack_ref)[:1]


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were said."""
    return {name: value for name, value in options.items() if value is not None}


def judge(compare: tuple[Path, Path], metric: str, order: str | None, as_json: bool) -> int:
    """Judge two sets of results. Exit 1 when they cannot be compared or do not settle it."""
    from infra_agent.harness.foreign_results import compare as compare_runs
    from probes.load.foreign.read import read_runs

    try:
        a, b = (read_runs(path) for path in compare)
    except ValueError as error:
        raise UsageError(str(error), where="probe run load --compare", hint="name a result file or a folder") from error
    found = compare_runs(a, b, metric=metric, order=order)
    if as_json:
        print_json({"comparison": asdict(found)})
    else:
        print_lines(_comparison_lines(found))
    settled = found.outcome in ("better", "worse", "no difference that matters")
    return int(ExitCode.OK if settled else ExitCode.NOT_MET)


def _requests(options: Mapping[str, Any], stack_ref: str | None) -> tuple[LoadRequest, ...]:
    from infra_agent.stack.files import FILE_NAME, resolve_stack
    from probes.load.ask import windows
    from probes.load.hosts import host_of
    from probes.load.options import ask_of

    if options["seed"] > MAX_SEED:
        raise UsageError(f"a seed is at most {MAX_SEED}", where="probe run load --seed")
    named = stack_ref is not None or Path(FILE_NAME).exists()
    stack = resolve_stack(stack_ref, Path.cwd())[0] if named else None
    url = stack.url if stack is not None else None
    said = dict(options) | {"url": options["url"] or url}
    if not any(options[way] for way in WAYS):
        said["concurrency"] = "4"
    try:
        return windows(ask_of(said, host_of(url)))
    except (ValueError, OSError) as error:
        hint = EXAMPLE
        if "stack file names" in str(error):
            hint = f"infra-agent init --engine openai --model NAME --url {said['url']}"
        raise UsageError(str(error), where="probe run load", hint=hint) from error


def _run(session: Session, requests: tuple[LoadRequest, ...], progress: Any) -> bool:
    """Whether the user stopped it."""
    try:
        session.run(requests, progress.begin)
    except KeyboardInterrupt:
        return True
    except (ValueError, OSError) as error:
        raise UsageError(str(error), where="probe run load", hint=EXAMPLE) from error
    finally:
        progress.end()
    return False


def _write(session: Session, options: Mapping[str, Any]) -> None:
    from probes.load.outputs import write_outputs

    try:
        write_outputs(session.told, options["output"], options["html"], options["export"] or ())
    except (ValueError, OSError) as error:
        raise UsageError(str(error), where="probe run load", hint="--output keeps invalid windows too") from error


def _show(session: Session) -> None:
    from probes.load.card import card

    for told in session.told:
        print_lines([*card(told.observation, told.result).split("\n"), ""])


def _comparison_lines(found: Comparison) -> list[str]:
    lines = [f"{found.outcome}: {found.metric}, B against A"]
    if found.ratio is not None:
        ratio = found.ratio
        lines.append(
            f"  x{ratio.ratio:.4f} [{ratio.low:.4f}, {ratio.high:.4f}] over {ratio.n} pairs, above 1 is better"
        )
        lines += [f"  pair {n}: A {a:.6g}  B {b:.6g}" for n, (a, b) in enumerate(found.pairs, 1)]
    lines += [f"  because {reason}" for reason in found.reasons]
    lines += [f"  order {found.order}"] if found.order else []
    return lines + [f"  note: {note}" for note in found.notes]
