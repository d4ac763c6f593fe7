"""Rows of a table that a page is made from, and the predictions for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eiv.inputs.mixed import Errors, joined
from eiv.prediction import Prediction

if TYPE_CHECKING:
    from eiv import FittedModel

__all__ = ["Sample"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Rows of a table, evenly chosen where it is large.

    Attributes:
        X: `rows x n_x`.
        X_err: their errors, `n_x` or `rows x n_x`, or with laws; None for that of the fit.
        y: `rows x n_y`, NaN where there is no label; None where the table has none at all.
        numbers: `rows`, the number of each row in its table, 1 for the first.
        n_rows: the number of rows of the table that can be used.
        name: the name of the table.
        n_left_out: the number of rows that cannot be used because of missing values.
        digest: the SHA-256 of the file of the table, if there is one.
        y_err: `rows x n_y`, the known errors of labels; None where there are none, or they are not known.

    Examples:
        >>> sample = Sample(np.zeros((2, 1)), None, None, numbers=np.array([1, 3]), n_rows=4, name="d.csv")
        >>> len(sample), sample.is_whole
        (2, False)

    """

    X: Array
    X_err: Errors | None
    y: Array | None
    numbers: NDArray[np.intp]
    n_rows: int
    name: str
    n_left_out: int = 0
    digest: str = ""
    y_err: Array | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the table."""
        return len(self) == self.n_rows

    def take(self, rows: NDArray[Any]) -> Sample:
        """Some of the rows, by their indices or by a mask."""
        return replace(
            self,
            X=self.X[rows],
            X_err=self.X_err
            if self.X_err is None or self.X_err.ndim == 1 or len(self.X_err) == 1
            else self.X_err[rows],
            y=None if self.y is None else self.y[rows],
            numbers=self.numbers[rows],
            y_err=None if self.y_err is None else self.y_err[rows],
        )

    def with_all_errors(self) -> Sample:
        """The same rows, with the median error of a label where it is a share of a label that is missing."""
        if self.y_err is None or np.isfinite(self.y_err).all():
            return self
        known = np.where(np.isfinite(self.y_err), self.y_err, np.nan)
        if np.isnan(known).all(0).any():
            return replace(self, y_err=None)
        return replace(self, y_err=np.where(np.isnan(known), np.nanmedian(known, axis=0), known))

    def evenly(self, most: int) -> Sample:
        """At most `most` of the rows, evenly chosen."""
        return self.take(np.linspace(0, len(self) - 1, min(most, len(self))).round().astype(int))

    @classmethod
    def joined(cls, pieces: Sequence[Sample]) -> Sample:
        """The rows of several blocks of a table, in order."""
        first = pieces[0]
        return replace(
            first,
            X=np.concatenate([piece.X for piece in pieces]),
            X_err=first.X_err
            if first.X_err is None or first.X_err.ndim == 1
            else joined([piece.X_err for piece in pieces if piece.X_err is not None], [len(piece) for piece in pieces]),
            y=None if first.y is None else np.concatenate([piece.y for piece in pieces if piece.y is not None]),
            numbers=np.concatenate([piece.numbers for piece in pieces]),
            n_rows=sum(piece.n_rows for piece in pieces),
            n_left_out=sum(piece.n_left_out for piece in pieces),
            y_err=None
            if first.y_err is None
            else np.concatenate([piece.y_err for piece in pieces if piece.y_err is not None]),
        )


def predict(model: FittedModel, X: Array, X_err: Any, y_err: Array | None, budget: bool = False) -> list[Prediction]:
    """One prediction per output; `y_err` is `rows x n_y` or `n_y`."""
    known = np.broadcast_to(0.0 if y_err is None else y_err, (len(X), model.n_outputs))
    return single_outputs(model.predict(*model.readings(X, X_err)[:2], known, keep_draws=False, budget=budget))


def single_outputs(p: Prediction) -> list[Prediction]:
    """A prediction of several outputs as a list of predictions of one output."""
    if p.mean.ndim == 1:
        return [p]
    return [
        Prediction(
            mean=p.mean[:, i],
            epistemic=p.epistemic[:, i],
            aleatoric=p.aleatoric[:, i],
            noise=p.noise[:, i],
            shares=None if p.shares is None else p.shares[:, i],
            feature_names=p.feature_names,
            labels=None if p.labels is None else p.labels[:, i],
            of_size=None if p.of_size is None else p.of_size[:, i],
            likeness=p.likeness,
            unlike_below=p.unlike_below,
        )
        for i in range(p.mean.shape[1])
    ]
