"""One method on one fold of a table: fit, predict, and what came of each row."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold

from eiv.comparison.methods import METHODS
from eiv.estimators.base import named
from eiv.estimators.carried import inputs_at_fit, labels_of, stated_at_fit
from eiv.inputs.errors import standard_deviations
from eiv.inputs.mixed import Errors, MixedErrors
from eiv.inputs.sizes import EstimatedError
from eiv.inputs.stated import Readings
from eiv.training import TrainingDivergedError
from eiv.validation import check, check_numeric, check_same_labels, check_same_rows, check_y_err, integer

__all__ = ["Fold", "Task", "run_fold"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """A table, its errors, and the folds of the cross-validation.

    Attributes:
        X: `rows x n_x`, an array or a pandas table.
        y: `rows`.
        errors: those of X, `(1 or rows) x n_x` or `(1 or rows) x n_x x n_x`, or with a law for each column.
        y_err: `rows`, known errors of y, or None.
        folds: the test rows of each fold.
        groups: `rows`, the number of each row's group; None where each row is its own.

    Examples:
        >>> task = Task.of(np.arange(20.0).reshape(10, 2), np.arange(10.0), X_err=[1.0, 0.0], n_folds=5)
        >>> [len(test) for test in task.folds]
        [2, 2, 2, 2, 2]

    """

    X: Any
    y: Array
    errors: Errors
    y_err: Array | None
    folds: tuple[NDArray[np.intp], ...]
    groups: NDArray[np.intp] | None

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        *,
        X_err: Any = None,
        y_err: Any = None,
        x_err: Any = None,
        groups: Any = None,
        n_folds: int = 5,
        seed: int | None = 0,
    ) -> Task:
        """Check a table, and make folds of its rows; rows of a group are in one fold.

        Errors, names and units go together as in `EiVRegressor(x_err).fit(X, y, X_err, y_err)`.
        """
        check_same_labels(X, X_err=X_err, y_err=y_err)
        for name, given in (("X_err", X_err), ("x_err", x_err)):
            if isinstance(given, EstimatedError):
                raise ValueError(f"{name} must be errors of a known size, got {given}.")
        X, X_err, units = inputs_at_fit(X, X_err, x_err, masked=None)
        y, y_err, _ = labels_of(y, y_err)
        check_numeric("X", X)
        check_numeric("y", y)
        columns = X.columns if hasattr(X, "columns") else None
        values, labels = (named(X, y, np.asarray, each, dtype=float) for each in (X, y))
        if values.ndim != 2 or labels.ndim != 1:
            raise ValueError(f"X must have two axes and y one, got shapes {values.shape} and {labels.shape}.")
        check_same_rows(X=values, y=labels)
        x, name, given, by_row, names = stated_at_fit(values, X_err, x_err, columns, units)
        readings = Readings.of(name, given, x, names.features, by_row=by_row)
        table = readings.x if columns is None else _table(readings.x, X.index, names.features)
        known = None if y_err is None else check_y_err(y_err, (len(labels), 1))[:, 0]
        of_rows = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        n_units = len(labels) if of_rows is None else int(of_rows.max()) + 1
        check("n_folds", n_folds, integer(2, n_units))
        kind = KFold if of_rows is None else GroupKFold
        splits = kind(n_folds, shuffle=True, random_state=seed).split(labels, groups=of_rows)
        return cls(table, labels, readings.errors, known, tuple(test for _, test in splits), of_rows)

    @property
    def error_sizes(self) -> Array | None:
        """The size of each row's error, in spreads of the columns: `rows`; None where all rows have the same."""
        if len(self.errors) == 1:
            return None
        spreads = np.nanstd(np.asarray(self.X, dtype=float), axis=0)
        shares = standard_deviations(self.errors) / np.where(spreads > 0, spreads, 1.0)
        return np.asarray(np.sqrt(np.mean(shares**2, axis=1)))

    @property
    def has_laws(self) -> bool:
        """Whether the error of some column has a law that is not normal."""
        return isinstance(self.errors, MixedErrors)

    @property
    def has_gaps(self) -> bool:
        """Whether readings are missing."""
        return bool(np.isnan(np.asarray(self.X, dtype=float)).any())

    @property
    def without_laws(self) -> Task:
        """The same for methods that know standard deviations only: each law by its mean and standard deviation."""
        if not isinstance(self.errors, MixedErrors):
            return self
        return replace(self, X=self.X + np.broadcast_to(self.errors.mean, self.X.shape), errors=self.errors.std)

    def rows(self, chosen: NDArray[np.intp]) -> tuple[Any, Any, Array, Array | None]:
        """X, its errors in a form for `fit`, y and its errors, for some rows."""
        X = self.X.iloc[chosen] if hasattr(self.X, "iloc") else self.X[chosen]
        errors: Any = self.errors
        if len(errors) > 1:
            errors = errors[chosen]
        elif isinstance(errors, np.ndarray) and errors.ndim == 2:
            errors = errors[0]
        return X, errors, self.y[chosen], None if self.y_err is None else self.y_err[chosen]


