"""One window of a serving engine as an observation: facts, what they say of each limit, what the log only suggests.

Covered: `pass` with a binding limit, `inconclusive` when it cannot be told, `invalid` after a restart, `error` when
nothing could be read; whatever was read stays in `signals` and `detail` in every case.
Not covered: causes. A limit is a hypothesis with an experiment beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from probes.base import Check, Cost, Json, Observation, Quantity, Rung, Verdict, Where
from probes.events import settings, window
from probes.events.decide import diagnose
from probes.events.limits import Diagnosis, Finding
from probes.events.log import LogReading
from probes.events.sampler import Recording
from probes.events.signals import Signal, Signals
from probes.events.vocabulary import ENGINES, engine_of

NAME = "events"
FEWEST_READINGS = 3
STARVED_CORES = 1.0
PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "admission cap": "max_num_seqs",
        "token budget": "max_num_batched_tokens",
        "KV capacity": "gpu_memory_utilization",
        "front-end CPU": "api_server_count",
        "launch overhead": "enforce_eager",
        "cache miss": "enable_prefix_caching",
    },
    "sglang": {
        "admission cap": "max_running_requests",
        "token budget": "chunked_prefill_size",
        "KV capacity": "mem_fraction_static",
        "front-end CPU": "tokenizer_worker_num",
        "launch overhead": "disable_cuda_graph",
        "cache miss": "disable_radix_cache",
    },
    "llama.cpp": {
        "admission cap": "parallel",
        "token budget": "batch_size",
        "KV capacity": "ctx_size",
        "front-end CPU": "threads_http",
        "cache miss": "cache_reuse",
    },
    "transformers": {
        "admission cap": "continuous_batching",
        "token budget": "cb_max_batch_tokens",
        "KV capacity": "cb_num_blocks",
        "launch overhead": "compile",
    },
}
"""The launch parameter that each limit hangs on, in the engine's own spelling."""
SHOWN = ("running_mean", "waiting_mean", "kv_used_max", "preemptions", "prefix_hit_rate", "queue_s_mean", "ttft_s_mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was gathered in one window. `beside`: facts of the client, the host, a trace, the user."""

    recording: Recording
    log: LogReading | None = None
    beside: tuple[Signal, ...] = ()
    command: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    engine: str | None = None
    """The engine as the user names it; otherwise the page and the command line say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Evidence, understood."""

    engine: str
    signals: Signals
    diagnosis: Diagnosis
    restarts: int
    problems: tuple[str, ...] = field(default=())


def understand(evidence: Evidence) -> Read:
    """All facts of the window and what they say."""
    pages = evidence.recording.pages
    engine = evidence.engine or (engine_of(pages[-1][1]) if pages else None)
    engine = engine or settings.engine_of_command(evidence.command) or "unknown"
    moved = window.measure(engine, pages)
    facts = Signals(evidence.beside)
    for signal in (*moved.signals, *_limits(evidence, engine)):
        facts.add(signal)
    if evidence.log is not None:
        for signal in evidence.log.signals:
            facts.add(signal)
    return Read(
        engine=engine,
        signals=facts,
        diagnosis=diagnose(facts),
        restarts=moved.restarts,
        problems=tuple(_problems(evidence, engine)),
    )


def observe(evidence: Evidence) -> Observation:
    """The window as one observation."""
    read = understand(evidence)
    verdict, summary = _verdict(evidence, read)
    withheld = verdict in (Verdict.INVALID, Verdict.ERROR)
    limit = read.diagnosis.limit if not withheld else None
    said = {"binding_limit": limit or "cannot tell", "engine": read.engine}
    confidence = read.diagnosis.of(limit).confidence if limit else "low"
    return Observation(
        probe=NAME,
        rung=Rung.EVENTS,
        verdict=verdict,
        summary=summary,
        where=Where(
            interval_s=(0.0, round(evidence.recording.wall_s, 3)),
            parameter=PARAMETERS.get(read.engine, {}).get(limit or ""),
        ),
        cost=Cost(wall_s=evidence.recording.wall_s, requests=len(evidence.recording.readings)),
        quantities=() if withheld else tuple(_quantities(read.signals)),
        checks=(_restart_check(read),),
        signals={**read.signals.plain(), **said, "limit_confidence": confidence},
        detail=_detail(evidence, read),
    )


def _verdict(evidence: Evidence, read: Read) -> tuple[Verdict, str]:
    if read.restarts:
        return Verdict.INVALID, f"the server was restarted {read.restarts} times in the window: no figures"
    nothing = not evidence.recording.pages and not any(True for s in evidence.beside if s.value is not None)
    if nothing and evidence.log is None:
        why = evidence.recording.no_page or "; ".join(evidence.recording.troubles) or "nothing was read"
        return Verdict.ERROR, f"nothing to go by: {why}"
    if read.diagnosis.limit is None:
        return Verdict.INCONCLUSIVE, f"cannot tell the binding limit: {read.diagnosis.reason}"
    return Verdict.PASS, f"{read.diagnosis.limit}: {read.diagnosis.reason}"


def _restart_check(read: Read) -> Check:
    return Check(name="one server", ok=not read.restarts, measured=f"{read.restarts} restarts", limit="none")


def _limits(evidence: Evidence, engine: str) -> Iterable[Signal]:
    pages = evidence.recording.pages
    yield from settings.from_command(engine, evidence.command)
    yield from settings.from_page(pages[-1][1] if pages else None)
    if evidence.log is not None:
        yield from settings.from_log(evidence.log.numbered)


def _problems(evidence: Evidence, engine: str) -> Iterable[str]:
    recording, log = evidence.recording, evidence.log
    yield from evidence.notes
    if recording.no_page:
        yield recording.no_page
    yield from recording.troubles
    pages = recording.pages
    if pages:
        yield from (f"/metrics {problem}" for problem in pages[-1][1].problems)
        if not pages[-1][1].described:
            yield "/metrics has no TYPE lines: counters and gauges are told apart by their names"
        if len(pages) < FEWEST_READINGS:
            yield f"{len(pages)} readings: gauges are moments, not means (a longer window helps)"
    if engine not in ENGINES and pages:
        names = sorted(pages[-1][1].names())
        yield f"no known engine: {len(names)} metrics such as {', '.join(names[:4]) or 'none'}"
    if log is not None:
        yield from _log_problems(log)
    yield from _disturbances(Signals(evidence.beside))


def _disturbances(facts: Signals) -> Iterable[str]:
    """What makes any answer doubtful, though no limit of the engine."""
    waited, failed = facts.number("server_cpu_wait_cores"), facts.get("client_failures")
    if waited is not None and waited >= STARVED_CORES:
        yield f"the server's threads waited for a CPU ({waited:.1f} cores on average): the machine is shared"
    if failed is not None:
        yield f"{failed.value} requests failed ({failed.source})"


def _log_problems(log: LogReading) -> Iterable[str]:
    if log.problem:
        yield log.problem
        return
    if log.skipped_bytes:
        yield f"the log's first {log.skipped_bytes} bytes were left out; line numbers count from there"
    if log.lines and not log.hypotheses and not log.signals[:-1]:
        yield f"none of the log's {log.lines} lines is one that is known here; nothing is concluded from it"


def _quantities(facts: Signals) -> Iterable[Quantity]:
    for name in SHOWN:
        signal = facts.get(name)
        value = facts.number(name)
        if signal is not None and value is not None:
            yield Quantity(name=name, value=value, unit=signal.unit or "1")


def finding_json(finding: Finding) -> dict[str, Json]:
    """One limit as JSON."""
    return {
        "limit": finding.limit,
        "state": finding.state,
        "reason": finding.reason,
        "confidence": finding.confidence,
        "refuted_by": finding.experiment,
        "used": [signal.name for signal in finding.used],
    }


def _detail(evidence: Evidence, read: Read) -> dict[str, Json]:
    log = evidence.log
    return {
        "engine": read.engine,
        "findings": [finding_json(finding) for finding in read.diagnosis.findings],
        "facts": [signal.to_json() for signal in read.signals],
        "hypotheses": [each.to_json() for each in log.hypotheses] if log else [],
        "unread_warnings": [{"line": line, "text": text} for line, text in log.unread] if log else [],
        "problems": list(read.problems),
    }
