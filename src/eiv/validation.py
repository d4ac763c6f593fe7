"""Checks of arguments. Every error names the argument, the value it got and the values it takes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_FEWEST_ROWS = 2  # that a model can be fitted to
_PACKAGE = Path(__file__).parent
LEAVE_OUT = "leave their rows out, or fill them in."  # what can be done about masked values
_MOST_NAMED = 20  # the most columns named in a message


@dataclass(frozen=True)
class Constraint:
    """A condition on an argument: a test, and words for the values that pass it."""

    holds: Callable[[Any], bool]
    words: str


def integer(minimum: int, maximum: int | None = None) -> Constraint:
    """A whole number of at least `minimum`, and at most `maximum` if given."""
    most = math.inf if maximum is None else maximum
    return Constraint(
        lambda value: (
            isinstance(value, int | np.integer) and not isinstance(value, bool) and minimum <= int(value) <= most
        ),
        f"a whole number of at least {minimum}" + ("" if maximum is None else f" and at most {maximum:,}"),
    )


def real(minimum: float, below: float = math.inf, *, maximum: float = math.inf, exclusive: bool = False) -> Constraint:
    """A finite number of at least `minimum` (above it if `exclusive`), below `below` and at most `maximum`."""

    def holds(value: object) -> bool:
        if (
            not isinstance(value, int | float | np.integer | np.floating)
            or isinstance(value, bool)
            or not math.isfinite(value)
        ):
            return False
        number = float(value)
        return (number > minimum if exclusive else number >= minimum) and number < below and number <= maximum

    words = f"a number above {minimum:g}" if exclusive else f"a number of at least {minimum:g}"
    words += f" and below {below:g}" if below < math.inf else ""
    words += f" and at most {maximum:g}" if maximum < math.inf else ""
    return Constraint(holds, words)


def option(*known: str) -> Constraint:
    """One of the `known` words."""
    return Constraint(lambda value: isinstance(value, str) and value in known, _listed(known))


def either(*constraints: Constraint) -> Constraint:
    """A value that satisfies at least one of the constraints."""
    words = ", or ".join(constraint.words for constraint in constraints)
    return Constraint(lambda value: any(constraint.holds(value) for constraint in constraints), words)


def or_none(constraint: Constraint) -> Constraint:
    """A value that satisfies the constraint, or None."""
    return Constraint(lambda value: value is None or constraint.holds(value), constraint.words)


def flag() -> Constraint:
    """True or False."""
    return Constraint(lambda value: isinstance(value, bool | np.bool_), "True or False")


def check(name: str, value: object, constraint: Constraint) -> None:
    """Raise a ValueError where `value` does not satisfy the constraint."""
    if not constraint.holds(value):
        raise ValueError(f"{name} must be {constraint.words}, got {value!r}.")


def check_option(name: str, value: object, known: Sequence[str]) -> None:
    """Raise a ValueError that lists the `known` options where `value` is not among them."""
    check(name, value, option(*known))


def check_among(name: str, given: Iterable[str], known: Sequence[str] | Mapping[str, Any]) -> None:
    """Raise a ValueError that lists the `known` words where one of those `given` is not among them."""
    for word in given:
        if word not in known:
            raise ValueError(f"{name} must be among {', '.join(map(repr, known))}; got {word!r}.")


def check_level(name: str, level: float) -> None:
    """Raise a ValueError where `level` is not a probability whose interval has finite ends."""
    if not 0 < level < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {level!r}.")
    if (1 + level) / 2 == 1:
        raise ValueError(f"{name} must not be so close to 1 that half of the rest rounds to 0, got {level!r}.")


def check_spread(name: str, values: Array, names: Sequence[str] | None) -> None:
    """Raise a ValueError where the standard deviation of a column of `values`, `rows x columns`, cannot be computed.

    The squares of its values overflow, or those of their differences underflow to 0.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        spreads, differs = values.std(0), values.min(0) < values.max(0)
    for j in np.flatnonzero(~np.isfinite(spreads) | ((spreads == 0) & differs)).tolist():
        column = f" in column {names[j]!r}" if names is not None else f" in column {j}" if values.shape[1] > 1 else ""
        raise ValueError(
            f"{name}: the values{column} reach from {values[:, j].min():.3g} to {values[:, j].max():.3g}, and their "
            "spread cannot be computed; give them in another unit."
        )


def check_random_generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """A generator of random numbers from a seed, or the given generator."""
    return np.random.default_rng(random_state)


