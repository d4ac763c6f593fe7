"""`eiv.compare`: all methods in cross-validation on one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eiv.baselines.base import seed_of
from eiv.comparison.folds import Task, run_fold
from eiv.comparison.methods import chosen_methods
from eiv.comparison.result import Comparison

__all__ = ["compare"]


def compare(  # noqa: PLR0913  (a front door)
    X: Any,
    y: Any,
    X_err: Any = None,
    y_err: Any = None,
    *,
    x_err: Any = None,
    methods: Sequence[str] | None = None,
    n_folds: int = 5,
    groups: Any = None,
    settings: Mapping[str, Any] | None = None,
    random_state: int | None = 0,
    on_progress: Callable[[float], None] = lambda share: None,
) -> Comparison:
    """Compare `EiVRegressor` with other methods by cross-validation.

    Args:
        X: `rows x n_x`, the measured inputs; as all that follows in any form that `EiVRegressor.fit` takes, with names,
            errors and units of its own. Readings that are missing, NaN or masked, are for `EiVRegressor` alone.
        y: `rows`, the measured outputs.
        X_err: the errors of X, in the forms that `EiVRegressor.fit` takes; None for those of `x_err`. `EiVRegressor`
            takes laws of errors as they are; all other methods know each by its mean and standard deviation only.
        y_err: known errors of y, one number or `rows`.
        x_err: errors that hold for all rows, or the columns of X that hold them, as for the constructor of
            `EiVRegressor`: `{"a": "a_err"}`; None for exact inputs.
        methods: some names of `eiv.comparison.METHODS`; by default all. Those whose package is missing, or that the
            table does not suit, are skipped, and `Comparison.skipped` says why.
        n_folds: the folds of the cross-validation.
        groups: `rows`; rows of a group are in one fold.
        settings: further arguments of `EiVRegressor`.
        random_state: the seed of folds and methods, or None.
        on_progress: called with the share of the folds that are done.

    Returns:
        A `Comparison`: `to_frame()` has the scores, `sentence` says which method to take, `plot()` draws both.

    Examples:
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> zeta = random.normal(size=(80, 1))
        >>> X, y = zeta + 0.3 * random.normal(size=(80, 1)), zeta[:, 0] + 0.1 * random.normal(size=80)
        >>> found = compare(X, y, X_err=0.3, methods=["least_squares", "gaussian_process", "york_line"])
        >>> found.skipped
        {'york_line': 'it needs the errors of y'}

    """
    seed = seed_of(random_state)
    task = Task.of(X, y, X_err=X_err, y_err=y_err, x_err=x_err, groups=groups, n_folds=n_folds, seed=seed)
    names, skipped = chosen_methods(methods, task.X.shape[1], task.y_err is not None, task.has_gaps)
    done, folds = 0, {}
    for name in names:
        found = []
        for fold in range(len(task.folds)):
            found.append(run_fold(name, task, fold, seed=seed, settings=settings))
            done += 1
            on_progress(done / (len(names) * len(task.folds)))
        folds[name] = found
    return Comparison.of(task, folds, skipped)
