"""The best that any method can do on a simulated problem: f = g and the true distribution of zeta."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from eiv.datasets import SIMULATED

__all__ = ["smallest_rmse"]

Array = NDArray[np.float64]
_NODES = 4001
_WIDEST = 8.0  # standard deviations of a normal distribution that are integrated over


def smallest_rmse(name: str, zeta: str) -> float:
    r"""The root mean squared error of E[g(zeta) | x] as a prediction of g(zeta), by quadrature.

    .. math:: \sqrt{\mathrm{E}\big[\mathrm{Var}(g(\zeta) \mid x)\big]}

    Args:
        name: a simulated problem.
        zeta: "uniform" or "normal", the distribution of the true inputs.

    Returns:
        One number.

    Examples:
        >>> round(smallest_rmse("linear", "uniform"), 3)
        0.095

    """
    problem = SIMULATED[name]
    mean, spread = problem.moments
    low, high = problem.zeta_range if zeta == "uniform" else (mean - _WIDEST * spread, mean + _WIDEST * spread)
    true = np.linspace(low, high, _NODES)
    prior = np.full(_NODES, 1.0) if zeta == "uniform" else norm.pdf(true, mean, spread)
    prior[[0, -1]] /= 2  # the trapezoidal rule
    prior /= prior.sum()
    x = np.linspace(low - 6 * problem.x_err, high + 6 * problem.x_err, _NODES)
    joint = prior * norm.pdf(x[:, None], true, problem.x_err)  # x by zeta
    density = joint.sum(1)
    g = problem.g(true)
    with np.errstate(invalid="ignore", divide="ignore"):
        posterior = np.where(density[:, None] > 0, joint / density[:, None], 0.0)
    first = posterior @ g
    variance = posterior @ g**2 - first**2
    return float(np.sqrt(np.sum(variance * density) / np.sum(density)))
