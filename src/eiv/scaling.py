"""Standardisation of X, y and their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
    def identity(cls, n_features: int) -> Scaler:
        """The scaler that leaves values unchanged."""
        return cls(np.zeros(n_features), np.ones(n_features))
