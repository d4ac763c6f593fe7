"""Scores of predictions and of their uncertainties."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["coverage", "rmse"]


def rmse(truth: ArrayLike, mean: ArrayLike) -> float:
    r"""Root mean squared error.

    .. math:: \sqrt{\frac1n \sum_i (t_i - m_i)^2}

    Args:
        truth: labels y, or the known g(zeta), any shape.
        mean: predictions of the same shape.

    Returns:
        One number.

    Examples:
        >>> rmse([0.0, 0.0], [3.0, 3.0])
        3.0

    """
    difference = np.asarray(truth, dtype=float) - np.asarray(mean, dtype=float)
    return float(np.sqrt(np.mean(difference**2)))


def coverage(truth: ArrayLike, low: ArrayLike, high: ArrayLike) -> float:
    r"""The share of true values inside their intervals.

    .. math:: \frac1n \#\{i : \mathrm{low}_i \le t_i \le \mathrm{high}_i\}

    Args:
        truth: labels y, or the known g(zeta), any shape.
        low: lower ends, the same shape.
        high: upper ends, the same shape.

    Returns:
        A number between 0 and 1; right for intervals at level q is q.

    Examples:
        >>> coverage([0.0, 5.0], low=[-1.0, -1.0], high=[1.0, 1.0])
        0.5

    """
    truth = np.asarray(truth, dtype=float)
    return float(np.mean((np.asarray(low) <= truth) & (truth <= np.asarray(high))))
