"""Errors that travel as columns of X: `x_err={"a": "a_err"}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eiv.inputs.errors import check_x_err
from eiv.validation import listed_names

__all__ = ["ErrorColumns"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ErrorColumns:
    """Which columns of X hold the errors of which others.

    A column that holds errors is no feature. Whatever takes rows of X takes their errors with them.

    Attributes:
        columns: the names of all columns of X, in their order.
        errors: for each feature the name of the column with its errors, or one error for all rows.

    Examples:
        >>> columns = ErrorColumns.of({"a": "a_err"}, ["a", "b", "a_err"])
        >>> columns.features
        ('a', 'b')
        >>> columns.split(np.array([[1.0, 2.0, 0.1], [3.0, 4.0, 0.2]]))[1]
        array([[0.1, 0. ],
               [0.2, 0. ]])

    """

    columns: tuple[str, ...]
    errors: Mapping[str, str | float]

    def __post_init__(self) -> None:
        """Refuse errors of what is no feature, and columns that are not there."""
        known = set(self.columns)
        for feature, error in self.errors.items():
            if feature not in known:
                raise ValueError(f"x_err names {feature!r}, but the columns of X are {listed_names(self.columns)}.")
            if isinstance(error, str) and error not in known:
                raise ValueError(
                    f"x_err: {error!r}, for the errors of {feature!r}, is not among the columns of X, "
                    f"{listed_names(self.columns)}."
                )
            if feature in self._holding:
                raise ValueError(f"x_err: column {feature!r} of X holds errors, so it cannot have errors itself.")
        if len(self._holding) == len(self.columns):
            raise ValueError("x_err: all columns of X hold errors, and none is left to predict from.")

    @classmethod
    def of(cls, x_err: Any, columns: Sequence[str] | None) -> ErrorColumns | None:
        """The columns that `x_err` names; None where it names none."""
        named = [error for error in x_err.values() if isinstance(error, str)] if isinstance(x_err, Mapping) else []
        if not named:
            return None
        if columns is None:
            raise ValueError(
                f"x_err names columns of X, {listed_names(named)}, but X has no column names: give a table. A step "
                'before the estimator keeps the names with .set_output(transform="pandas").'
            )
        errors = {
            str(feature): error if isinstance(error, str) else check_x_err(f"x_err of {feature!r}", error, 1).item()
            for feature, error in x_err.items()
        }
        return cls(tuple(map(str, columns)), errors)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns to predict from."""
        return tuple(name for name in self.columns if name not in self._holding)

    def split(self, table: Array) -> tuple[Array, Array]:
        """The features and their errors, `rows x n_x` each, of a table with all columns."""
        place = {name: j for j, name in enumerate(self.columns)}
        errors = np.zeros((len(table), len(self.features)))
        for j, feature in enumerate(self.features):
            error = self.errors.get(feature, 0.0)
            if isinstance(error, str):
                _check_errors(feature, error, table[:, place[error]])
            errors[:, j] = table[:, place[error]] if isinstance(error, str) else error
        return table[:, [place[name] for name in self.features]], errors

    @property
    def _holding(self) -> set[str]:
        return {error for error in self.errors.values() if isinstance(error, str)}


def _check_errors(feature: str, column: str, values: Array) -> None:
    if (values < 0).any():
        raise ValueError(
            f"X: column {column!r} holds the errors of {feature!r} and must not be negative, got {values.min():.4g}. "
            "Where a scaler stands before the estimator, take eiv.ErrorScaler, which carries errors along."
        )