def check_random_state(random_state: Any) -> np.random.RandomState:
    """The generator of an estimator's `random_state`, in the forms that scikit-learn takes."""
    if isinstance(random_state, np.random.Generator):
        raise ValueError(
            "random_state must be None, a whole number or a numpy.random.RandomState, got a numpy.random.Generator, "
            "which scikit-learn's estimators do not take. Give int(generator.integers(2**31)) instead."
        )
    from sklearn.utils import check_random_state as checked  # noqa: PLC0415  (slow to import)

    found: np.random.RandomState = checked(random_state)
    return found


def check_unmasked(name: str, values: Any, cure: str = LEAVE_OUT) -> None:
    """Raise a ValueError where `values` is an array with masked values, which would count as if they were none."""
    n_masked = int(np.sum(values.mask)) if isinstance(values, np.ma.MaskedArray) else 0
    if n_masked:
        raise ValueError(
            f"{name} must hold a value everywhere, but {n_masked} of its {values.size} values are masked: {cure}"
        )


def check_same_rows(**tables: Any) -> None:
    """Raise a ValueError where tables differ in their number of rows."""
    rows = {name: _n_rows(table) for name, table in tables.items()}
    known = {name: n for name, n in rows.items() if n is not None}
    if len(set(known.values())) > 1:
        counts = ", ".join(f"{name} has {n}" for name, n in known.items())
        raise ValueError(f"The arguments must have the same number of rows: {counts}.")


def check_same_labels(table: Any, **others: Any) -> None:
    """Raise a ValueError where one of `others` has labels for its rows that are not those of X, the `table`.

    Only tables of pandas and arrays of xarray, and Series with a value per row, have labels for rows.
    """
    rows = _row_labels(table)
    for name, other in others.items():
        labels = _row_labels(other)
        if rows is None or labels is None or len(labels) != len(rows) or labels.equals(rows):
            continue
        columns = _column_labels(other if getattr(other, "ndim", 1) > 1 else table)
        if set(labels) == set(columns):  # by feature, or by output
            continue
        first = int(np.argmax(np.asarray(labels) != np.asarray(rows)))
        raise ValueError(
            f"{name} must have the row labels of X, but row {first} is {rows[first]} in X and {labels[first]} in "
            f"{name}. Take {name}.loc[X.index] where labels say which rows belong together, {name}.to_numpy() where "
            "their order does."
        )


def check_numeric(name: str, table: Any) -> None:
    """Raise a ValueError that names the columns of `table` that do not hold numbers, if there are any."""
    check_unmasked(name, table)
    columns = getattr(table, "columns", None)
    if columns is None or not hasattr(table, "dtypes"):
        return
    bad = [
        str(column) for column, kind in zip(columns, table.dtypes, strict=True) if not _is_numeric(table, column, kind)
    ]
    if bad:
        raise ValueError(
            f"{name} must hold numbers only; these columns do not: {', '.join(bad)}. Drop or encode them first."
        )


def check_y_err(y_err: Any, shape: tuple[int, int], output_names: Sequence[str] | None = None) -> Array:
    """Known errors of the outputs as `rows x n_y`, where `shape` is that of y.

    `y_err` may be a number, one value per row for a single output, `rows x n_y`, or one value per output where there
    are several. Errors with names are brought into the order of `output_names` (see `in_order_of`). Rows are taken in
    order.
    """
    n_rows, n_outputs = shape
    check_unmasked("y_err", y_err)
    if isinstance(y_err, str | bool | np.bool_):
        raise ValueError(f"y_err must be a number or numbers, got {y_err!r}.")
    by_row = getattr(y_err, "ndim", 0) == 1 and n_outputs == 1 and not _names_one_of(y_err, output_names)
    ordered = y_err if by_row else in_order_of("y_err", y_err, output_names, "output of y", "y")
    values = f", {n_outputs} values (one for each output)" if n_outputs > 1 else f", shape ({n_rows},)"
    takes = f"a number{values}, or shape ({n_rows}, {n_outputs}) (one for each row and output)"
    try:
        errors = np.asarray(ordered, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y_err must be {takes}, got {y_err!r}.") from error
    for_each = ordered is not y_err and errors.shape == (n_outputs,)  # by name
    if errors.shape not in ((), shape, (n_rows if n_outputs == 1 else n_outputs,)) and not for_each:
        raise ValueError(f"y_err must be {takes}, got shape {errors.shape}.")
    if not np.isfinite(errors).all() or (errors < 0).any():
        raise ValueError("y_err must hold finite standard deviations of at least 0.")
    if errors.ndim == 1 and n_outputs == 1:
        errors = errors[:, None]
    return np.broadcast_to(errors, shape).copy()


def check_weights(sample_weight: Any, n_rows: int, fewest: int = _FEWEST_ROWS) -> Array | None:
    """How often each of `n_rows` rows counts, `n_rows` numbers of at least 0; None where there are none.

    They have to count as the `fewest` rows or more; for a score weights may be shares.
    """
    if sample_weight is None:
        return None
    takes = f"shape ({n_rows},), one number of at least 0 for each row"
    try:
        weights = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must have {takes}; it holds what is no number: {error}.") from error
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight must have {takes}, got shape {weights.shape}.")
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"sample_weight must hold finite numbers of at least 0, but {bad.sum()} of {n_rows} are not; the first is "
            f"{weights[row]:g} in row {row}."
        )
    if not weights.any():
        raise ValueError("sample_weight: all weights are zero, so that no row counts.")
    if weights.sum() < fewest:
        raise ValueError(
            f"sample_weight: a row of weight 2 counts as two rows, and these weights count as {weights.sum():.3g} rows "
            f"in all; {fewest} are needed at least. Weights that are shares have to be multiplied by the number "
            "of rows that they stand for."
        )
    return weights


