"""`eiv.compare`: all methods in cross-validation on one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eiv.baselines.base import seed_of
from eiv.comparison.folds import Task, run_fold
from eiv.comparison.methods import chosen_methods
from eiv.comparison.result import Comparison
from eiv.regressor import EiVRegressor

__all__ = ["compare"]


def compare(
    X: Any,
    y: Any,
    X_err: Any = None,
    y_err: Any = None,
    *,
    model: EiVRegressor | None = None,
    methods: Sequence[str] | None = None,
    n_folds: int = 5,
    groups: Any = None,
) -> Comparison:
    """Compare `EiVRegressor` with other methods by cross-validation.

    Args:
        X: `rows x n_x`, the measured inputs; as all that follows in any form that `EiVRegressor.fit` takes, with names,
            errors and units of its own. Readings that are missing, NaN or masked, are for `EiVRegressor` alone.
        y: `rows`, the measured outputs.
        X_err: the errors of X, in the forms that `EiVRegressor.fit` takes; None for the model's `x_err`. `EiVRegressor`
            takes laws of errors as they are; all other methods know each by its mean and standard deviation only.
        y_err: known errors of y, one number or `rows`.
        model: the `EiVRegressor` to compare, unfitted; it is not changed. The other methods share its `x_err`, errors
            that hold for all rows or columns of X that hold them, and its `random_state`, which is the seed of the
            folds too. None for `EiVRegressor(random_state=0)`.
        methods: some names of `eiv.comparison.METHODS`; by default all. Those whose package is missing, or that the
            table does not suit, are skipped, and `Comparison.skipped` says why.
        n_folds: the folds of the cross-validation.
        groups: `rows`; rows of a group are in one fold.

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
    if not isinstance(model, EiVRegressor | None):
        raise TypeError(f"model must be an EiVRegressor, got {model!r}.")
    settings = (EiVRegressor(random_state=0) if model is None else model).get_params(deep=False)
    x_err, seed = settings.pop("x_err"), seed_of(settings.pop("random_state"))
    task = Task.of(X, y, X_err=X_err, y_err=y_err, x_err=x_err, groups=groups, n_folds=n_folds, seed=seed)
    names, skipped = chosen_methods(methods, task.X.shape[1], task.y_err is not None, task.has_gaps)
    of_folds = range(len(task.folds))
    folds = {name: [run_fold(name, task, fold, seed=seed, settings=settings) for fold in of_folds] for name in names}
    return Comparison.of(task, folds, skipped)
