"""Runs to report on, made of real events folded by the real fold: complete, empty, interrupted, none kept, waiting."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from typing import Any

from infra_agent.goal.model import Constraints, Direction, Goal, Load, Metric, Statistic, Target
from infra_agent.ledger import kinds as k
from infra_agent.ledger.event import GENESIS, seal
from infra_agent.ledger.fold import step
from infra_agent.ledger.state import RunState
from infra_agent.stack.engines.base import Parameter, RiskClass
from infra_agent.stack.model import LaunchSpec, Stack
from probes.base import Against, Cost, Observation, Quantity, Rung, Verdict, Where

RUN_ID = "01KBCDEFGHJKMNPQRSTVWXYZ01"
STOCK_TOK_PER_S = 25.3
TITLES = {"C1": "continuous batching", "C2": "one OpenMP thread", "C3": "float32 weights", "C4": "eager attention"}
TITLES |= {"C5": "torch.compile", "C6": "flex attention"}
FAMILIES = {"C1": "batching", "C2": "threads", "C3": "dtype", "C4": "attention", "C5": "compile", "C6": "attention"}
CHANGES: dict[str, tuple[str, Any]] = {
    "C1": ("continuous_batching", True),
    "C2": ("omp_num_threads", 1),
    "C3": ("dtype", "float32"),
    "C4": ("attn_implementation", "eager"),
    "C5": ("compile", True),
    "C6": ("attn_implementation", "flex_attention"),
}
PARAMETERS = [
    Parameter(
        name=name, title=name, flag=flag, type="str", default=None, risk=RiskClass.NUMERICS_MINOR, family=family,
        evidence="x",
    )
    for name, flag, family in (
        ("continuous_batching", "--continuous-batching", "batching"),
        ("omp_num_threads", "env:OMP_NUM_THREADS", "threads"),
        ("dtype", "--dtype", "dtype"),
        ("attn_implementation", "--attn-implementation", "attention"),
        ("compile", "--compile", "compile"),
        ("cb_num_blocks", "--cb-num-blocks", "memory"),
        ("quantization", "--quantization", "quantisation"),
    )
]  # fmt: skip
TTFT_GOAL = Goal(
    metric=Metric.TTFT_S,
    statistic=Statistic.P50,
    direction=Direction.MINIMISE,
    target=Target(kind="ratio", value=0.5),
    text="halve p50 TTFT",
)
GOAL = Goal(
    metric=Metric.OUTPUT_TOK_PER_S,
    statistic=Statistic.VALUE,
    direction=Direction.MAXIMISE,
    target=Target(kind="ratio", value=2.0),
    load=Load(arrivals="closed", concurrency=4),
    constraints=Constraints(answers_unchanged=True),
    budget_s=900,
    text="at 4 concurrent requests, double the output tokens per second without changing the answers",
)


class Run:
    """Writes a ledger in memory; `state` is the fold of what was written."""

    def __init__(self, **started: Any) -> None:
        self._prev, self._seq, self.elapsed_s = GENESIS, 0, 0.0
        self._random = random.Random(7)
        self.folded: RunState | None = None
        self.add(start_event(**started))

    @property
    def state(self) -> RunState:
        assert self.folded is not None
        return self.folded

    def add(self, data: k.EventData) -> None:
        self._seq += 1
        minute, second = divmod(self._seq, 60)
        ts = f"2026-11-30T12:{minute:02d}:{second:02d}Z"
        event = seal(seq=self._seq, prev=self._prev, ts=ts, kind=data.kind, data=data.model_dump(mode="json"))
        self._prev = event.hash
        self.folded = step(self.folded, event)

    def noisy(self, value: float, sd: float = 0.012) -> float:
        return value * math.exp(self._random.gauss(0, sd))

    def spend(self, seconds: float) -> float:
        self.elapsed_s += seconds
        return self.elapsed_s

    def phase(self, name: Any) -> None:
        self.add(k.PhaseStarted(name=name, elapsed_s=self.elapsed_s))

    def launch(self, candidate: str, arm: Any, purpose: Any, lane: Any = "agent") -> str:
        identity = f"L{len(self.state.launches) + 1}"
        parameter = CHANGES.get(candidate)
        settings: dict[str, Any] = {"cb_num_blocks": 64} | (dict([parameter]) if parameter else {})
        argv = [
            "/opt/stack/bin/python",
            "-m",
            "transformers.cli.transformers",
            "serve",
            "/models/smol lm",
            "--port",
            "9111",
        ]
        argv += ["--cb-num-blocks", "64"] + (["--continuous-batching"] if candidate == "C1" else [])
        self.add(
            k.LaunchStarted(
                id=identity, candidate=candidate, arm=arm, purpose=purpose, lane=lane, settings=settings,
                argv=tuple(argv), env={"HF_HUB_OFFLINE": "1"},
            )
        )  # fmt: skip
        return identity

    def ended(self, launch: str, outcome: Any = "stopped", lines: tuple[str, ...] = (), message: str = "") -> None:
        ready = 6.1 if outcome == "stopped" else None
        self.add(
            k.LaunchEnded(id=launch, outcome=outcome, ready_s=ready, wall_s=14.0, last_lines=lines, message=message)
        )

    def observe(
        self, candidate: str, purpose: Any, observation: Observation, launch: str = "", lane: Any = "agent"
    ) -> str:
        identity = f"O{len(self.state.observations) + 1}"
        self.add(
            k.ObservationMade(
                id=identity,
                candidate=candidate,
                lane=lane,
                purpose=purpose,
                launch=launch,
                observation=as_json(observation),
            )
        )
        return identity

    def window(
        self, candidate: str, purpose: Any, tok_per_s: float, lane: Any = "agent", arm: Any = "base"
    ) -> tuple[str, float]:
        value = self.noisy(tok_per_s)
        kind = {"screen": "climb", "baseline": "baseline", "final": "final"}.get(purpose, "block")
        launch = self.launch(candidate, "stock" if candidate == "stock" else arm, kind, lane)
        observation = self.observe(candidate, purpose, load_window(value, candidate), launch, lane)
        self.ended(launch)
        return observation, value

    def block(
        self, candidate: str, base: str, rates: tuple[float, float], stage: Any, index: int, valid: bool = True
    ) -> None:
        names = ("base", "candidate") if index % 2 else ("candidate", "base")
        lane = {"prove": "agent", "final": "final", "honesty": "honesty"}[stage]
        purpose = "final" if stage == "final" else "block"
        measured = {
            arm: self.window(base if arm == "base" else candidate, purpose, rates[arm == "candidate"], lane, arm)
            for arm in names
        }
        self.spend(28.0)
        self.add(
            k.BlockMeasured(
                candidate=candidate, base=base, stage=stage, index=index, order=names,
                seed=(900 if stage == "final" else 100) + index, valid=valid,
                base_value=measured["base"][1] if valid else None,
                candidate_value=measured["candidate"][1] if valid else None,
                base_observation=measured["base"][0], candidate_observation=measured["candidate"][0],
                reason="" if valid else "neighbour: another process used a core", wall_s=28.0,
            )
        )  # fmt: skip

    def hypothesis(self, number: int, family: str, cause: str, low: float, high: float) -> None:
        self.add(
            k.HypothesisStated(
                id=f"H{number}", family=family, cause=cause, place=f"launch parameter of {family}",
                refuted_by="the load window shows no move", source="playbook slow-at-concurrency",
                predictions=({"rung": "load", "metric": "output_tok_per_s", "low": low, "high": high},),
            )
        )  # fmt: skip

    def propose(
        self, candidate: str, hypothesis: str, base: str = "stock", lane: Any = "agent", risk: str = "numerics-minor"
    ) -> None:
        name, value = CHANGES[candidate]
        self.add(
            k.CandidateProposed(
                id=candidate, title=TITLES[candidate], hypothesis=hypothesis, base=base,
                changes=({"parameter": name, "value": value, "before": None},),
                settings={"cb_num_blocks": 64, name: value}, digest=f"{ord(candidate[1]):064x}", risk=risk,
                risk_reasons=(f"{name} is {risk}",), family=FAMILIES[candidate], lane=lane,
            )
        )  # fmt: skip

    def engage(self, candidate: str, verdict: Verdict = Verdict.PASS) -> str:
        snapshot = plain("effective-state", Rung.STATIC, "41 effective values read", Where(whole_system=True))
        self.observe(candidate, "engagement", snapshot)
        text = f"{CHANGES[candidate][0]} is in effect" if verdict is Verdict.PASS else "the engine shows no trace of it"
        proof = plain("engagement", Rung.STATIC, text, Where(parameter=CHANGES[candidate][0]), verdict)
        return self.observe(candidate, "engagement", proof)

    def screen(self, candidate: str, tok_per_s: float, outcome: Any, base: float = STOCK_TOK_PER_S) -> str:
        observation, value = self.window(candidate, "screen", tok_per_s, arm="candidate")
        ratio = value / base
        self.spend(19.0)
        self.add(
            k.Screened(
                candidate=candidate, against="stock", outcome=outcome, reason=f"x{ratio:.2f} in one window",
                wall_s=19.0,
                estimate=estimate(ratio, 0.1, n=1, p=None, method="one window against the base's windows"),
            )
        )  # fmt: skip
        return observation

    def verdict(
        self, candidate: str, decision: Any, cause: Any, rung: str, reason: str, evidence: tuple[str, ...], **more: Any
    ) -> None:
        self.add(
            k.VerdictGiven(
                candidate=candidate, decision=decision, cause=cause, rung=rung, estimate=more.get("estimate"),
                reason=reason, evidence=evidence, elapsed_s=self.elapsed_s,
            )
        )  # fmt: skip


def as_json(observation: Observation) -> dict[str, Any]:
    return asdict(observation) | {"signals": dict(observation.signals), "detail": dict(observation.detail)}


def estimate(ratio: float, spread: float, n: int, p: float | None = 0.0039, method: str = "") -> k.EstimateData:
    method = method or "Hodges-Lehmann of block log-ratios, interval from the exact Wilcoxon signed-rank test"
    low, high = ratio * math.exp(-spread), ratio * math.exp(spread)
    return k.EstimateData(ratio=ratio, low=low, high=high, p=p, n=n, confidence=0.95, method=method)


def plain(probe: str, rung: Rung, summary: str, where: Where, verdict: Verdict = Verdict.PASS) -> Observation:
    return Observation(probe=probe, rung=rung, verdict=verdict, summary=summary, where=where, cost=Cost(wall_s=0.4))


def load_window(tok_per_s: float, candidate: str) -> Observation:
    batched = tok_per_s / STOCK_TOK_PER_S
    quantities = (
        Quantity(name="output_tok_per_s", value=tok_per_s, unit="tok/s", n=12),
        Quantity(name="ttft_p50_s", value=0.41 / batched, unit="s", low=0.38 / batched, high=0.45 / batched, n=12),
        Quantity(name="ttft_s", value=0.43 / batched, unit="s", low=0.4 / batched, high=0.47 / batched, n=12),
        Quantity(name="ttft_max_s", value=0.61 / batched, unit="s", n=12),
        Quantity(name="failures", value=0.0, unit="requests", n=12),
        Quantity(name="tpot_s", value=0.039 * (1 + 0.2 * (batched - 1)), unit="s", n=12),
        Quantity(name="e2e_p50_s", value=5.0 / batched, unit="s", n=12),
        Quantity(name="mean_output_tokens", value=31.2, unit="1", n=12),
        Quantity(name="startup_s", value=6.1 + 3.4 * (batched - 1), unit="s"),
        Quantity(name="memory_bytes", value=612e6 + 41e6 * (batched - 1), unit="B"),
    )
    return Observation(
        probe="load", rung=Rung.LOAD, verdict=Verdict.PASS, summary=f"{tok_per_s:.1f} tok/s", quantities=quantities,
        where=Where(parameter=f"configuration {candidate}"), cost=Cost(wall_s=7.5, launches=1, requests=14),
        against=Against(kind="baseline", name="stock"),
    )  # fmt: skip


def answers(same: int, near_ties: int, changed: int) -> Observation:
    counts = {"answers_same": same, "answers_near_tie": near_ties, "answers_changed": changed}
    verdict = Verdict.FAIL if changed else Verdict.PASS
    return Observation(
        probe="answers", rung=Rung.NUMERIC, verdict=verdict, where=Where(input="8 prompts"),
        cost=Cost(wall_s=5.1, requests=8), summary=f"{same} same, {near_ties} near-ties (largest gap 0.04 nat)",
        quantities=tuple(Quantity(name=name, value=float(count), unit="1", n=8) for name, count in counts.items()),
    )  # fmt: skip


def start_event(**changes: Any) -> k.RunStarted:
    stack = Stack(
        name="demo", engine="transformers", model="/models/smol lm",
        launch=LaunchSpec(python="/opt/stack/bin/python", parameters={"cb_num_blocks": 64}),
        space={name: (value,) for name, value in CHANGES.values()},
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run_id": RUN_ID, "goal": GOAL, "stack": stack, "stack_digest": "ab" * 32, "workload_sha256": "cd" * 32,
        "brain": "playbook", "brain_note": "no LLM configured", "seed": 20261130, "budget_s": 900.0,
        "version": "0.1.0",
        "environment": {"cpu": "2 cores", "memory_gib": 7.8, "gpu": "none", "engine": "transformers 5.19.0"},
        "walls": {"mode": "bubblewrap", "network": "host network shared (loopback server)", "detail": "home hidden"},
        "command": ("infra-agent", "run", "--goal", GOAL.text),
    }  # fmt: skip
    return k.RunStarted(**(fields | changes))


def baseline(run: Run) -> None:
    run.phase("baseline")
    launch = run.launch("stock", "stock", "baseline")
    reference = plain("reference-answers", Rung.NUMERIC, "8 answers kept", Where(input="8 prompts"))
    run.observe("stock", "answers", reference, launch)
    run.ended(launch)
    for _ in range(3):
        run.window("stock", "baseline", STOCK_TOK_PER_S)
    run.spend(31.0)
    run.add(k.NoiseKnown(sd_log=0.017, mde_ratio=1.023, blocks=12, samples=6, source="calibrated"))
    run.phase("tuning")


def climb_rejects(run: Run) -> None:
    run.hypothesis(2, "threads", "matmul threads are limited", 1.05, 1.4)
    run.propose("C2", "H2")
    run.engage("C2")
    seen = run.screen("C2", 17.2, "reject")
    run.verdict(
        "C2", "rejected", "slower", "load", "x0.68 in the screen", (seen,), estimate=estimate(0.68, 0.05, 1, None)
    )
    run.hypothesis(3, "dtype", "bfloat16 is emulated on this CPU", 1.1, 1.6)
    run.propose("C3", "H3", risk="numerics")
    run.engage("C3")
    seen = run.screen("C3", 15.0, "reject")
    run.verdict(
        "C3", "rejected", "slower", "load", "x0.59 in the screen", (seen,), estimate=estimate(0.59, 0.05, 1, None)
    )


def prove(run: Run, candidate: str, factor: float, blocks: int = 9, bad: int | None = None) -> k.EstimateData:
    for index in range(1, blocks + 1):
        run.block(candidate, "stock", (STOCK_TOK_PER_S, STOCK_TOK_PER_S * factor), "prove", index, valid=index != bad)
    valid = [block for block in run.state.candidates[candidate].blocks if block.valid]
    logs = [math.log(b.candidate_value / b.base_value) for b in valid if b.candidate_value and b.base_value]
    return estimate(math.exp(sum(logs) / len(logs)), 0.037, n=len(logs))


def looked(candidate: str, found: k.EstimateData) -> k.Looked:
    """The look that proved it: one of its runs stalled, none of stock's."""
    return k.Looked(
        candidate=candidate, stage="prove", blocks=found.n, alpha=0.0078, estimate=found, decision="accepted",
        reason="better than the base", basis="stall-free", base_stalls=0, candidate_stalls=1,
        difference=k.DifferenceData(value=49.1, low=47.0, high=51.2, n=found.n, confidence=0.992),
        guards=(k.GuardData(name="stalls", state="holds", p=0.5, reason="no sign of more stalls"),),
    )  # fmt: skip