def median_above_zero(errors: Array) -> Array:
    """The median of each column of `errors`, `rows x n`, over the errors above 0; 0 where there are none."""
    return np.array([np.median(column[column > 0]) if column.any() else 0.0 for column in errors.T])


def in_feature_order(name: str, errors: Any, feature_names: Sequence[str] | None) -> Any:
    """Errors with names (a mapping, a pandas Series or table) in the order of the features of X.

    Features that a mapping leaves out have no error.
    """
    if isinstance(errors, Mapping) and errors and feature_names is not None:
        strange = [label for label in errors if str(label) not in set(feature_names)]
        if strange:
            raise ValueError(
                f"{name} names {listed_names(strange)}, but the features of X are {listed_names(feature_names)}."
            )
        errors = dict.fromkeys(feature_names, 0.0) | {str(label): error for label, error in errors.items()}
    return in_order_of(name, errors, feature_names, "feature of X", "X")


def in_order_of(name: str, errors: Any, names: Sequence[str] | None, each: str, whose: str) -> Any:
    """Errors with names, in the order of `names`; errors without names are returned unchanged.

    Without `names` a table or Series is taken in its own order, and a mapping is refused. Messages call a column `each`
    and the table `whose`.
    """
    named = isinstance(errors, Mapping)
    if not named and (names is None or not hasattr(errors, "to_numpy")):
        return errors
    labels = list(errors.keys())  # the columns of a table, the index of a Series
    check_numeric(name, errors)
    if names is None:
        raise ValueError(f"{name} has names, but {whose} has none: give a table with column names, or plain numbers.")
    known = {str(label): label for label in labels}
    if len({len(labels), len(known), len(names)}) > 1 or set(known) != set(names):
        raise ValueError(
            f"{name} must have a value for each {each}, {listed_names(names)}, got {listed_names(labels)}; use 0 for "
            "exact ones."
        )
    if named:
        return [errors[known[label]] for label in names]
    return errors[[known[label] for label in names]].to_numpy()


def frames_to_caller() -> int:
    """The `stacklevel`, for the function that asks, of the line outside of the package that led here."""
    frame, n_frames = inspect.currentframe(), 0
    while frame is not None and _PACKAGE in Path(frame.f_code.co_filename).parents:
        frame, n_frames = frame.f_back, n_frames + 1
    return n_frames


def listed_names(labels: Sequence[Any]) -> str:
    """Names for a message, the first of them where they are many."""
    more = len(labels) - _MOST_NAMED
    return f"{list(labels[:_MOST_NAMED])}" + (f" and {more} more" if more > 0 else "")


def _names_one_of(errors: Any, names: Sequence[str] | None) -> bool:
    """Whether `errors` is a Series with one value per name, rather than one value per row."""
    return names is not None and hasattr(errors, "index") and [str(label) for label in errors.index] == list(names)


def _row_labels(table: Any) -> Any:
    """The labels of the rows of a pandas table or Series, or of an array of xarray; None for everything else."""
    if not hasattr(type(table), "reindex"):
        return None
    return table.index if hasattr(type(table), "index") else table.indexes.get(next(iter(table.dims), None))


def _column_labels(table: Any) -> Any:
    """The labels of the columns of what has labels for its rows; none for a single column."""
    if hasattr(type(table), "indexes"):  # an array of xarray
        return table.indexes.get(table.dims[1], ()) if len(table.dims) > 1 else ()
    return getattr(table, "columns", ())


def _n_rows(table: Any) -> int | None:
    shape = getattr(table, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) in (1, 2) else None
    return len(table) if hasattr(table, "__len__") else None


def _is_numeric(table: Any, column: Any, kind: Any) -> bool:
    if getattr(kind, "kind", "O") in "biufmM":
        return kind.kind not in "mM"
    try:
        np.asarray(table[column], dtype=float)
    except (TypeError, ValueError):
        return False
    return True


def _listed(known: Sequence[str]) -> str:
    words = [repr(word) for word in known]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
