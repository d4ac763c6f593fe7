"""The best possible prediction on a simulated problem, which knows g and the true distribution of zeta."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from eiv.datasets import SIMULATED

__all__ = ["best_prediction", "smallest_rmse"]

Array = NDArray[np.float64]
_NODES = 4001
_WIDEST = 8.0  # the limits of integration over a normal distribution, in standard deviations


@functools.cache
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
    low, high = _range(name, zeta)
    margin = 6 * SIMULATED[name].x_err
    density, _, variance = _given(name, zeta, np.linspace(low - margin, high + margin, _NODES))
    return float(np.sqrt(np.sum(variance * density) / np.sum(density)))


def best_prediction(name: str, zeta: str, x: Array) -> Array:
    r"""The prediction of g(zeta) with the smallest mean squared error, by quadrature.

    .. math:: \mathrm{E}[g(\zeta) \mid x] = \frac{\int g(\zeta) \, \pi(\zeta) \, \mathrm{N}(x; \zeta, \sigma_x^2) \,
              \mathrm{d}\zeta}{\int \pi(\zeta) \, \mathrm{N}(x; \zeta, \sigma_x^2) \, \mathrm{d}\zeta}

    Args:
        name: a simulated problem.
        zeta: "uniform" or "normal", the distribution of the true inputs.
        x: `rows`, measured inputs.

    Returns:
        `rows`.

    Examples:
        >>> best_prediction("linear", "uniform", np.array([0.5, 1.0, 2.0])).round(2)
        array([0.5 , 0.92, 0.99])

    """
    return _given(name, zeta, x)[1]


def _range(name: str, zeta: str) -> tuple[float, float]:
    problem = SIMULATED[name]
    mean, spread = problem.moments
    return problem.zeta_range if zeta == "uniform" else (mean - _WIDEST * spread, mean + _WIDEST * spread)


def _given(name: str, zeta: str, x: Array) -> tuple[Array, Array, Array]:
    """The density of x up to a factor, and the mean and variance of g(zeta) given x: `rows` each."""
    problem = SIMULATED[name]
    true = np.linspace(*_range(name, zeta), _NODES)
    log_prior = np.zeros(_NODES) if zeta == "uniform" else norm.logpdf(true, *problem.moments)
    log_prior[[0, -1]] -= np.log(2)  # the trapezoidal rule
    log_joint = log_prior + norm.logpdf(x[:, None], true, problem.x_err)  # x by zeta
    largest = log_joint.max(1)
    joint = np.exp(log_joint - largest[:, None])
    total = joint.sum(1)
    g = problem.g(true)
    first = joint @ g / total
    return total * np.exp(largest), first, joint @ g**2 / total - first**2