def batching(run: Run) -> str:
    run.hypothesis(1, "batching", "requests are served one after another", 2.0, 3.5)
    run.propose("C1", "H1")
    run.engage("C1")
    seen = run.observe("C1", "answers", answers(6, 2, 0))
    run.screen("C1", STOCK_TOK_PER_S * 2.9, "promote")
    return seen


def late_failures(run: Run) -> None:
    run.hypothesis(4, "attention", "attention dispatch costs a large share of a step", 1.02, 1.15)
    run.propose("C4", "H4")
    run.engage("C4")
    seen = run.screen("C4", STOCK_TOK_PER_S * 1.01, "unclear")
    text = "the interval holds 1 after 3 blocks and the budget is short"
    prove(run, "C4", 1.004, blocks=3)
    run.verdict("C4", "inconclusive", "out_of_budget", "load", text, (seen,), estimate=estimate(1.004, 0.03, 3, 0.25))
    run.hypothesis(5, "compile", "Python overhead between steps", 1.05, 1.3)
    run.propose("C5", "H5")
    proof = run.engage("C5", Verdict.FAIL)
    run.verdict("C5", "invalid", "not_engaged", "static", "compile is not active in the running engine", (proof,))
    run.propose("C6", "H4")
    launch = run.launch("C6", "candidate", "climb")
    line = "ValueError: Implementation flex_attention is not supported for continuous batching."
    run.ended(
        launch, "unhealthy", ("Traceback (most recent call last):", line), "the first request was answered with 500"
    )
    run.verdict("C6", "invalid", "crashed", "static", f"the engine failed · {line}", (launch,))
    run.add(k.ActionRefused(turn=6, action='{"kind": "prove", "candidate": "C9"}', error="no candidate C9"))


