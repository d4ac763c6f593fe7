"""Standardisation of X, y and their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eiv.io.pieces import AT_ONCE, extremes, pieces, weighted_total

Array = NDArray[np.float64]
_ROUNDING = 1e-12  # of sums of weights, as a share of all of them
_NORMAL_RANGE = 1.349  # standard deviations from the lower to the upper quartile of a normal distribution


@dataclass(frozen=True)
class Scaler:
    """The standardisation of columns: (value - shift) / scale.

    A constant column has an infinite scale, so that its values and errors map to zero.
    """

    shift: Array
    scale: Array

    @classmethod
    def fit(cls, values: Array, weights: Array | None = None) -> Scaler:
        """The scaler with the mean and standard deviation of each column of `values`, `rows x features`.

        A row counts as often as its weight says, `rows`; once where there are none.
        """
        low, high = extremes(values)
        constant = low == high
        shift, spread = mean_and_spread(values, weights)
        return cls(shift, np.where(constant, np.inf, spread))

    @classmethod
    def fit_middle(cls, values: Array, weights: Array | None = None) -> Scaler:
        """The scaler by which each column has the interquartile range of a standard normal distribution.

        A few wild values do not move it. A column whose interquartile range is 0 has its mean and standard deviation.
        Weights are as for `fit`.
        """
        low, median, high = _quantiles(np.asarray(values), np.array([0.25, 0.5, 0.75]), weights)
        plain, has_range = cls.fit(values, weights), high > low
        scale = np.where(has_range, (high - low) / _NORMAL_RANGE, plain.scale)
        return cls(np.where(has_range, median, plain.shift), scale)

    @classmethod
    def identity(cls, n_features: int) -> Scaler:
        """The scaler that leaves values unchanged."""
        return cls(np.zeros(n_features), np.ones(n_features))


def mean_and_spread(values: Array, weights: Array | None = None) -> tuple[Array, Array]:
    r"""The mean and the standard deviation of each column of `values`, `rows x columns`, over weighted rows.

    .. math:: m = \frac1W \sum_i w_i v_i, \qquad s^2 = \frac1W \sum_i w_i (v_i - m)^2, \qquad W = \sum_i w_i

    NaN counts for nothing. Sums over many rows are made piece by piece.
    """
    if len(values) > AT_ONCE and not any(np.isnan(piece).any() for piece in pieces(values)):
        size = len(values) if weights is None else weights.sum()
        mean = weighted_total(values, weights) / size
        return mean, np.sqrt(weighted_total(values, weights, mean) / size)
    gaps = np.isnan(values)
    if gaps.any():
        return _of_known(values, weights, ~gaps)
    if weights is None:
        return values.mean(0), values.std(0)
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))


def _of_known(values: Array, weights: Array | None, known: NDArray[np.bool_]) -> tuple[Array, Array]:
    """`mean_and_spread` of the values that are `known`, `rows x columns`."""
    columns = [
        mean_and_spread(column[own, None], None if weights is None else weights[own])
        for column, own in zip(values.T, known.T, strict=True)
    ]
    mean, spread = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return mean, spread


def _quantiles(values: Array, levels: Array, weights: Array | None) -> Array:
    r"""Quantiles of each column of `values`, `rows x columns`, at increasing levels: `levels x columns`.

    With weights, the k-th value in order is the first one whose weights add up to more than k, with that of all smaller
    ones. Whole weights then have the quantiles of the table in which each row is repeated.
    """
    if weights is None:
        return np.quantile(values, levels, axis=0)
    order = values.argsort(0)
    ends = weights[order].cumsum(0)  # rows x columns
    places = levels * np.maximum(weights.sum() - 1, 0.0)
    lower = np.floor(places)
    found = np.empty((len(levels), values.shape[1]))
    for j, (own, column) in enumerate(zip(order.T, ends.T, strict=True)):
        low, high = (values[own[_place(column, at)], j] for at in (lower, lower + 1))
        found[:, j] = low + (places - lower) * (high - low)
    return found


def _place(ends: Array, at: Array) -> NDArray[np.intp]:
    """The first place whose end lies beyond each of `at`, but for rounding; the last one where there is none."""
    found: NDArray[np.intp] = np.searchsorted(ends, at + _ROUNDING * ends[-1], side="right")
    return np.minimum(found, len(ends) - 1)
