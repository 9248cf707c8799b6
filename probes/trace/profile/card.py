"""Observations of profiles as cards for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from probes.base import Json, Observation
from probes.clean import one_line
from probes.trace.profile.observe import NAME, NAME_COMPARE

ROWS = 8
WIDTH = 72


def card(observation: Observation) -> str:
    """The card of any of the three kinds."""
    head = [f"{'Found':<10}{one_line(observation.summary)}", f"{'Read in':<10}{observation.cost.wall_s:.2f} s"]
    if observation.probe == NAME:
        lines = _trace(observation.detail) if observation.quantities else []
    elif observation.probe == NAME_COMPARE:
        lines = _difference(observation.detail)
    else:
        lines = _frames(observation.detail) if observation.detail else []
    notes = [f"note: {one_line(note)}" for note in observation.detail.get("notes", ())]
    return "\n".join([*head, *lines, *(["", *notes] if notes else [])])


def _trace(detail: Mapping[str, Json]) -> list[str]:
    span = detail["span_us"]
    lines: list[str] = []
    for title, name in (("Device, by kernel", "device_rows"), ("Host, by operator (own time)", "host_rows")):
        if detail[name]:
            lines += ["", f"{title:<{WIDTH}}{'share':>8}{'total ms':>12}{'calls':>9}{'mean us':>11}"]
            lines += [
                f"  {_short(row['name']):<{WIDTH - 2}}{row['share']:>8.1%}{row['total_us'] / 1e3:>12.3f}"
                f"{row['count']:>9}{row['mean_us']:>11.2f}"
                for row in detail[name][:ROWS]
            ]
    parts = {f"busy: {name}": value for name, value in detail["busy_us"].items()}
    parts |= {f"exposed: {name}": value for name, value in detail["exposed_us"].items()}
    parts["idle"] = detail["idle_us"]
    parts |= {f"  because {cause}": value for cause, value in detail["idle_causes_us"].items() if value}
    lines += ["", f"Time line of {span / 1e3:.3f} ms"]
    lines += [f"  {name:<{WIDTH - 2}}{value / span:>8.1%}{value / 1e3:>12.3f}" for name, value in parts.items()]
    return lines + _gaps(detail["gaps"], detail["gap_count"])


def _gaps(gaps: Sequence[Mapping[str, Json]], count: int) -> list[str]:
    if not gaps:
        return []
    lines = ["", f"Longest of {count} pauses"]
    for gap in gaps[:5]:
        host = f", host in {_short(gap['host'], 40)}" if gap["host"] else ""
        lines.append(f"  {gap['length_us'] / 1e3:>10.3f} ms at {gap['start_us'] / 1e6:.6f} s  {gap['cause']}{host}")
        lines.append(f"             after {_short(gap['before'], 44)} before {_short(gap['after'], 44)}")
    return lines


def _difference(detail: Mapping[str, Json]) -> list[str]:
    lines = [
        f"{'Length':<10}A {detail['span_a_us'] / 1e3:.3f} ms, B {detail['span_b_us'] / 1e3:.3f} ms",
        f"{'Matched':<10}{detail['matched']} events ({detail['matched_share']:.1%}) on {detail['lane']}",
    ]
    if detail["diverges_at"]:
        lines.append(f"{'Diverges':<10}{one_line(detail['diverges_at'])}")
    interval = detail["interval"]
    if interval is not None:
        a, b = interval["a_s"], interval["b_s"]
        lines.append(f"{'Interval':<10}A {a[0]:.6f} to {a[1]:.6f} s, B {b[0]:.6f} to {b[1]:.6f} s")
    parts = interval["parts"] if interval is not None else detail["parts"]
    where = "In the interval" if interval is not None else "In all"
    lines += ["", f"{where:<{WIDTH}}{'delay ms':>12}{'A mean us':>11}{'B mean us':>11}{'A calls':>9}{'B calls':>9}"]
    lines += [
        f"  {_short(part['name']):<{WIDTH - 2}}{part['delay_us'] / 1e3:>12.3f}{part['mean_a_us']:>11.2f}"
        f"{part['mean_b_us']:>11.2f}{part['calls_a']:>9}{part['calls_b']:>9}"
        for part in parts
    ]
    return lines


def _frames(detail: Mapping[str, Json]) -> list[str]:
    total, unit = detail["total"], detail["unit"]
    lines = ["", f"{'Frame':<{WIDTH}}{'own':>8}{'with calls':>12}{'calls':>10}"]
    for row in detail["rows"][:12]:
        name, file, line = row["frame"]
        place = f"{name} ({file}:{line})" if line else str(name)
        calls = row["calls"] if row["calls"] is not None else ""
        lines.append(
            f"  {_short(place):<{WIDTH - 2}}{row['own'] / total:>8.1%}{row['total'] / total:>12.1%}{calls!s:>10}"
        )
    lines += ["", f"Threads of {total:.4g} {unit}"]
    return lines + [f"  {_short(name):<{WIDTH - 2}}{share:>8.1%}" for name, share in detail["threads"].items()]


def _short(text: Json, width: int = WIDTH - 4) -> str:
    line = one_line(str(text))
    return line if len(line) <= width else f"{line[: width - 1]}…"
