"""What X and y carry beside their numbers: errors and units, at fit and at predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eiv.inputs.columns import ErrorColumns
from eiv.io.measured import Measured, errors_in_units, measured
from eiv.model import Names
from eiv.validation import LEAVE_OUT

Array = NDArray[np.float64]


class Inputs(NamedTuple):
    """X and its errors as plain numbers, and the units of its columns, those with errors too."""

    X: Any
    X_err: Any
    units: tuple[str | None, ...] | None


def inputs_at_fit(X: Any, X_err: Any, x_err: Any, *, masked: str | None = LEAVE_OUT) -> Inputs:
    """The inputs of a fit; columns that hold errors, by `x_err`, are brought to the units of their features.

    Masked values of X are refused in the words of `masked`; where that is None they become NaN.
    """
    if any(measured("x_err", error).units for error in (x_err.values() if isinstance(x_err, Mapping) else [x_err])):
        raise ValueError(
            "x_err must be plain numbers, in the units of X; errors with units go to fit(X, y, X_err=...), or are "
            "columns of X."
        )
    found = measured("X", X, masked)
    units, names = found.unit_names, _names_of(found)
    if X_err is not None:
        features, targets = names, units
        if units is not None and names is not None and (columns := ErrorColumns.of(x_err, names)) is not None:
            targets = tuple(units[names.index(name)] for name in columns.features)
            features = columns.features
        X_err = errors_in_units("X_err", X_err, targets, features)
    if found.errors is not None:
        if X_err is not None or x_err is not None:
            given = "x_err" if X_err is None else "X_err"
            raise ValueError(f"X carries errors of its own, and {given} gives others: leave one of them out.")
        X_err = found.errors
    if units is None or names is None:
        return Inputs(found.values, X_err, units)
    wanted, are_errors = _units_of_columns(ErrorColumns.of(x_err, names), names, units)
    return Inputs(found.in_units("X", wanted, are_errors).values, X_err, wanted)


class StatedInputs(NamedTuple):
    """The features of a fit, and what is stated of their errors.

    Attributes:
        x: `rows x n_x`, without the columns that hold errors.
        name: of the argument that states the errors, for messages.
        given: the errors, in any form.
        by_row: whether they may differ from row to row.
        names: of the columns, and their units.

    """

    x: Array
    name: str
    given: Any
    by_row: bool
    names: Names


def stated_at_fit(
    table: Array, X_err: Any, x_err: Any, columns: Sequence[Any] | None, units: Sequence[str | None] | None
) -> StatedInputs:
    """The features among the `columns` of a table, and their errors: those of `X_err`, else those of `x_err`."""
    name, given = ("x_err", 0.0 if x_err is None else x_err) if X_err is None else ("X_err", X_err)
    own = ErrorColumns.of(x_err, columns)
    if own is None:
        features = None if columns is None else tuple(map(str, columns))
        names = Names(features, units=None if units is None else tuple(units))
        return StatedInputs(table, name, given, X_err is not None, names)
    x, in_columns = own.split(table)
    if units is not None:
        units = tuple(unit for column, unit in zip(own.columns, units, strict=True) if column in own.features)
    names = Names(own.features, error_columns=own, units=units)
    return StatedInputs(x, name, in_columns if X_err is None else X_err, True, names)


def inputs_at_predict(
    X: Any, X_err: Any, names: Names, n_columns: int, *, masked: str | None = LEAVE_OUT
) -> tuple[Any, Any]:
    """X and its errors as plain numbers in the units of the fit; masked values as `inputs_at_fit` takes them."""
    found = measured("X", X, masked)
    if X_err is not None:
        X_err = errors_in_units("X_err", X_err, names.units, names.features)
    if names.units is None or names.error_columns is None:
        wanted, are_errors = names.units, [False] * n_columns
    else:
        of_feature = dict(zip(names.error_columns.features, names.units, strict=True))
        own = tuple(of_feature.get(name) for name in names.error_columns.columns)
        wanted, are_errors = _units_of_columns(names.error_columns, names.error_columns.columns, own)
    found = found.in_units("X", wanted, are_errors)
    if found.errors is not None:
        if X_err is not None:
            raise ValueError("X carries errors of its own, and X_err gives others: leave one of them out.")
        X_err = found.errors
    return found.values, X_err


class Labels(NamedTuple):
    """y and its errors as plain numbers, and the units of its columns."""

    y: Any
    y_err: Any
    units: tuple[str | None, ...] | None


def labels_of(y: Any, y_err: Any, units: Sequence[str | None] | None = None) -> Labels:
    """Labels and their errors, in their own units or, for a fitted model with some, in its `units`."""
    found = measured("y", y)
    if units is not None:
        found = found.in_units("y", units, [False] * len(units))
    own = found.unit_names if units is None else tuple(units)
    if y_err is not None:
        y_err = errors_in_units("y_err", y_err, own, _names_of(found))
    if found.errors is not None:
        if y_err is not None:
            raise ValueError("y carries errors of its own, and y_err gives others: leave one of them out.")
        y_err = found.errors
    return Labels(found.values, y_err, own)


def _names_of(found: Measured) -> tuple[str, ...] | None:
    return tuple(map(str, found.values.columns)) if hasattr(found.values, "columns") else None


def _units_of_columns(
    columns: ErrorColumns | None, names: Sequence[str], units: Sequence[str | None]
) -> tuple[tuple[str | None, ...], list[bool]]:
    """The unit that each column is to have, a column with errors that of its feature, and whether it holds errors."""
    holding = {} if columns is None else {e: name for name, e in columns.errors.items() if isinstance(e, str)}
    of_name = dict(zip(names, units, strict=True))
    return tuple(of_name[holding.get(name, name)] for name in names), [name in holding for name in names]
