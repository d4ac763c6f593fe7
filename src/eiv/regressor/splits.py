"""`fit_splits`: models of several choices of rows, fitted at once."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from eiv import validation as v
from eiv.engine.ambient import own_defaults
from eiv.estimators.base import spec_of
from eiv.inputs import EstimatedError
from eiv.inputs.sizes import as_estimated
from eiv.io.clusters import cluster
from eiv.model import FittedModel
from eiv.regressor.estimator import EiVRegressor
from eiv.training.choosing import fit_models
from eiv.training.fitting import Spec, Table
from eiv.training.neighbours import warn_of_missed_curves
from eiv.training.progress import Progress, tell

__all__ = ["fit_splits"]


def fit_splits(
    model: EiVRegressor,
    X: Any,
    y: Any,
    splits: Sequence[ArrayLike],
    X_err: Any = None,
    y_err: Any = None,
    sample_weight: Any = None,
    *,
    on_progress: Callable[[float], None] | None = None,
) -> list[EiVRegressor]:
    """Fit a copy of `model` on each of several choices of rows, all of them at once.

    Networks of cosines are fitted side by side, one on each core. Those of layers are trained as one stack for each
    number of rows. The models come out as if each had been fitted alone on its rows with its own `random_state`. Under
    `joblib.parallel_config(backend="ray")` or "dask" each is fitted alone, as a task of that cluster.

    Args:
        model: the settings; it is not fitted itself.
        X: `rows x n_x`.
        y: `rows` or `rows x n_y`.
        splits: for each fit the positions of its rows.
        X_err: as for `EiVRegressor.fit`.
        y_err: as for `EiVRegressor.fit`.
        sample_weight: as for `EiVRegressor.fit`, for all rows.
        on_progress: called with the share of the work that is done, at the end of epochs (on a GPU, some times a
            second). Its attribute `what` holds words for what is being done, or none where that has not changed.

    Returns:
        One fitted model per split, with its own `random_state`.

    Examples:
        >>> X, y = np.random.default_rng(0).normal(size=(2, 60))
        >>> splits = [range(0, 40), range(20, 60)]
        >>> models = fit_splits(EiVRegressor(0.1, epochs=2, random_state=0), X[:, None], y, splits)
        >>> [m.predict([[0.0]]).shape for m in models]
        [(1,), (1,)]

    """
    if not isinstance(model, EiVRegressor):
        raise TypeError(f"model must be an EiVRegressor, got {type(model).__name__}.")
    models, tables = _of_splits(model, X, y, splits, (X_err, y_err, sample_weight))
    with _one_warning_of_a_kind(), own_defaults():
        found = _fitted([spec_of(each) for each in models], tables, on_progress)
    for each, fitted_model in zip(models, found, strict=True):
        each.model_ = fitted_model
    if model.epochs is None:
        warn_of_missed_curves([each.model_ for each in models], tables, stacklevel=2)
    return models


def _fitted(specs: Sequence[Spec], tables: Sequence[Table], report: Progress) -> list[FittedModel]:
    """The models: all of them together, or one by one on the engine that `joblib.parallel_config` names."""
    if cluster() is None:
        return fit_models(specs, tables, report)
    found = joblib.Parallel()(joblib.delayed(_alone)(*pair) for pair in zip(specs, tables, strict=True))
    for message in (message for _, said in found for message in said):
        warnings.warn(message, stacklevel=2)
    tell(report, 1.0, "")
    return [copy.deepcopy(model) for model, _ in found]  # Ray's arrays are read-only


def _alone(spec: Spec, table: Table) -> tuple[FittedModel, list[Warning]]:
    """One model, in a worker, and the warnings of its fit."""
    with warnings.catch_warnings(record=True) as caught, own_defaults():
        warnings.simplefilter("always")
        (model,) = fit_models([spec], [table])
    return model, [each.message for each in caught if isinstance(each.message, Warning)]


@contextlib.contextmanager
def _one_warning_of_a_kind() -> Iterator[None]:
    """Pass on the last warning of each category: fits of one table warn of the same."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for category, message in {each.category: each.message for each in caught}.items():
        warnings.warn(message, category, stacklevel=4)


def _of_splits(
    model: EiVRegressor, X: Any, y: Any, splits: Sequence[ArrayLike], details: tuple[Any, Any, Any]
) -> tuple[list[EiVRegressor], list[Table]]:
    """A copy of the model for each split, with a seed of its own, and its rows, checked.

    `details` are the errors of X, those of y and the weights of the rows.
    """
    X_err, y_err, sample_weight = details
    X_err = as_estimated(X_err)
    v.check_same_rows(X=X, y=y)
    random = v.check_random_state(model.random_state)
    whole = clone(model)._check_table(X, y, X_err, y_err)  # noqa: SLF001
    weights = v.check_weights(sample_weight, len(whole.x))
    per_row = X_err is not None and whole.laws is None and len(whole.x_err) > 1
    models, tables = [], []
    for split in splits:
        if isinstance(split, tuple):
            raise ValueError(
                "splits must hold the rows to fit on, one array per fit; got a tuple, as from KFold.split."
            )
        rows = np.asarray(split)
        errors = whole.x_err[rows] if per_row else X_err
        if per_row and isinstance(X_err, EstimatedError):
            errors = replace(X_err, error=errors)
        y_errors, counts = (None if part is None else part[rows] for part in (whole.y_err, weights))
        own = clone(model).set_params(random_state=int(random.randint(2**31)))
        some_x, some_y = _rows_of(X, rows), _rows_of(y, rows)
        tables.append(own._check_table(some_x, some_y, errors, y_errors, counts, is_part=True))  # noqa: SLF001
        models.append(own)
    return models, tables


def _rows_of(table: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of an array or a table, one of astropy included."""
    return table[rows] if hasattr(table, "colnames") else _safe_indexing(table, rows)