@cache
def complete_run() -> RunState:
    run = Run()
    baseline(run)
    seen = batching(run)
    climb_rejects(run)
    proved = prove(run, "C1", 2.94, bad=4)
    run.add(looked("C1", proved))
    run.verdict("C1", "accepted", "proved", "load", "significant, above the 1 % threshold", (seen,), estimate=proved)
    gate = "numerics-minor: the answer check passed, no approval needed"
    run.add(k.Accepted(candidate="C1", gate=gate, elapsed_s=run.elapsed_s))
    late_failures(run)
    run.phase("honesty")
    run.spend(78.0)
    run.add(
        k.HonestyRow(
            method="TPE over the same space", agent_screen_s=76.0, search_screen_s=78.0, trials=5, best="S3",
            shared_with="C1", decision="accepted", estimate=proved, reason="it found the same configuration as C1",
        )
    )  # fmt: skip
    run.phase("final")
    for index in range(1, 4):
        run.block("C1", "stock", (STOCK_TOK_PER_S, STOCK_TOK_PER_S * 2.91), "final", index)
    last = [block for block in run.state.candidates["C1"].blocks if block.stage == "final"]
    values = [(block.base_value or 0.0, block.candidate_value or 0.0) for block in last]
    ratio = math.exp(sum(math.log(right / left) for left, right in values) / len(values))
    run.add(
        k.FinalMeasured(
            candidate="C1", arms=("stock", "C1"), search_seeds=tuple(range(101, 110)), seeds=(901, 902, 903),
            estimate=estimate(ratio, 0.037, 3, None, "t-interval of block log-ratios"),
            stock_value=values[0][0], candidate_value=values[0][1],
            difference=k.DifferenceData(value=48.3, low=46.1, high=50.4, n=3, confidence=0.983),
            guards=(k.GuardData(name="memory_bytes", state="holds", p=0.01, reason="x0.4 of 4 GB: holds"),),
        )
    )  # fmt: skip
    claims = (
        k.ClaimData(candidate="C1", p=0.0039, p_adjusted=0.0078, survives=True),
        k.ClaimData(candidate="C4", p=0.25, p_adjusted=0.25, survives=False),
    )
    run.add(k.ClaimsAdjusted(family="gain", claims=claims))
    run.add(k.Note(topic="not_measured", text="quality on long prompts: the stack's prompts are short"))
    run.add(k.Note(topic="degraded", text="memory was read once per window, not at its peak"))
    run.add(k.Note(topic="info", text="ladder below load ran on one launch per candidate"))
    run.phase("done")
    sentence = f"Goal met: x{ratio:.2f} output tokens per second at 4 concurrent requests, answers unchanged."
    run.add(k.RunFinished(outcome="met", exit_code=0, sentence=sentence, elapsed_s=run.elapsed_s))
    return run.state


