"""The roofline of a model step as an observation, as lines and as JSON.

Covered: memory for weights, the step's parts, least time, binding resource and the share of each part, distance of a
measured time, one device or several that share the work evenly. Not covered: communication between devices.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from probes.base import Against, Cost, Json, Observation, Quantity, Rung, Verdict, Where
from probes.capacity.roofline.bound import Limit, Work, limit
from probes.capacity.roofline.hardware import Hardware
from probes.capacity.roofline.shape import Shape
from probes.capacity.roofline.step import Setting, Step, decode, prefill, weight_bytes

NAME = "capacity.roofline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A step against a device. `devices` share work and memory evenly."""

    shape: Shape
    setting: Setting
    phase: str
    device: Hardware
    devices: int
    step: Step
    whole: Limit
    weights_bytes: float

    @property
    def part_seconds(self) -> dict[str, float]:
        """Least time of each part alone."""
        return {name: _limit(work, self.device, self.devices).least_s for name, work in self.step.parts.items()}

    @property
    def devices_for_weights(self) -> int:
        """How many devices the weights alone fill."""
        return int(-(-self.weights_bytes // self.device.memory_bytes))


def roofline(shape: Shape, setting: Setting, phase: str, device: Hardware, devices: int = 1) -> Roofline:
    """The roofline of a `decode` or `prefill` step."""
    step = decode(shape, setting) if phase == "decode" else prefill(shape, setting)
    return Roofline(
        shape=shape, setting=setting, phase=phase, device=device, devices=devices, step=step,
        whole=_limit(step.total, device, devices), weights_bytes=weight_bytes(shape, setting.weights),
    )  # fmt: skip


def observe(found: Roofline, measured_s: float | None = None) -> Observation:
    """As an observation: inconclusive when a rate that the step needs is not published."""
    whole = found.whole
    quantities = [
        Quantity(name="weights_bytes", value=found.weights_bytes, unit="B"),
        Quantity(name="step_bytes", value=found.step.total.bytes, unit="B"),
        Quantity(name="step_flop", value=found.step.total.flops, unit="1"),
        Quantity(name="least_s", value=whole.least_s, unit="s"),
    ]
    if measured_s is not None:
        quantities.append(Quantity(name="reached", value=whole.reached(measured_s), unit="1"))
    unsure = bool(whole.unknown)
    missing = f"; no published rate for {', '.join(whole.unknown)}" if unsure else ""
    return Observation(
        probe=NAME, rung=Rung.STATIC, verdict=Verdict.INCONCLUSIVE if unsure else Verdict.PASS,
        where=Where(input=f"{found.phase} of {found.shape.name}, batch {found.setting.batch}, "
                    f"{found.setting.context} tokens"),
        cost=Cost(wall_s=0.0), against=Against(kind="limit", name=found.device.name), quantities=tuple(quantities),
        summary=f"{whole.binding} binds on {found.devices} {found.device.name}: at least "
        f"{whole.least_s * 1e3:.3g} ms a step{missing}",
        signals={"binding": whole.binding, "fits": found.devices_for_weights <= found.devices},
        detail=document(found, measured_s),
    )  # fmt: skip


def document(found: Roofline, measured_s: float | None = None) -> dict[str, Json]:
    """All figures as JSON."""
    seconds = found.part_seconds
    rows = [
        {"part": name, "bytes": work.bytes, "flop": dict(work.flop), "transcendentals": work.transcendentals,
         "least_s": seconds[name]} for name, work in found.step.parts.items()
    ]  # fmt: skip
    return {
        "model": found.shape.name, "parameters": found.shape.parameters, "active": found.shape.active_parameters,
        "phase": found.phase, "setting": asdict(found.setting), "weights_bytes": found.weights_bytes,
        "hardware": found.device.name, "source": found.device.source, "devices": found.devices,
        "devices_for_weights": found.devices_for_weights, "parts": rows, "seconds": dict(found.whole.seconds),
        "binding": found.whole.binding, "least_s": found.whole.least_s, "unknown": list(found.whole.unknown),
        "measured_s": measured_s, "reached": found.whole.reached(measured_s) if measured_s else None,
    }  # fmt: skip


def lines(found: Roofline, measured_s: float | None = None) -> list[str]:
    """For people."""
    total, whole, setting = found.step.total, found.whole, found.setting
    text = [
        f"{found.shape.name}: {found.shape.parameters / 1e9:.0f} B parameters, "
        f"{found.shape.active_parameters / 1e9:.0f} B active; "
        f"weights in {setting.weights} {_size(found.weights_bytes)}, "
        f"{found.devices_for_weights} x {found.device.name} for them alone",
        f"{found.phase}: batch {setting.batch}, context {setting.context:,}, on {found.devices} x {found.device.name} "
        f"({found.device.source})",
        f"  {'part':<18}{'bytes':>12}{'operations':>14}{'least':>12}",
    ]
    seconds = found.part_seconds
    rows = [*found.step.parts.items(), ("whole step", total)]
    for name, work in rows:
        least = whole.least_s if name == "whole step" else seconds[name]
        text.append(f"  {name:<18}{_size(work.bytes):>12}{work.flops:>14.3g}{least * 1e3:>9.3g} ms")
    text.append(f"  {whole.binding} binds; {total.intensity_flop_per_byte:.3g} operations a byte")
    if whole.unknown:
        text.append(f"  cannot tell for {', '.join(whole.unknown)}: no published rate")
    if measured_s is not None:
        text.append(f"  measured {measured_s * 1e3:.3g} ms: {whole.reached(measured_s):.1%} of the limit")
    return text


def _limit(work: Work, device: Hardware, devices: int) -> Limit:
    return limit(work.times(1 / devices), device)


def _size(value: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value:.0f} B"
