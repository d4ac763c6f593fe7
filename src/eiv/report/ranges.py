"""Inputs outside the range of the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ranges"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ranges:
    """Rows compared with the range of the training rows, feature by feature.

    Attributes:
        X: `rows x n_x`.
        low: `n_x`, the least values in the training rows.
        high: `n_x`, the greatest values there.

    Examples:
        >>> found = Ranges(np.array([[0.5, 2.0], [3.0, -1.0]]), low=np.zeros(2), high=np.ones(2))
        >>> found.below.sum(0).tolist(), found.above.sum(0).tolist(), found.rows.tolist()
        ([0, 1], [1, 1], [True, True])

    """

    X: Array
    low: Array
    high: Array

    @property
    def below(self) -> NDArray[np.bool_]:
        """Whether each value is below the range, `rows x n_x`."""
        return self.low > self.X

    @property
    def above(self) -> NDArray[np.bool_]:
        """Whether each value is above the range, `rows x n_x`."""
        return self.high < self.X

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Whether each row has a value outside, `rows`."""
        return np.asarray((self.below | self.above).any(1))

    @property
    def features(self) -> NDArray[np.intp]:
        """The indices of the features with values outside, the one with most such values first."""
        counts = (self.below | self.above).sum(0)
        order = np.argsort(-counts, kind="stable")
        return np.asarray(order[counts[order] > 0])

    @property
    def places(self) -> Array:
        """The place of each value in the training range, from 0 at its lower to 1 at its upper end, `rows x n_x`."""
        width = self.high - self.low
        return (self.X - self.low) / np.where(width > 0, width, 1.0)
