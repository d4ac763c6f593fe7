"""Standardisation of X, y and their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_MIDDLE_HALF = 1.349  # standard deviations from the lower to the upper quartile of a normal distribution


@dataclass(frozen=True)
class Scaler:
    """The standardisation of columns: (value - shift) / scale.

    A constant column has an infinite scale, so that its values and errors map to zero.
    """

    shift: Array
    scale: Array

    @classmethod
    def fit(cls, values: Array) -> Scaler:
        """The scaler with the mean and standard deviation of each column of `values`, `rows x features`."""
        constant = np.ptp(values, axis=0) == 0
        return cls(values.mean(0), np.where(constant, np.inf, values.std(0)))

    @classmethod
    def fit_middle(cls, values: Array) -> Scaler:
        """The scaler by which the middle half of each column has the spread of a standard normal one.

        A few wild values do not move it. A column whose middle half is constant has its mean and standard deviation.
        """
        low, median, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
        plain, has_middle = cls.fit(values), high > low
        scale = np.where(has_middle, (high - low) / _MIDDLE_HALF, plain.scale)
        return cls(np.where(has_middle, median, plain.shift), scale)

    @classmethod
    def identity(cls, n_features: int) -> Scaler:
        """The scaler that leaves values unchanged."""
        return cls(np.zeros(n_features), np.ones(n_features))
