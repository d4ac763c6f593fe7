"""Scores of predictions and of their uncertainties."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr, ndtri

__all__ = ["calibration_curve", "calibration_error", "coverage", "crps", "interval_score", "nll", "normal_crps", "rmse"]

Array = NDArray[np.float64]


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
        A number between 0 and 1; it should be q for intervals at level q.

    Examples:
        >>> coverage([0.0, 5.0], low=[-1.0, -1.0], high=[1.0, 1.0])
        0.5

    """
    truth = np.asarray(truth, dtype=float)
    return float(np.mean((np.asarray(low) <= truth) & (truth <= np.asarray(high))))


def nll(truth: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    r"""The mean negative logarithm of the predictive density, for normal distributions or mixtures of them.

    .. math:: - \frac1n \sum_i \log \frac1K \sum_{k=1}^K \mathcal{N}(t_i | m_{ki}, s_{ki}^2)

    With draws of f as `mean` and the output noise as `std`, the mixture is the predictive distribution of labels of
    Algorithm 2. With one normal distribution per row, K = 1.

    Args:
        truth: labels y, or the known g(zeta), any shape.
        mean: means of the same shape, or draws with one more axis in front, `K x ...`.
        std: standard deviations above 0, in a shape that broadcasts to that of `mean`.

    Returns:
        One number; smaller is better.

    Examples:
        >>> round(nll([0.0], mean=[0.0], std=[1.0]), 4)
        0.9189
        >>> round(nll([0.0], mean=[[0.0], [0.0]], std=1.0), 4)
        0.9189

    """
    t, m, s = (np.asarray(values, dtype=float) for values in (truth, mean, std))
    log_density = -0.5 * ((t - m) / s) ** 2 - np.log(s) - 0.5 * math.log(2 * math.pi)
    if m.ndim > t.ndim:
        log_density = logsumexp(log_density, axis=0) - math.log(len(m))
    return float(-np.mean(log_density))


def crps(
    truth: ArrayLike, mean: ArrayLike | None = None, std: ArrayLike | None = None, *, draws: ArrayLike | None = None
) -> float:
    r"""The mean continuous ranked probability score, for normal distributions or for draws.

    .. math:: \mathrm{CRPS}(F, t) = \int (F(z) - 1\{t \le z\})^2 dz = E|Z - t| - \tfrac12 E|Z - Z'|

    For a normal distribution, with :math:`w = (t - m) / s`, it is
    :math:`s \, (w (2 \Phi(w) - 1) + 2 \varphi(w) - 1 / \sqrt\pi)`. For K draws it is that of their empirical
    distribution. On average it exceeds the score of the distribution that they were drawn from by E|Z - Z'| / (2 K).

    Args:
        truth: labels y, or the known g(zeta), any shape.
        mean: means of the same shape.
        std: standard deviations of the same shape; 0 gives the absolute error.
        draws: instead of `mean` and `std`, draws with one more axis in front, `K x ...`.

    Returns:
        One number in the units of `truth`; smaller is better.

    Examples:
        >>> round(crps([0.0], mean=[0.0], std=[1.0]), 4)
        0.2337
        >>> crps([0.0], draws=[[-1.0], [1.0]])
        0.5

    """
    t = np.asarray(truth, dtype=float)
    if draws is not None:
        if mean is not None or std is not None:
            raise TypeError("crps takes mean and std, or draws, not both.")
        z = np.sort(np.asarray(draws, dtype=float), axis=0)
        n_draws = len(z)
        ranks = 2 * np.arange(1, n_draws + 1) - n_draws - 1  # sum over pairs of |z - z'|, from sorted values
        half_distance = np.tensordot(ranks, z, axes=1) / n_draws**2
        return float(np.mean(np.abs(z - t).mean(0) - half_distance))
    if mean is None or std is None:
        raise TypeError("crps takes mean and std, or draws; one of them is missing.")
    return float(np.mean(normal_crps(t, mean, std)))


def normal_crps(truth: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Array:
    r"""The continuous ranked probability score of normal distributions, of each value.

    .. math:: s \, (w (2 \Phi(w) - 1) + 2 \varphi(w) - 1 / \sqrt\pi), \qquad w = (t - m) / s

    Args:
        truth: labels y, or the known g(zeta), any shape.
        mean: means of the same shape.
        std: standard deviations of the same shape; 0 gives the absolute error.

    Returns:
        The shape of `truth`, in its units; smaller is better.

    Examples:
        >>> normal_crps([0.0, 3.0], mean=0.0, std=[1.0, 0.0]).round(4)
        array([0.2337, 3.    ])

    """
    t, m, s = (np.asarray(values, dtype=float) for values in (truth, mean, std))
    with np.errstate(divide="ignore", invalid="ignore"):
        w = (t - m) / s
        density = np.exp(-0.5 * w**2) / math.sqrt(2 * math.pi)
        normal = s * (w * (2 * ndtr(w) - 1) + 2 * density - 1 / math.sqrt(math.pi))
    return np.asarray(np.where(s == 0, np.abs(t - m), normal))


def interval_score(truth: ArrayLike, low: ArrayLike, high: ArrayLike, level: float) -> float:
    r"""The mean score of intervals at one level: their width, and a penalty for values outside.

    .. math:: (h - l) + \frac{2}{1 - q} (l - t)_+ + \frac{2}{1 - q} (t - h)_+

    Its mean is smallest where the ends l and h are the (1 - q) / 2 and (1 + q) / 2 quantiles.

    Args:
        truth: labels y, or the known g(zeta), any shape.
        low: lower ends, the same shape.
        high: upper ends, the same shape.
        level: q, between 0 and 1.

    Returns:
        One number in the units of `truth`; smaller is better.

    Examples:
        >>> interval_score([0.0, 3.0], low=[-1.0, -1.0], high=[1.0, 1.0], level=0.5)
        6.0

    """
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}.")
    t, lower, upper = (np.asarray(values, dtype=float) for values in (truth, low, high))
    outside = np.maximum(lower - t, 0) + np.maximum(t - upper, 0)
    return float(np.mean(upper - lower + 2 / (1 - level) * outside))


def calibration_curve(truth: ArrayLike, mean: ArrayLike, std: ArrayLike, levels: ArrayLike) -> Array:
    r"""The share of true values inside the central normal interval at each level, which should be that level.

    .. math:: \frac1n \#\left\{i : |t_i - m_i| \le \Phi^{-1}\big(\tfrac{1 + q}{2}\big) s_i\right\}

    Args:
        truth: labels y, or the known g(zeta), any shape.
        mean: means of the same shape.
        std: standard deviations of the same shape.
        levels: values of q, between 0 and 1.

    Returns:
        The coverage at each level.

    Examples:
        >>> calibration_curve([0.0, 1.0, 3.0], mean=0.0, std=1.0, levels=[0.5, 0.95])
        array([0.33333333, 0.66666667])

    """
    t, m, s = (np.asarray(values, dtype=float) for values in (truth, mean, std))
    errors, widths = np.abs(t - m), np.broadcast_to(s, np.broadcast(t, m).shape)
    factors = ndtri((1 + np.asarray(levels, dtype=float)) / 2)
    return np.array([np.mean(errors <= factor * widths) for factor in np.atleast_1d(factors)])


def calibration_error(probabilities: ArrayLike, truth: ArrayLike, n_bins: int = 10) -> float:
    r"""The expected calibration error of predicted classes: how far their probabilities are from what comes true.

    .. math:: \sum_b \frac{n_b}{n} \Big| \frac{1}{n_b} \sum_{i \in b} \big( \max_c p_{ic} - t_{i \hat c_i} \big) \Big|,
              \qquad \hat c_i = \mathrm{argmax}_c\, p_{ic}

    Rows are put into bins of equal width by the probability of their most probable class. With n rows of drawn labels
    it is about :math:`\sqrt{n_{bins} / n} / 3` even where all probabilities are right.

    Args:
        probabilities: p, `rows x C`.
        truth: t, the place of each row's class, `rows`; or where they are known the true probabilities, `rows x C`.
        n_bins: the number of bins between 0 and 1.

    Returns:
        0 at best.

    Examples:
        >>> calibration_error([[0.75, 0.25], [0.75, 0.25]], truth=[0, 1])
        0.25

    """
    p, t = np.asarray(probabilities, dtype=float), np.asarray(truth)
    if t.ndim == 1:
        t = np.eye(p.shape[1])[t]
    chosen, rows = p.argmax(1), np.arange(len(p))
    bins = np.minimum((n_bins * p[rows, chosen]).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=p[rows, chosen] - t[rows, chosen], minlength=n_bins)
    return float(np.abs(gaps).sum() / len(p))
