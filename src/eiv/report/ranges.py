"""Where the inputs leave the range of the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ranges"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ranges:
    r"""Rows beside the range of the training rows.

    .. math:: x_{ij} < \min_t x_{tj} \quad \text{or} \quad x_{ij} > \max_t x_{tj}

    Attributes:
        X: `rows x n_x`.
        low: `n_x`, the least values in the training rows.
        high: `n_x`, the greatest.

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
        """`rows x n_x`."""
        return self.low > self.X

    @property
    def above(self) -> NDArray[np.bool_]:
        """`rows x n_x`."""
        return self.high < self.X

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Rows with a value outside."""
        return np.asarray((self.below | self.above).any(1))

    @property
    def features(self) -> NDArray[np.intp]:
        """Features with a value outside, those with most of them first."""
        counts = (self.below | self.above).sum(0)
        order = np.argsort(-counts, kind="stable")
        return np.asarray(order[counts[order] > 0])

    @property
    def places(self) -> Array:
        """Where each value lies in the training range, 0 its least and 1 its greatest value; `rows x n_x`."""
        width = self.high - self.low
        return (self.X - self.low) / np.where(width > 0, width, 1.0)
