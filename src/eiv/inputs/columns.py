"""Errors that travel as columns of X: `x_err={"a": "a_err"}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eiv.inputs.errors import RelativeError, check_x_err
from eiv.inputs.laws import ErrorLaw
from eiv.io.notation import FORMS, is_notation, two_columns
from eiv.validation import listed_names

__all__ = ["ErrorColumns"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ErrorColumns:
    """Which columns of X hold the errors of which others.

    A column that holds errors is no feature. Whatever takes rows of X takes their errors with them.

    Attributes:
        columns: the names of all columns of X, in their order.
        errors: for each feature the name of the column with its errors, those of two with the errors below and above it
            ("down,up"), or one error for all rows, a number or a text of `eiv.io.notation`.

    Examples:
        >>> columns = ErrorColumns.of({"a": "a_err"}, ["a", "b", "a_err"])
        >>> columns.features
        ('a', 'b')
        >>> columns.split(np.array([[1.0, 2.0, 0.1], [3.0, 4.0, 0.2]]))[1]
        {'a': array([0.1, 0.2]), 'b': 0.0}

    """

    columns: tuple[str, ...]
    errors: Mapping[str, str | float]

    def __post_init__(self) -> None:
        """Refuse errors of what is no feature, and columns that are not there."""
        known = set(self.columns)
        for feature, error in self.errors.items():
            if feature not in known:
                raise ValueError(f"x_err names {feature!r}, but the columns of X are {listed_names(self.columns)}.")
            if isinstance(error, str) and not self._named_by(error) and not is_notation(error):
                raise ValueError(
                    f"x_err: {error!r}, for the errors of {feature!r}, is not among the columns of X, "
                    f"{listed_names(self.columns)}, and not an error; these are: {FORMS}."
                )
            if feature in self._holding:
                raise ValueError(f"x_err: column {feature!r} of X holds errors, so it cannot have errors itself.")
        if len(self._holding) == len(self.columns):
            raise ValueError("x_err: all columns of X hold errors, and none is left to predict from.")

    @classmethod
    def of(cls, x_err: Any, columns: Sequence[str] | None) -> ErrorColumns | None:
        """The columns that `x_err` names; None where it names none."""
        texts = [error for error in x_err.values() if isinstance(error, str)] if isinstance(x_err, Mapping) else []
        known = () if columns is None else tuple(map(str, columns))
        named = [text for text in texts if text in known or two_columns(text, known) or not is_notation(text)]
        if not named:
            return None
        if columns is None:
            raise ValueError(
                f"x_err names columns of X, {listed_names(named)}, but X has no column names: give a table. A step "
                'before the estimator keeps the names with .set_output(transform="pandas").'
            )
        laws = [str(feature) for feature, error in x_err.items() if isinstance(error, ErrorLaw | RelativeError)]
        if laws:
            raise ValueError(
                f"x_err: beside columns of X that hold errors there can be numbers and texts such as '±0.7', got a law "
                f"for {laws[0]!r}."
            )
        errors = {
            str(feature): error if isinstance(error, str) else check_x_err(f"x_err of {feature!r}", error, 1).item()
            for feature, error in x_err.items()
        }
        return cls(known, errors)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns to predict from."""
        return tuple(name for name in self.columns if name not in self._holding)

    def split(self, table: Array) -> tuple[Array, dict[str, Any]]:
        """The features, `rows x n_x`, of a table with all columns, and the error of each: by row, for all, or text."""
        place = {name: j for j, name in enumerate(self.columns)}
        features = table[:, [place[name] for name in self.features]]
        entries: dict[str, Any] = {}
        for feature in self.features:
            error = self.errors.get(feature, 0.0)
            columns = self._named_by(error) if isinstance(error, str) else ()
            missing = np.isnan(table[:, place[feature]])  # what is missing need not have an error
            held = tuple(np.where(missing, 0.0, table[:, place[column]]) for column in columns)
            for column, values in zip(columns, held, strict=True):
                _check_errors(feature, column, values)
            entries[feature] = error if not held else held[0] if len(held) == 1 else held
        return features, entries

    def _named_by(self, error: str) -> tuple[str, ...]:
        """The columns that the text of an error names, none, one or two."""
        return (error,) if error in self.columns else two_columns(error, self.columns) or ()

    @property
    def _holding(self) -> set[str]:
        texts = [error for error in self.errors.values() if isinstance(error, str)]
        return {column for text in texts for column in self._named_by(text)}


def _check_errors(feature: str, column: str, values: Array) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"X: column {column!r} holds the errors of {feature!r} and must be finite.")
    if (values < 0).any():
        raise ValueError(
            f"X: column {column!r} holds the errors of {feature!r} and must not be negative, got {values.min():.4g}. "
            "Where a scaler stands before the estimator, take eiv.ErrorScaler, which carries errors along."
        )
