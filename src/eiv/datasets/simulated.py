"""The four simulated problems of the paper (its table sim_data)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eiv.validation import check, check_option, integer

__all__ = ["SIMULATED", "Simulated", "simulate"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A simulated problem: a row of the paper's table sim_data."""

    formula: str
    g: Callable[[Array], Array]
    zeta_range: tuple[float, float]
    x_err: float
    y_noise: float
    n_rows: int

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of zeta."""
        low, high = self.zeta_range
        return (low + high) / 2, (high - low) / math.sqrt(12)


def _sine(zeta: Array) -> Array:
    return zeta + np.sin(2 * np.pi * zeta) + np.sin(4 * np.pi * zeta)


SIMULATED: dict[str, Problem] = {
    "linear": Problem("ζ", lambda zeta: zeta, (-1.0, 1.0), x_err=0.1, y_noise=0.2, n_rows=500),
    "quadratic": Problem("ζ²", lambda zeta: zeta**2, (-1.0, 1.0), x_err=0.1, y_noise=0.1, n_rows=500),
    "cubic": Problem("ζ³", lambda zeta: zeta**3, (-1.0, 1.0), x_err=0.2, y_noise=0.05, n_rows=1000),
    "sine": Problem("ζ + sin 2πζ + sin 4πζ", _sine, (-0.2, 0.8), x_err=0.04, y_noise=0.01, n_rows=2000),
}


@dataclass(frozen=True)
class Simulated:
    r"""Rows of a simulated problem, with their true inputs and outputs.

    .. math:: x = \zeta + \varepsilon_x, \qquad y = g(\zeta) + \varepsilon_y

    Attributes:
        zeta: `rows x 1`, the true inputs.
        truth: `rows`, g(zeta).
        X: `rows x 1`, the measured inputs.
        y: `rows`, the measured outputs.

    Examples:
        >>> simulate("linear", n_rows=3, random_state=0).X.shape
        (3, 1)

    """

    zeta: Array
    truth: Array
    X: Array
    y: Array


def simulate(
    name: str,
    n_rows: int | None = None,
    random_state: int | None = None,
    *,
    zeta: Literal["uniform", "normal"] = "uniform",
) -> Simulated:
    r"""Draw rows of one of the paper's simulated problems.

    .. math:: \zeta \sim \mathrm{Uniform}, \qquad x = \zeta + \varepsilon_x, \qquad y = g(\zeta) + \varepsilon_y

    Args:
        name: "linear", "quadratic", "cubic" or "sine".
        n_rows: the number of rows; by default that of the paper.
        random_state: the seed.
        zeta: the distribution of the true inputs, "uniform" as in the paper, or "normal" with the same mean and spread.

    Returns:
        True inputs, truth, measured inputs (`rows x 1`) and outputs (`rows`).

    Examples:
        >>> data = simulate("quadratic", random_state=0)
        >>> data.y.shape, bool(np.allclose(data.truth, data.zeta[:, 0] ** 2))
        ((500,), True)

    """
    check_option("name", name, tuple(SIMULATED))
    problem = SIMULATED[name]
    if n_rows is None:
        n_rows = problem.n_rows
    check("n_rows", n_rows, integer(1))
    random = np.random.default_rng(random_state)
    check_option("zeta", zeta, ("uniform", "normal"))
    shape = (n_rows, 1)
    true = random.uniform(*problem.zeta_range, shape) if zeta == "uniform" else random.normal(*problem.moments, shape)
    truth = problem.g(true[:, 0])
    return Simulated(
        zeta=true,
        truth=truth,
        X=true + problem.x_err * random.standard_normal(shape),
        y=truth + problem.y_noise * random.standard_normal(n_rows),
    )
