"""Errors as users state them column by column: numbers, laws, and the notation of data sheets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eiv.inputs.errors import RelativeError, check_x_err, named_errors
from eiv.inputs.laws import Censored, ErrorLaw, Growing, NormalLaw, Rectangular, SplitNormal
from eiv.inputs.mixed import Errors, MixedErrors
from eiv.io.arrays import plain
from eiv.io.notation import FORMS, Stated, read_error
from eiv.validation import check_unmasked, listed_names

__all__ = ["Readings", "laws_of", "stated_errors"]

Array = NDArray[np.float64]
Laws = tuple[ErrorLaw, ...]
StatedErrors = ArrayLike | RelativeError | ErrorLaw | Mapping[str, Any] | Sequence[Any] | None
"""What `x_err` takes: numbers in many forms, laws and texts, those by name, or columns of X that hold errors."""
MISSING_HINT = (
    "missing='integrate', an argument of the estimator, takes such a true value from the learned prior given the other "
    "columns; else drop or fill these rows."
)
"""What an error about NaN says."""


class Readings(NamedTuple):
    """Rows of X and what is known of their errors.

    Attributes:
        x: `rows x n_x`.
        errors: in a form of `eiv.inputs.errors`.
        laws: of the error of each column, where a user has stated these for rows to come too; else None.

    Examples:
        >>> found = Readings.of("x_err", ["±0.6", 0.1], np.zeros((3, 2)), None)
        >>> found.errors.std.round(3)
        array([[0.346, 0.1  ]])

    """

    x: Array
    errors: Errors
    laws: Laws | None = None

    @classmethod
    def of(
        cls,
        name: str,
        given: Any,
        x: Array,
        feature_names: Sequence[str] | None,
        *,
        spread: Array | None = None,
        by_row: bool = False,
    ) -> Readings:
        """What a user states about `x`, checked.

        Args:
            name: of the argument, for messages.
            given: errors in any form.
            x: `rows x n_x`; NaN for a reading that is missing.
            feature_names: those of the columns, or None.
            spread: `n_x`, the standard deviation of the columns in training; by default those of `x`.
            by_row: whether errors may differ from row to row.

        """
        given = plain(name, given)
        check_unmasked(name, given)
        if isinstance(given, MixedErrors):
            return cls(x, given)
        spread = _spread(x) if spread is None else spread
        if isinstance(given, RelativeError):
            return cls(x, given.of(spread, feature_names))
        if not states_laws(given):
            named = _of_readings(named_errors(name, given, feature_names), x)
            return cls(x, check_x_err(name, named, x.shape[1], len(x) if by_row else None))
        laws = laws_of(name, given, spread, feature_names)
        shared = all(law.is_shared for law in laws)
        if not shared and not by_row:
            raise ValueError(
                f"{name} holds for all rows: give laws with one value per row as X_err to fit and predict."
            )
        if any(isinstance(law, Censored) for law in laws):
            x = np.column_stack([law.readings(column) for law, column in zip(laws, x.T, strict=True)])
        middles = np.where(np.isnan(x), 0.0, x)  # what is missing has no error of its own
        return cls(x, errors_under(name, laws, middles, feature_names), laws if shared else None)

    def take(self, rows: NDArray[Any] | slice) -> Readings:
        """Some of the rows."""
        return Readings(self.x[rows], self.errors if len(self.errors) == 1 else self.errors[rows], self.laws)

    def without_gaps(self, missing: str, spread: Array, middle: Array, feature_names: Sequence[str] | None) -> Readings:
        """The same with numbers in the place of NaN, and with errors that make them count for nothing.

        A ValueError where there are some and `missing` is not "integrate". `spread` and `middle` are those of the
        columns in training, `n_x`.
        """
        gaps = np.isnan(self.x)
        if not gaps.any():
            return self
        column, row = int(gaps.any(0).argmax()), int(gaps[:, gaps.any(0).argmax()].argmax())
        if missing != "integrate":
            label = column if feature_names is None else repr(str(feature_names[column]))
            raise ValueError(f"Input X contains NaN, first in column {label}, row {row}: {MISSING_HINT}")
        laws = self.laws
        if laws is None and isinstance(self.errors, np.ndarray) and len(self.errors) == 1:
            laws = tuple(NormalLaw(float(std)) for std in np.ravel(self.errors))
        errors = MixedErrors.with_missing(self.errors, gaps, spread)
        return Readings(np.where(gaps, middle, self.x), errors, laws)


def stated_errors(
    name: str,
    given: Any,
    x: Array,
    feature_names: Sequence[str] | None,
    *,
    spread: Array | None = None,
    by_row: bool = False,
) -> Array:
    """Standard deviations or covariances of what a user states, whatever its law: for methods that know no other.

    The arguments are those of `Readings.of`.

    Examples:
        >>> stated_errors("x_err", "±0.6", np.zeros((3, 1)), None).round(3)
        array([[0.346]])

    """
    errors = Readings.of(name, given, x, feature_names, spread=spread, by_row=by_row).errors
    return errors.std if isinstance(errors, MixedErrors) else errors


def states_laws(given: Any) -> bool:
    """Whether errors are stated column by column, with laws, texts or values per row among them, not as an array."""
    if isinstance(given, ErrorLaw | str):
        return True
    kinds = (ErrorLaw, str, RelativeError)
    if isinstance(given, Mapping):
        return any(isinstance(each, kinds) or np.ndim(each) > 0 for each in given.values())
    return isinstance(given, list | tuple) and any(isinstance(each, kinds) for each in given)


def laws_of(name: str, given: Any, spread: Array, feature_names: Sequence[str] | None = None) -> Laws:
    """The law of each column from what a user gives, for which `states_laws` holds.

    Args:
        name: of the argument, for messages.
        given: a law or a text for all columns; or one for each, a list or a mapping, with numbers among them. A mapping
            may also hold one value per row, or a pair of minus and plus.
        spread: `n_x`, the standard deviation of each column of the training X.
        feature_names: those of the columns, or None.

    Returns:
        As many laws as columns.

    Examples:
        >>> [str(law) for law in laws_of("x_err", ["±0.7", 0.1], spread=np.ones(2))]
        ['limits ±0.7, all between equally likely', '0.1']

    """
    n_features = len(spread)
    if isinstance(given, ErrorLaw | str):
        given = [given] * n_features
    elif isinstance(given, Mapping):
        given = _in_order(name, given, feature_names)
    if len(given) != n_features:
        raise ValueError(f"{name} must have an error for each of {n_features} features, got {len(given)}.")
    where = places(name, n_features, feature_names)
    return tuple(_law(place, each, size) for place, each, size in zip(where, given, spread, strict=True))


def refuse_for_berkson(name: str, given: Any) -> None:
    """Raise a ValueError for laws of a reading, which have no meaning where x was set."""
    if not states_laws(given):
        return
    columns = (
        list(given.values()) if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else [given]
    )
    laws = (_law(name, each, 1.0) for each in columns)
    for law in laws:
        if not law.has_berkson:
            raise ValueError(
                f"{name}: {law} says how a reading goes with its true value, which has no meaning for "
                "error_model='berkson', where x was set."
            )


def errors_under(name: str, laws: Laws, x: Array, feature_names: Sequence[str] | None = None) -> Errors:
    """The errors of readings `x`, `rows x n_x`, under the law of each column; plain numbers where all are normal."""
    where = places(name, len(laws), feature_names)
    columns = zip(where, laws, x.T, strict=True)
    return MixedErrors.plain_or_of([law.parts(column, place) for place, law, column in columns])


def places(name: str, n_features: int, feature_names: Sequence[str] | None) -> list[str]:
    """What messages call the error of each column."""
    if feature_names is None:
        return [name] if n_features == 1 else [f"{name}[{column}]" for column in range(n_features)]
    return [f"{name}[{str(column)!r}]" for column in feature_names]


def _in_order(name: str, given: Mapping[Any, Any], feature_names: Sequence[str] | None) -> list[Any]:
    if feature_names is None:
        raise ValueError(f"{name} has names, but X has none: give a table with column names, or a list.")
    known = {str(label): each for label, each in given.items()}
    strange = [label for label in known if label not in set(map(str, feature_names))]
    if strange:
        raise ValueError(
            f"{name} names {listed_names(strange)}, but the features of X are {listed_names(feature_names)}."
        )
    return [known.get(str(label), 0.0) for label in feature_names]


def _law(where: str, given: Any, spread: float) -> ErrorLaw:
    if isinstance(given, Censored) and isinstance(given.error, str | tuple | RelativeError):
        return replace(given, error=_law(where, given.error, spread))
    if isinstance(given, ErrorLaw):
        return given
    if isinstance(given, RelativeError):
        return NormalLaw(float(given.of(np.array([spread]), None)[0, 0]))
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"{where} must be a pair of minus and plus, got {len(given)} values.")
        return SplitNormal(*given)
    if not isinstance(given, str):
        return NormalLaw(given)
    try:
        stated = read_error(given)
    except ValueError as error:
        raise ValueError(f"{where}: {error}.") from error
    if stated is None:
        raise ValueError(
            f"{where}: {given!r} is not an error; these are: {FORMS}. A column of X that holds errors is named in "
            "x_err, by a mapping such as {'a': 'a_err'}."
        )
    if stated.dof < math.inf:
        raise ValueError(
            f"{where}: {given!r} is an error of unknown size, which is learned in a fit of EiVRegressor alone; here "
            "state the error without dof=."
        )
    return _stated_law(stated, spread)


def _stated_law(stated: Stated, spread: float) -> ErrorLaw:
    if stated.kind == "limits":
        return Rectangular(stated.number, stated.share)
    if stated.kind == "growing":
        return Growing(stated.number, stated.share)
    if stated.kind == "sides":
        return SplitNormal(stated.number, stated.plus)
    if stated.kind == "spread":
        return NormalLaw(stated.share * spread)
    return NormalLaw(stated.number, stated.share, stated.k)


def _of_readings(errors: Any, x: Array) -> Any:
    """Errors, zero where one is missing together with its reading."""
    if np.shape(errors) != x.shape or np.asarray(errors).dtype.kind != "f":
        return errors
    return np.where(np.isnan(x) & np.isnan(errors), 0.0, errors)


def _spread(x: Array) -> Array:
    return np.asarray(np.nanstd(x, axis=0) if np.isnan(x).any() else x.std(0))
