from __future__ import annotations

import numpy as np
import pytest

from probes.numeric.growth import faster, fit, measure

SIZES = [128, 256, 512, 1024, 2048]


def law(exponent: float, noise: float = 0.1, repeats: int = 5, sizes: list[int] = SIZES) -> dict[float, list[float]]:
    rng = np.random.default_rng(7)
    return measure(
        lambda size, _repeat: 1e-6 * size**exponent * float(np.exp(noise * rng.standard_normal())), sizes, repeats
    )


@pytest.mark.parametrize("exponent", [-0.5, 0.5, 1.0, 2.0])
def test_an_exponent_lies_in_its_interval(exponent: float) -> None:
    found = fit(law(exponent))
    assert found.low is not None
    assert found.high is not None
    assert found.low - 0.05 <= exponent <= found.high + 0.05
    assert found.high - found.low < 0.3
    assert found.tells == ("grows" if exponent > 0 else "shrinks")


def test_an_error_that_stays_is_flat() -> None:
    assert fit(law(0.0)).tells == "flat"


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (law(1.0, sizes=[128, 256, 512]), "3 sizes"),
        (law(1.0, sizes=[100, 110, 120, 130]), "span"),
        (law(0.5, noise=3.0, repeats=3), "anywhere"),
        ({128.0: [0.0], 256.0: [0.0], 512.0: [0.0], 1024.0: [0.0]}, "floor"),
        ({128.0: [1.0], 256.0: [float("nan")], 512.0: [1.0], 1024.0: [1.0]}, "finite"),
        ({128.0: [1e-6], 256.0: [1e-6], 512.0: [1e-6], 1024.0: [1e-2], 2048.0: [1e-2], 4096.0: [1e-2]}, "no power law"),
    ],
)
def test_it_says_why_it_cannot_tell(samples: dict[float, list[float]], reason: str) -> None:
    found = fit(samples)
    assert found.tells == "cannot tell"
    assert found.exponent is None
    assert reason in found.sentence()


def test_growing_faster_than_the_reference_is_a_comparison_of_intervals() -> None:
    root, line = fit(law(0.5)), fit(law(1.0))
    assert faster(line, root) is True
    assert faster(root, root) is False
    assert faster(fit(law(0.5, noise=3.0, repeats=3)), root) is None
