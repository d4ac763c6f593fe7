"""Errors of X that are more than standard deviations: laws of single columns, and cells without a reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.inputs.parts import Parts

__all__ = ["Errors", "MixedErrors", "as_normal", "as_tensor", "joined", "with_law"]

Array = NDArray[np.float64]
UNKNOWN = 1e6  # spreads: an error that leaves a share of 1e-12 of a reading, and so says nothing of the true value


@dataclass(frozen=True, eq=False)
class MixedErrors:
    r"""Errors whose columns have laws of their own, or whose cells may be missing.

    .. math:: p(x | \zeta) \propto \prod_c \sum_j w_{cj}\, \mathcal{N}(\zeta_c | x_c + s_{cj}, v_{cj}^2)

    What is asked of any errors has the names that NumPy's arrays have: `len`, `any`, `[rows]` and `ndim`.

    Attributes:
        std: `(1 or rows) x n_x`, the standard deviation of each error; of a missing cell a million times the spread of
            its column, so that its reading counts for nothing.
        parts: for each column its law, `(1 or rows) x J`, or None for a normal one.
        missing: `rows x n_x`, which cells have no reading, or None where all have one.

    Examples:
        >>> from eiv.inputs.laws import Rectangular
        >>> law = Rectangular(0.3).parts(np.zeros(2), "x_err")
        >>> errors = MixedErrors.of([law, Parts.normal(0.1)])
        >>> errors.std.round(3), len(errors), errors.any()
        (array([[0.173, 0.1  ]]), 1, True)

    """

    std: Array
    parts: tuple[Parts | None, ...]
    missing: NDArray[np.bool_] | None = None

    ndim = 2  # as of standard deviations

    @classmethod
    def of(cls, parts: Sequence[Parts]) -> MixedErrors:
        """The errors of columns that have these laws."""
        n_rows = max(len(each.stds) for each in parts)
        stds = [each.stds[:, 0] if each.is_normal else each.std for each in parts]
        kept = tuple(None if each.is_normal else each for each in parts)
        return cls(np.column_stack([np.broadcast_to(std, n_rows) for std in stds]), kept)

    @classmethod
    def plain_or_of(cls, parts: Sequence[Parts]) -> Errors:
        """The same, as plain standard deviations where all columns are normal."""
        found = cls.of(parts)
        return found if any(found.parts) else found.std

    @classmethod
    def with_missing(cls, errors: Errors, missing: NDArray[np.bool_], spread: Array) -> Errors:
        """Errors, with cells that have no reading in columns of this `spread`, `n_x`; a ValueError for covariances."""
        if not missing.any():
            return errors
        if errors.ndim == 3:
            raise ValueError("missing='integrate' takes errors without correlations, got covariances.")
        known = errors if isinstance(errors, MixedErrors) else cls(errors, (None,) * missing.shape[1])
        unknown = UNKNOWN * np.where(spread > 0, spread, 1.0)
        std = np.where(missing, unknown, known.std)
        parts = tuple(
            None
            if each is None
            else Parts.normal(unknown[c]).where(missing[:, c], each)
            if missing[:, c].any()
            else each
            for c, each in enumerate(known.parts)
        )
        return cls(std, parts, missing)

    def __len__(self) -> int:
        return len(self.std)

    def __getitem__(self, rows: NDArray[np.intp] | slice) -> MixedErrors:
        if len(self) == 1:
            return self
        parts = tuple(None if each is None else each.take(rows) for each in self.parts)
        return MixedErrors(self.std[rows], parts, None if self.missing is None else self.missing[rows])

    def any(self) -> bool:
        """Whether any cell has an error."""
        return bool(self.std.any())

    def tobytes(self) -> bytes:
        """All numbers, to tell errors apart."""
        arrays = [self.std, *(part for each in self.parts if each is not None for part in each)]
        return b"".join(np.ascontiguousarray(part).tobytes() for part in arrays)

    def times(self, factor: float | Array) -> MixedErrors:
        """Errors `factor` times as large, one number or one per feature; what is missing stays so."""
        own = np.broadcast_to(factor, len(self.parts)).tolist()
        parts = tuple(None if each is None else each.times(by) for each, by in zip(self.parts, own, strict=True))
        found = replace(self, std=self.std * factor, parts=parts)
        if self.missing is None:
            return found
        spread = np.where(self.missing, self.std, 0.0).max(0) / UNKNOWN
        return MixedErrors.with_missing(replace(found, missing=None), self.missing, spread)  # type: ignore[return-value]

    def over(self, scale: Array) -> MixedErrors:
        """Errors of columns in units of `scale`, `n_x`."""
        parts = tuple(
            None if each is None else each.times(1 / unit) for each, unit in zip(self.parts, scale, strict=True)
        )
        return replace(self, std=self.std / scale, parts=parts)

    def of_features(self, chosen: NDArray[np.bool_]) -> MixedErrors:
        """Those of some columns."""
        parts = tuple(each for each, is_chosen in zip(self.parts, chosen, strict=True) if is_chosen)
        return MixedErrors(self.std[:, chosen], parts, None if self.missing is None else self.missing[:, chosen])

    @property
    def mean(self) -> Array:
        """Of the true values less the readings, `(1 or rows) x n_x`."""
        means = [np.zeros(1) if each is None else each.mean for each in self.parts]
        return np.column_stack([np.broadcast_to(mean, len(self)) for mean in means])

    @property
    def has_law(self) -> NDArray[np.bool_]:
        """Which cells have more than a normal distribution about their reading, `(1 or rows) x n_x`."""
        found = [
            np.zeros(1, bool) if each is None else np.isfinite(each.log_weights).sum(-1) > 1 for each in self.parts
        ]
        return np.column_stack([np.broadcast_to(each, len(self)) for each in found])

    @property
    def widest(self) -> int:
        """The most parts that a column has."""
        return max(1 if each is None else each.shifts.shape[-1] for each in self.parts)


def with_law(errors: Errors, columns: Sequence[int], unit: Parts) -> Errors:
    """Errors with another law in some columns, that of `unit`, and the standard deviations that they have.

    Missing cells stay so. `errors` are no covariances.

    Examples:
        >>> from eiv.inputs.parts import nearest_parts
        >>> found = with_law(np.array([[0.3, 0.1]]), [0], nearest_parts("rectangular"))
        >>> found.parts[0].std.round(3), found.parts[1]
        (array([0.3]), None)

    """
    known = errors if isinstance(errors, MixedErrors) else MixedErrors(errors, (None,) * errors.shape[1])
    parts = list(known.parts)
    for c in columns:
        own = None if unit.is_normal else unit.times(known.std[:, c] / unit.std)
        if own is not None and known.missing is not None:
            own = Parts.normal(known.std[:, c]).where(known.missing[:, c], own)
        parts[c] = own
    found = replace(known, parts=tuple(parts))
    return found if any(parts) or known.missing is not None else known.std


Errors = Array | MixedErrors
"""Errors of X in one of the forms that are used inside."""


def as_normal(x: Array, errors: Errors) -> tuple[Array, Array]:
    """Readings and errors as if all laws were normal, with the same mean and standard deviation.

    Readings are moved by the mean of the true value less the reading.

    Examples:
        >>> as_normal(np.array([[1.0]]), np.array([[0.1]]))
        (array([[1.]]), array([[0.1]]))

    """
    return (x + errors.mean, errors.std) if isinstance(errors, MixedErrors) else (x, errors)


def missing_cells(errors: Errors) -> NDArray[np.bool_] | None:
    """Which cells have no reading, `rows x n_x`; None where all have one."""
    return errors.missing if isinstance(errors, MixedErrors) else None


def as_tensor(errors: Errors) -> Tensor | MixedErrors:
    """What a prior is learned from: a tensor of normal errors, or errors with laws as they are.

    Examples:
        >>> as_tensor(np.array([[0.1]]))
        tensor([[0.1000]], dtype=torch.float64)

    """
    return errors if isinstance(errors, MixedErrors) else torch.tensor(errors)


def joined(pieces: Sequence[Errors], sizes: Sequence[int]) -> Errors:
    """Errors of several blocks of rows as those of one table; `sizes` are the numbers of rows of the blocks.

    Examples:
        >>> joined([np.array([[0.1]]), np.array([[0.2]])], [2, 1])
        array([[0.1],
               [0.1],
               [0.2]])

    """
    plain = [each for each in pieces if isinstance(each, np.ndarray)]
    if len(plain) == len(pieces):
        return np.concatenate([np.broadcast_to(e, (n, *e.shape[1:])) for e, n in zip(plain, sizes, strict=True)])
    mixed = [each if isinstance(each, MixedErrors) else MixedErrors(each, (None,) * each.shape[1]) for each in pieces]
    std, missing = (
        np.concatenate([np.broadcast_to(values, (n, values.shape[1])) for values, n in zip(blocks, sizes, strict=True)])
        for blocks in (
            [each.std for each in mixed],
            [np.zeros(each.std.shape, dtype=bool) if each.missing is None else each.missing for each in mixed],
        )
    )
    parts = [
        Parts.stacked(
            [Parts.normal(each.std[:, c]) if (law := each.parts[c]) is None else law for each in mixed], sizes
        )
        if any(each.parts[c] is not None for each in mixed)
        else None
        for c in range(std.shape[1])
    ]
    return MixedErrors(std, tuple(parts), missing if missing.any() else None)