@dataclass(frozen=True, eq=False)
class Fold:
    """What a method predicted for the test rows of a fold.

    Attributes:
        rows: their places in the table.
        mean: the predictions.
        total: the standard deviations of labels.
        low: the lower ends of the 95 % intervals of labels.
        high: the upper ends.
        seconds: of CPU time for fit and prediction, of all threads together.
        failure: why there is no prediction; empty where there is one.
        notes: the warnings of eiv.

    Examples:
        >>> task = Task.of(np.arange(20.0)[:, None], 2 * np.arange(20.0) + np.sin(np.arange(20.0)))
        >>> run_fold("least_squares", task, 0, seed=0).mean.shape
        (4,)

    """

    rows: NDArray[np.intp]
    mean: Array
    total: Array
    low: Array
    high: Array
    seconds: float
    failure: str = ""
    notes: tuple[str, ...] = ()


def run_fold(
    method: str, task: Task, fold: int, *, seed: int | None = 0, settings: Mapping[str, Any] | None = None
) -> Fold:
    """Fit a method to all rows but those of a fold, and predict these.

    Args:
        method: a name of `eiv.comparison.METHODS`.
        task: the table and its folds.
        fold: the number of the fold.
        seed: the seed of the method.
        settings: further arguments of `EiVRegressor`.

    Returns:
        Predictions and times, or the reason why the method refused the rows.

    Examples:
        >>> task = Task.of(np.arange(20.0)[:, None], 2 * np.arange(20.0) + np.sin(np.arange(20.0)))
        >>> run_fold("simex_plane", task, 1).failure
        ''

    """
    test = task.folds[fold]
    task = task if METHODS[method].knows_laws else task.without_laws
    X, X_err, y, y_err = task.rows(np.setdiff1d(np.arange(len(task.y)), test))
    new, new_err, _, new_y_err = task.rows(test)
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = METHODS[method].make(seed, settings or {}).fit(X, y, X_err=X_err, y_err=y_err)
            p = model.predict_distribution(new, X_err=new_err, y_err=new_y_err)
            low, high = p.interval(0.95, of="label")
        except (TrainingDivergedError, ValueError, np.linalg.LinAlgError) as error:
            nothing = np.full(len(test), np.nan)
            return Fold(test, nothing, nothing, nothing, nothing, np.nan, " ".join(str(error).split()))
    notes = {each.category: str(each.message) for each in caught if each.category.__module__.startswith("eiv.")}
    seconds = time.process_time() - started
    return Fold(test, p.mean, p.total, low, high, seconds, notes=tuple(notes.values()))


def _table(values: Array, index: Any, columns: Any) -> Any:
    """Values as a pandas table."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    return pd.DataFrame(values, index, columns)
