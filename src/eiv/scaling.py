"""Standardisation of X, y and their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scaler:
    """Shift and scale a column: (value - shift) / scale.

    A column without spread has an infinite scale, so that it and its error map to zero whatever their value.
    """

    shift: Array
    scale: Array

    @classmethod
    def fit(cls, values: Array) -> Scaler:
        """Mean and standard deviation of the columns of `values`, `rows x features`."""
        constant = np.ptp(values, axis=0) == 0
        return cls(values.mean(0), np.where(constant, np.inf, values.std(0)))

    @classmethod
    def identity(cls, n_features: int) -> Scaler:
        """Leave values as they are."""
        return cls(np.zeros(n_features), np.ones(n_features))
