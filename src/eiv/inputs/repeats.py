"""Errors of the input from repeated measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Repeats", "errors_from_repeats"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Repeats:
    r"""Averages of repeated measurements, with their errors; made by `eiv.errors_from_repeats`.

    .. math:: \bar x_g = \frac{1}{n_g} \sum_{i \in g} x_i, \qquad \sigma_{\bar x_g} = \sigma_x / \sqrt{n_g}

    Attributes:
        X: `groups x n_x`, the averages (a pandas table where X was one).
        X_err: the errors of those averages for `fit` and `predict`: `groups x n_x`, or covariances
            `groups x n_x x n_x`.
        x_err: the error of a single measurement: `n_x`, or its covariance `n_x x n_x`; one per group with `by_group`.
        uncertainty: the standard uncertainty of each number of `x_err`, same shape.
        groups: the labels, in the order of the averages.
        counts: `groups`, measurements in each.
        dof: the degrees of freedom behind `x_err`: one number, or one per group.
        members: `rows`, the position of the group of each measurement.

    Examples:
        >>> repeats = errors_from_repeats([[1.0], [1.2], [3.0]], groups=["a", "a", "b"])
        >>> repeats.average([5.0, 7.0, 9.0])  # such as y
        array([6., 9.])

    """

    X: Any
    X_err: Array
    x_err: Array
    uncertainty: Array
    groups: NDArray[Any]
    counts: NDArray[np.int64]
    dof: NDArray[np.int64]
    members: NDArray[np.int64]

    def average(self, values: ArrayLike) -> Array:
        """Averages over the same groups of something else with one value a measurement, `rows` or `rows x columns`."""
        columns = np.asarray(values, dtype=float)
        if len(columns) != len(self.members):
            raise ValueError(f"values must have one a measurement ({len(self.members)}), got {len(columns)}.")
        return _means(columns, self.members, self.counts)


def errors_from_repeats(X: Any, groups: ArrayLike, *, by_group: bool = False, covariance: bool = False) -> Repeats:
    r"""Estimate the error of the input from repeated measurements, and average them.

    .. math::
        S = \frac{1}{\nu} \sum_g \sum_{i \in g} (x_i - \bar x_g)(x_i - \bar x_g)^T, \qquad \nu = \sum_g (n_g - 1)

    The uncertainty of a standard deviation s with nu degrees of freedom is that of normal errors,
    :math:`s \sqrt{1 / c_4^2 - 1}` (about :math:`s / \sqrt{2 \nu}`); that of an element of S is
    :math:`\sqrt{(S_{ij}^2 + S_{ii} S_{jj}) / \nu}`.

    Args:
        X: `rows x n_x`, all single measurements.
        groups: `rows`, a label for each: rows with the same label measure the same true input.
        by_group: whether each group has an error of its own (two measurements at least), instead of one for all.
        covariance: whether errors of different features may be correlated.

    Returns:
        The averages, their errors, and the error of a single measurement with its uncertainty.

    Examples:
        >>> random = np.random.default_rng(0)
        >>> zeta = np.repeat(random.normal(size=(200, 1)), 3, axis=0)
        >>> repeats = errors_from_repeats(zeta + 0.1 * random.normal(size=zeta.shape), np.repeat(np.arange(200), 3))
        >>> repeats.X.shape, repeats.x_err.round(1), repeats.uncertainty.round(4)
        ((200, 1), array([0.1]), array([0.0036]))

    """
    values, labels = np.asarray(X, dtype=float), np.asarray(groups)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(f"X must be a table of finite numbers with two axes, got shape {values.shape}.")
    if labels.shape != (len(values),):
        raise ValueError(f"groups must have a label for each of the {len(values)} rows, got shape {labels.shape}.")
    names, members, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if by_group and counts.min() < 2:
        raise ValueError(f"by_group needs two rows in each group at least; group {names[counts.argmin()]} has one.")
    if counts.max() < 2:
        raise ValueError("groups has no label twice: without repeated measurements there is nothing to estimate.")
    means = _means(values, members, counts)
    gaps = values - means[members]
    products = gaps[:, :, None] * gaps[:, None] if covariance else gaps**2
    dof = counts - 1 if by_group else np.array((counts - 1).sum())
    sums = _sums(products, members, len(names)) if by_group else products.sum(0)
    axes = (..., *(None,) * (products.ndim - 1))
    squares = sums / dof[axes]
    shrinkage = counts[axes]
    if covariance:
        x_err, X_err = squares, squares / shrinkage
        variances = np.diagonal(squares, axis1=-2, axis2=-1)
        uncertainty = np.sqrt((squares**2 + variances[..., None] * variances[..., None, :]) / dof[axes])
    else:
        x_err, X_err = np.sqrt(squares), np.sqrt(squares / shrinkage)
        uncertainty = x_err * _spread_of_a_standard_deviation(dof)[axes]
    averages = type(X)(means, columns=X.columns, index=names) if hasattr(X, "columns") else means
    return Repeats(averages, X_err, x_err, uncertainty, names, counts, dof, members)


def _spread_of_a_standard_deviation(dof: NDArray[np.int64]) -> Array:
    """The relative standard uncertainty of a standard deviation from normal data."""
    from scipy.special import gammaln  # noqa: PLC0415

    c4 = np.sqrt(2 / dof) * np.exp(gammaln((dof + 1) / 2) - gammaln(dof / 2))
    return np.asarray(np.sqrt(np.maximum(c4**-2 - 1, 0)))


def _means(values: Array, members: NDArray[np.int64], counts: NDArray[np.int64]) -> Array:
    return _sums(values, members, len(counts)) / counts[(..., *(None,) * (values.ndim - 1))]


def _sums(values: Array, members: NDArray[np.int64], n_groups: int) -> Array:
    total = np.zeros((n_groups, *values.shape[1:]))
    np.add.at(total, members, values)
    return total
