"""Profiles as observations: one of each trace, and one of a comparison. Signals are what playbooks match on.

Covered: traces with and without a device, frame profiles, comparisons; `inconclusive` when a trace shows nothing.
Not covered: causes; a trace says where time went, an experiment says why.
"""

from __future__ import annotations

from dataclasses import asdict

from probes.base import Against, Cost, Observation, Quantity, Rung, Verdict, Where
from probes.trace.profile.breakdown import Breakdown, Gap
from probes.trace.profile.compare import Difference
from probes.trace.profile.samples import FrameProfile

NAME, NAME_COMPARE, NAME_FRAMES = "trace.profile", "trace.compare", "trace.frames"
LAUNCH_CAUSES = ("the host was late", "the host waited in a synchronising call")
Signals = dict[str, float | str | bool]


def observe_trace(found: Breakdown, *, wall_s: float, source: str) -> Observation:
    """One trace."""
    top = (found.device_rows or found.host_rows)[:1]
    cost = Cost(wall_s=wall_s)
    if not top or found.span_us <= 0:
        why = "; ".join(found.notes) or "no operators and no kernels"
        return Observation(
            probe=NAME, rung=Rung.TRACE, verdict=Verdict.INCONCLUSIVE, summary=f"cannot tell: {why}",
            where=Where(input=source), cost=cost, detail=asdict(found),
        )  # fmt: skip
    span_s = found.span_us / 1e6
    gap = found.gaps[0] if found.gaps else None
    return Observation(
        probe=NAME,
        rung=Rung.TRACE,
        verdict=Verdict.PASS,
        summary=_sentence(found, gap),
        where=Where(kernel=top[0].name, input=source, interval_s=_interval(gap)),
        cost=cost,
        quantities=(
            Quantity(name="span_s", value=span_s, unit="s"),
            Quantity(name="idle_share", value=found.idle_us / found.span_us, unit="1", n=max(1, found.gap_count)),
            Quantity(name="top_share", value=top[0].share, unit="1", n=top[0].count),
        ),
        signals=_signals(found),
        detail=asdict(found),
    )


def _signals(found: Breakdown) -> Signals:
    span = found.span_us
    top = (found.device_rows or found.host_rows)[0]
    signals: Signals = {
        "trace_has_device": found.has_device,
        "top_kernel": top.name,
        "top_kernel_share": top.share,
        "idle_share": found.idle_us / span,
    }
    if found.has_device:
        late = sum(found.idle_causes_us[cause] for cause in LAUNCH_CAUSES)
        signals |= {
            "launch_gap_share": late / span,
            "cpu_bound_share": found.cpu_bound_us / span,
            "communication_share": found.busy_us["communication"] / span,
            "communication_exposed_share": found.exposed_us["communication"] / span,
            "copy_exposed_share": found.exposed_us["copy"] / span,
        }
    return signals


def _sentence(found: Breakdown, gap: Gap | None) -> str:
    top = (found.device_rows or found.host_rows)[0]
    who = "the device" if found.has_device else f"thread {found.lane}"
    idle = found.idle_us / found.span_us
    text = f"{top.name} takes {top.share:.1%} of {found.span_us / 1e3:.1f} ms; {who} idles {idle:.1%}"
    if gap is None or found.idle_us <= 0:
        return text
    cause = max(found.idle_causes_us, key=lambda name: found.idle_causes_us[name])
    host = f" in {gap.host}" if gap.host else ""
    return f"{text}, mostly because {cause}; longest pause {gap.length_us / 1e3:.3f} ms{host}"


def _interval(gap: Gap | None) -> tuple[float, float] | None:
    return None if gap is None else (gap.start_us / 1e6, (gap.start_us + gap.length_us) / 1e6)


def observe_difference(found: Difference, *, wall_s: float, a: str, b: str) -> Observation:
    """B against A: `fail` when an interval got slower, `pass` when none did, `inconclusive` when they do not match."""
    interval = found.interval
    worst = interval.parts[0] if interval is not None and interval.parts else None
    unlike = found.matched_share < 0.5
    verdict = Verdict.FAIL if interval is not None else Verdict.INCONCLUSIVE if unlike else Verdict.PASS
    growth = found.span_b_us / found.span_a_us - 1 if found.span_a_us else 0.0
    signals: Signals = {"slower_interval": interval is not None, "span_growth": growth}
    if worst is not None:
        signals |= {"slower_part": worst.name, "slower_part_delay_s": worst.delay_us / 1e6}
    return Observation(
        probe=NAME_COMPARE,
        rung=Rung.TRACE,
        verdict=verdict,
        summary=difference_sentence(found),
        where=Where(
            kernel=worst.name if worst is not None else None,
            input=b,
            interval_s=interval.b_s if interval is not None else None,
        ),
        cost=Cost(wall_s=wall_s),
        against=Against(kind="baseline", name=a),
        quantities=()
        if interval is None
        else (Quantity(name="delay_s", value=interval.delay_us / 1e6, unit="s", n=found.matched),),
        signals=signals,
        detail=asdict(found),
    )


def difference_sentence(found: Difference) -> str:
    """What got slower, by how much, where."""
    interval = found.interval
    if interval is None:
        return found.reason
    text = f"B loses {interval.delay_us / 1e3:.3f} ms between {interval.b_s[0]:.6f} and {interval.b_s[1]:.6f} s"
    if not interval.parts:
        return text
    worst = interval.parts[0]
    ratio = f", x{worst.mean_b_us / worst.mean_a_us:.2f} each" if worst.mean_a_us > 0 and worst.name != "(gaps)" else ""
    return f"{text}; {worst.delay_us / 1e3:.3f} ms of it in {worst.name} ({worst.calls_b} calls{ratio})"


def observe_frames(found: FrameProfile, *, wall_s: float, source: str) -> Observation:
    """A profile of Python frames."""
    if not found.rows or found.total <= 0:
        return Observation(
            probe=NAME_FRAMES, rung=Rung.TRACE, verdict=Verdict.INCONCLUSIVE,
            summary=f"cannot tell: {'; '.join(found.notes) or 'no samples'}", where=Where(input=source),
            cost=Cost(wall_s=wall_s),
        )  # fmt: skip
    top = found.rows[0]
    share = top.own / found.total
    return Observation(
        probe=NAME_FRAMES,
        rung=Rung.TRACE,
        verdict=Verdict.PASS,
        summary=f"{top.frame} takes {share:.1%} of {found.total:.4g} {found.unit} itself",
        where=Where(file=top.frame.file or None, line=top.frame.line or None, kernel=top.frame.name, input=source),
        cost=Cost(wall_s=wall_s),
        quantities=(Quantity(name="top_own_share", value=share, unit="1"),),
        signals={"top_frame": str(top.frame), "top_frame_share": share, "profile_form": found.form},
        detail=asdict(found),
    )
