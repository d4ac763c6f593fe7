"""Tables of many rows, in memory or in memory-mapped files, taken a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AT_ONCE = 2**17
"""The most rows that are worked on as one array; larger tables are read in pieces of as many, wherever they lie."""


@dataclass(frozen=True, eq=False)
class LargeArray:
    """Rows of an array, each read when it is asked for; for what uses single rows it stands in for a NumPy array.

    Numbers come as float64. `np.asarray` reads all of them.

    Attributes:
        values: `N x columns`, perhaps a memory map, in float32 or float64.
        rows: which of them are meant, in their order; None for all.
        factor: what they are multiplied by, one number or one for each column.

    Examples:
        >>> some = LargeArray(np.arange(8, dtype=np.float32).reshape(4, 2)).take(np.array([3, 1])) * 2
        >>> len(some), some[np.array([0])]
        (2, array([[12., 14.]]))

    """

    values: NDArray[Any]
    rows: NDArray[np.intp] | None = None
    factor: float | Array = 1.0

    def __len__(self) -> int:
        return len(self.values if self.rows is None else self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return (len(self), *self.values.shape[1:])

    @property
    def ndim(self) -> int:
        """Two."""
        return self.values.ndim

    def __getitem__(self, chosen: Any) -> Array:
        """Some rows, chosen by a slice or by their places; other choices read all rows first."""
        if isinstance(chosen, tuple):
            return np.asarray(np.asarray(self)[chosen])
        found = np.asarray(self.values[chosen if self.rows is None else self.rows[chosen]], dtype=np.float64)
        return found if np.all(self.factor == 1) else found * self.factor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self[:], dtype=dtype)

    def __mul__(self, factor: float | Array) -> LargeArray:
        return replace(self, factor=self.factor * factor)

    def take(self, rows: NDArray[np.intp]) -> LargeArray:
        """Rows by their places, still to be read."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def any(self, axis: int | None = None) -> Any:
        """Whether any number differs from zero, in each column or, without `axis`, at all."""
        columns = np.any([piece.any(0) for piece in pieces(self)], axis=0)
        return columns if axis == 0 else bool(columns.any())


def pieces(values: Array | LargeArray) -> Iterator[Array]:
    """The rows of an array, so many at once as `AT_ONCE` says.

    Examples:
        >>> [len(piece) for piece in pieces(np.zeros((AT_ONCE + 1, 1)))] == [AT_ONCE, 1]
        True

    """
    for start in range(0, len(values), AT_ONCE):
        yield np.ascontiguousarray(values[start : start + AT_ONCE])  # the order in memory decides how sums are rounded


def extremes(values: Array | LargeArray) -> tuple[Array, Array]:
    """The least and the greatest number of each column."""
    low, high = zip(*((piece.min(0), piece.max(0)) for piece in pieces(values)), strict=True)
    return np.min(low, axis=0), np.max(high, axis=0)


def evenly(n_rows: int, most: int) -> NDArray[np.intp]:
    """The places of at most so many rows, from the first to the last.

    Examples:
        >>> evenly(9, 5).tolist()
        [0, 2, 4, 6, 8]

    """
    return np.linspace(0, n_rows - 1, min(n_rows, most)).round().astype(np.intp)


def weighted_total(values: Array | LargeArray, weights: Array | None, centre: Array | None = None) -> Array:
    r"""Sums of columns, piece by piece: of the numbers, or of their squared distances from a `centre`.

    .. math:: \sum_i w_i v_i \quad \text{or} \quad \sum_i w_i (v_i - m)^2
    """
    sums, start = [], 0
    for piece in pieces(values):
        terms = piece if centre is None else (piece - centre) ** 2
        sums.append(terms.sum(0) if weights is None else weights[start : start + len(piece)] @ terms)
        start += len(piece)
    return np.asarray(np.sum(sums, axis=0))