@cache
def empty_run() -> RunState:
    return Run().state


@cache
def interrupted_run() -> RunState:
    run = Run()
    baseline(run)
    batching(run)
    run.block("C1", "stock", (STOCK_TOK_PER_S, STOCK_TOK_PER_S * 2.94), "prove", 1)
    run.add(k.Interrupted(reason="Ctrl-C"))
    return run.state


@cache
def none_accepted_run() -> RunState:
    run = Run()
    baseline(run)
    climb_rejects(run)
    run.phase("done")
    text = "Goal not met: nothing that was tried is faster than stock."
    run.add(k.RunFinished(outcome="not_met", exit_code=1, sentence=text, elapsed_s=run.elapsed_s))
    return run.state


@cache
def waiting_run() -> RunState:
    run = Run()
    baseline(run)
    run.hypothesis(3, "dtype", "bfloat16 is emulated on this CPU", 1.1, 1.6)
    run.propose("C3", "H3", risk="numerics")
    proof = run.engage("C3")
    proved = prove(run, "C3", 1.31, blocks=6)
    run.verdict("C3", "accepted", "proved", "load", "significant", (proof,), estimate=proved)
    reasons = ("dtype changes every sum", "near-ties may flip")
    run.add(k.WaitingForApproval(candidate="C3", risk="numerics", reasons=reasons))
    run.phase("done")
    text = "C3 is proved and waits for approval."
    run.add(k.RunFinished(outcome="waiting", exit_code=3, sentence=text, elapsed_s=run.elapsed_s))
    return run.state


RUNS: dict[str, Callable[[], RunState]] = {
    "complete": complete_run,
    "empty": empty_run,
    "interrupted": interrupted_run,
    "none accepted": none_accepted_run,
    "waiting": waiting_run,
}
EXTRA: dict[str, Any] = {
    "parameters": PARAMETERS,
    "judge_error_rates": {"false accept": 0.019, "false worse": 0.021},
}
