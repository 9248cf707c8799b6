"""From facts to the binding limit. Pure: no clock, no network; thresholds stand here, each with its reason.

A limit is supported when its own signs are there, excluded when a sign speaks against it, and otherwise it cannot be
told. The first supported one in the order of asking is the answer; when the two that come first (client, load) cannot
be excluded, nothing behind them is claimed without queueing as proof of pressure.
Covered: one server, one window. Not covered: causes; a limit is a hypothesis until its experiment has been made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from probes.events.limits import Diagnosis, Finding, Limit, State
from probes.events.signals import Signals

PRESSED = 0.5
"""Share of the time in which requests wait: half of it is no accident of arrivals."""
QUIET = 0.1
"""Share of the time with waiting requests below which nothing presses."""
IDLE = 0.3
"""Share of the time without any request being served from which on load is missing."""
KV_FULL, KV_FREE = 0.9, 0.8
BUDGET_FULL = 0.5
"""Mean tokens per step as a share of the budget: steps between full ones are small, so half of it means often full."""
BUDGET_FREE = 0.3
ONE_CORE = 0.9
"""CPU of one thread from which on it can do no more."""
STARVED = 0.25
"""Share of the window in which the client could have run and did not."""
ARRIVED = 0.6
"""Requests in the server as a share of those that the client means to keep open."""
SHARE = 0.5
"""Share of request time that makes prefill or decode the larger part."""
EXPOSED = 0.2
"""Share of a step in which communication, or nothing, fills the device (from a trace)."""
FEW = 2.0
"""A batch this small shares the reading of weights with nobody; more load would cost next to nothing."""

Rule = Callable[[Signals], tuple[State, str, Sequence[str]]]


def diagnose(facts: Signals) -> Diagnosis:
    """One finding for each limit, and the first supported one as the answer."""
    findings = tuple(_finding(limit, rule(facts), facts) for limit, rule in RULES.items())
    supported = [finding for finding in findings if finding.state == "supported"]
    if not supported:
        open_ones = [finding.limit for finding in findings if finding.state == "cannot tell"]
        return Diagnosis(limit=None, reason=f"not excluded: {', '.join(open_ones) or 'none'}", findings=findings)
    first = supported[0]
    if first.limit in ("client-bound", "under-loaded", "front-end CPU") or _pressed(facts) or _loaded(facts):
        return Diagnosis(limit=first.limit, reason=first.reason, findings=findings)
    reason = f"{first.limit} is likely, but neither the client nor too little load is excluded"
    return Diagnosis(limit=None, reason=reason, findings=findings)


def _finding(limit: Limit, said: tuple[State, str, Sequence[str]], facts: Signals) -> Finding:
    state, reason, names = said
    used = tuple(signal for name in names if (signal := facts.get(name)) is not None)
    return Finding(limit=limit, state=state, reason=reason, used=used)


def _pressed(facts: Signals) -> bool:
    return (facts.number("waiting_share") or 0.0) >= PRESSED


def _quiet(facts: Signals) -> bool:
    share = facts.number("waiting_share")
    return share is not None and share <= QUIET


def _loaded(facts: Signals) -> bool:
    """Requests are being served nearly all the time, and more than a few at once."""
    share, running = facts.number("running_share"), facts.number("running_mean")
    served = share if share is not None else (1.0 if facts.number("client_answers") else 0.0)
    return running is not None and running > FEW and served >= 1 - QUIET


def _client(facts: Signals) -> tuple[State, str, Sequence[str]]:
    late = facts.get("client_late")
    if late is not None and late.value is True:
        return "supported", f"the load client says so itself: {late.source}", ["client_late"]
    if _pressed(facts):
        return "excluded", "requests wait in the server: the client sends more than is taken", ["waiting_share"]
    if _front_end_full(facts):
        return "cannot tell", "what the client sends may stand before a front end without CPU", ["frontend_cpu_s_per_s"]
    arrived = _arrived(facts)
    if arrived is not None and arrived < ARRIVED and _quiet(facts):
        offered = facts.number("offered") or 0.0
        said = f"{arrived * offered:.1f} of {offered:.0f} requests that the client means to keep open are in the server"
        return "supported", f"{said}, and none waits", ["offered", "running_mean", "waiting_share"]
    wait, busy = facts.number("client_cpu_wait_share"), facts.number("client_busiest_thread")
    idle = 1 - (facts.number("running_share") or 0.0)
    if wait is not None and wait >= STARVED and idle >= QUIET:
        said = f"the client could have run {wait:.0%} of the time and got no CPU; the server was idle {idle:.0%} of it"
        return "supported", said, ["client_cpu_wait_share", "running_share"]
    if busy is not None and busy >= ONE_CORE:
        return "supported", f"one thread of the client used {busy:.0%} of a core", ["client_busiest_thread"]
    if late is not None:
        return "excluded", "the load client's own checks held", ["client_late"]
    if arrived is not None and arrived >= ARRIVED:
        return "excluded", "what the client means to keep open is in the server", ["offered", "running_mean"]
    if wait is not None:
        return "excluded", f"the client waited {wait:.0%} of the time for a CPU", ["client_cpu_wait_share"]
    return "cannot tell", "nothing is known of the client (--offered, --load, or a client on this machine)", []


def _arrived(facts: Signals) -> float | None:
    offered, running, waiting = (facts.number(name) for name in ("offered", "running_mean", "waiting_mean"))
    if not offered or running is None:
        return None
    return (running + (waiting or 0.0)) / offered


def _under_loaded(facts: Signals) -> tuple[State, str, Sequence[str]]:
    served, running = facts.number("running_share"), facts.number("running_mean")
    if _pressed(facts):
        return "excluded", "requests wait for their turn", ["waiting_share"]
    if running is None:
        return "cannot tell", "how many requests are served at once is not known", []
    if _front_end_full(facts):
        return "cannot tell", "load may stand before a front end without CPU", ["frontend_cpu_s_per_s"]
    if served is not None and 1 - served >= IDLE:
        return "supported", f"nothing is being served {1 - served:.0%} of the time", ["running_share"]
    cap = facts.number("max_running")
    if running <= FEW and _quiet(facts) and (cap is None or cap > FEW):
        said = f"{running:.1f} requests are served at once and none waits; a batch has room for more"
        return "supported", said, ["running_mean", "waiting_share", "max_running"]
    if _loaded(facts):
        return "excluded", f"{running:.1f} requests are served at once, with hardly a pause", ["running_mean"]
    return "cannot tell", "load comes and goes in this window", ["running_mean", "running_share"]


def _kv(facts: Signals) -> tuple[State, str, Sequence[str]]:
    used, thrown = facts.number("kv_used_max"), facts.number("preemptions")
    names = ["kv_used_max", "preemptions", "waiting_share"]
    if thrown is not None and thrown > 0 and (used is None or used >= KV_FREE):
        return "supported", f"{thrown:.0f} preemptions in the window", names
    if used is None:
        return "cannot tell", "how full the KV cache is is not told", []
    if used >= KV_FULL and _pressed(facts):
        return "supported", f"the KV cache is {used:.0%} full and requests wait", names
    if used < KV_FREE:
        return "excluded", f"the KV cache is at most {used:.0%} full", ["kv_used_max", "preemptions"]
    return "cannot tell", f"the KV cache is {used:.0%} full, but nothing is thrown out", names


def _admission(facts: Signals) -> tuple[State, str, Sequence[str]]:
    names = ["running_max", "running_mean", "waiting_share", "max_running"]
    turned_away = facts.number("rejections")
    if turned_away:
        return "supported", f"{turned_away:.0f} requests were turned away", ["rejections"]
    if _quiet(facts):
        return "excluded", "no request waits to be admitted", ["waiting_share"]
    running, cap = facts.number("running_max"), facts.number("max_running")
    if running is None or not _pressed(facts):
        return "cannot tell", "requests wait now and then, or are not counted", names
    if _steps_full(facts) and (cap is None or running < cap):
        return "excluded", f"{running:.0f} run, below the cap, and steps are full of tokens", names
    if cap is not None:
        state: State = "supported" if running >= cap else "excluded"
        return state, f"{running:.0f} run at once, the cap is {cap:.0f}, and others wait", names
    lowest = facts.number("running_min_busy")
    serial = facts.get("serialised")
    steady = (serial is not None and serial.value is True) or (lowest is not None and lowest >= 0.9 * running)
    if steady and (facts.number("kv_used_max") or 0.0) < KV_FREE:
        return (
            "supported",
            f"never more than {running:.0f} run at once while others wait, and the KV cache is free",
            names,
        )
    return "cannot tell", "others wait, but the number that runs is not steady and no cap is known", names


def _steps_full(facts: Signals) -> bool:
    mean, budget = facts.number("iteration_tokens_mean"), facts.number("token_budget")
    return mean is not None and bool(budget) and mean >= BUDGET_FULL * (budget or 1.0)


def _budget(facts: Signals) -> tuple[State, str, Sequence[str]]:
    names = ["iteration_tokens_mean", "token_budget", "waiting_share"]
    mean, budget = facts.number("iteration_tokens_mean"), facts.number("token_budget")
    if mean is None or not budget:
        missing = "the budget" if mean is not None else "the number of tokens per step"
        return "cannot tell", f"{missing} is not known", names
    said = f"steps hold {mean:.1f} tokens on average, the budget is {budget:.0f}"
    one_each = (facts.number("running_mean") or 0.0) >= BUDGET_FULL * budget
    if _steps_full(facts) and not one_each:
        return "supported", said, names
    if mean < BUDGET_FREE * budget:
        return "excluded", said, names
    return "cannot tell", said, names


def _front_end(facts: Signals) -> tuple[State, str, Sequence[str]]:
    cores = facts.number("frontend_cpu_s_per_s")
    if cores is None:
        return "cannot tell", "the CPU time of the front end alone is not known", []
    if cores >= ONE_CORE and not _pressed(facts):
        said = f"the front end used {cores:.2f} cores and the scheduler has no queue"
        return "supported", said, ["frontend_cpu_s_per_s", "waiting_share"]
    if cores < ONE_CORE:
        return "excluded", f"the front end used {cores:.2f} cores", ["frontend_cpu_s_per_s"]
    return "cannot tell", f"the front end used {cores:.2f} cores, but the queue is behind it", ["frontend_cpu_s_per_s"]


def _front_end_full(facts: Signals) -> bool:
    return (facts.number("frontend_cpu_s_per_s") or 0.0) >= ONE_CORE


def _communication(facts: Signals) -> tuple[State, str, Sequence[str]]:
    ranks, exposed = facts.number("world_size"), facts.number("communication_exposed_share")
    if exposed is not None:
        state: State = "supported" if exposed >= EXPOSED else "excluded"
        return state, f"communication stands alone {exposed:.0%} of the time", ["communication_exposed_share"]
    if ranks == 1:
        return "excluded", "one rank only", ["world_size"]
    return "cannot tell", "no trace, and the number of ranks is not one or not known", ["world_size"]


def _launches(facts: Signals) -> tuple[State, str, Sequence[str]]:
    compiled, gaps = facts.number("recompilations"), facts.number("launch_gap_share")
    if compiled:
        return "supported", f"{compiled:.0f} compilations while serving", ["recompilations"]
    if gaps is not None:
        state: State = "supported" if gaps >= EXPOSED else "excluded"
        return state, f"the device waits for launches {gaps:.0%} of the time", ["launch_gap_share"]
    return "cannot tell", "only a trace shows the gaps between kernels", []


def _cache(facts: Signals) -> tuple[State, str, Sequence[str]]:
    names = ["prefix_hit_rate", "shared_prefix_share", "prefix_caching_off"]
    rate, shared = facts.number("prefix_hit_rate"), facts.number("shared_prefix_share")
    if shared is not None and rate is not None:
        state: State = "supported" if rate < SHARE * shared and shared >= EXPOSED else "excluded"
        return state, f"{rate:.0%} of prompt tokens hit, {shared:.0%} are shared", names
    if rate is not None and rate >= SHARE:
        return "excluded", f"{rate:.0%} of prompt tokens were in the cache", names
    return "cannot tell", "how much of the prompts is shared is not known", names


def _prefill(facts: Signals) -> tuple[State, str, Sequence[str]]:
    share = facts.number("prefill_share")
    if share is None:
        return "cannot tell", "time in prefill is not told apart", ["first_token_share"]
    state: State = "supported" if share >= SHARE else "excluded"
    return state, f"prefill takes {share:.0%} of prefill and decode time", ["prefill_share"]


def _decode(facts: Signals) -> tuple[State, str, Sequence[str]]:
    share, first = facts.number("prefill_share"), facts.number("first_token_share")
    if share is not None:
        state: State = "supported" if share < SHARE else "excluded"
        return state, f"decode takes {1 - share:.0%} of prefill and decode time", ["prefill_share"]
    if first is not None:
        state = "supported" if first < SHARE else "excluded"
        return state, f"{1 - first:.0%} of the time of a request lies behind its first token", ["first_token_share"]
    return "cannot tell", "time in decode is not told apart", []


RULES: dict[Limit, Rule] = {
    "client-bound": _client,
    "under-loaded": _under_loaded,
    "KV capacity": _kv,
    "admission cap": _admission,
    "token budget": _budget,
    "front-end CPU": _front_end,
    "communication": _communication,
    "launch overhead": _launches,
    "cache miss": _cache,
    "prefill compute": _prefill,
    "decode bandwidth": _decode,
}
