"""The devices whose float32 products are modelled, and what their compiler backends take.

Covered: sm_75, sm_80, sm_90, sm_100, gfx90a, gfx942; which precisions Triton's own backend allows for each, asked of
the installed Triton; a stand-in for the active device, so that code which asks for it gets the modelled one.
Not covered: how `xf32` of gfx942 rounds (modelled as truncation, the worse of the two).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from probes.numeric.triton.arithmetic import Arithmetic
from probes.numeric.triton.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A target of Triton's compiler. `matrix_units`: whether float32 products can go to units that read less."""

    name: str
    backend: str
    arch: int | str
    threads: int
    matrix_units: bool = True

    def target(self) -> Any:
        """Triton's own word for it."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget(self.backend, self.arch, self.threads)

    def policy(self, tf32: Arithmetic = Arithmetic.TF32_TRUNCATED) -> Policy:
        """What it makes of what kernels ask for."""
        return Policy(tf32=tf32, without_units=not self.matrix_units)

    def precisions(self) -> tuple[str, ...]:
        """Every `input_precision` that its backend takes; anything else is a compile error."""
        from triton.compiler.compiler import make_backend

        options = make_backend(self.target()).parse_options({})
        return tuple(options.allowed_dot_input_precisions)


DEVICES = {
    device.name: device
    for device in (
        Device(name="sm_75", backend="cuda", arch=75, threads=32, matrix_units=False),
        Device(name="sm_80", backend="cuda", arch=80, threads=32),
        Device(name="sm_90", backend="cuda", arch=90, threads=32),
        Device(name="sm_100", backend="cuda", arch=100, threads=32),
        Device(name="gfx90a", backend="hip", arch="gfx90a", threads=64, matrix_units=False),
        Device(name="gfx942", backend="hip", arch="gfx942", threads=64),
    )
}
SM_90 = DEVICES["sm_90"]


@contextmanager
def standing_in(device: Device) -> Iterator[None]:
    """`triton.runtime.driver.active.get_current_target()` answers with this device; it can do nothing else."""
    from triton.runtime import driver

    before = getattr(driver, "_active", None)
    driver.set_active(SimpleNamespace(get_current_target=device.target))
    try:
        yield
    finally:
        driver.set_active(before)
