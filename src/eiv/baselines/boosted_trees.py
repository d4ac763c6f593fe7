"""Boosted trees of scikit-learn, with the errors of X as further columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

from eiv.baselines.base import Answer, Baseline, Rows, noise_left, seed_of
from eiv.inputs.errors import standard_deviations

__all__ = ["BoostedTrees"]

Array = NDArray[np.float64]
_FOLDS = 5  # of cross-validation, whose residuals give the scatter of labels


class BoostedTrees(Baseline):
    r"""Gradient boosted trees that see the inputs and, as further columns, their standard deviations.

    .. math:: \hat y = \mathrm{trees}(x, \sigma_x), \qquad
              \mathrm{total}^2 = \frac1n \sum_i \big( y_i - \hat y_{-i} \big)^2

    - It assumes nothing of f, and that new rows have errors like those of the fit.
    - It gives a prediction of the label, often the best one on large tables with many columns; the trees can learn to
      trust rows with large errors less.
    - It misses f itself and what is known of it: all uncertainty counts as noise, `std` is 0, and all rows have the
      same. There is no f at exact inputs, unless rows with such errors were learned from.
    - Take it for thousands of rows where only the label matters.

    The scatter of labels is that of residuals in a five-fold cross-validation.

    Args:
        x_err: as for `EiVRegressor`.
        regressor: another regressor of scikit-learn's kind; by default `HistGradientBoostingRegressor`.
        random_state: seed of trees and folds.

    Attributes:
        model_: the fitted regressor.
        y_noise_: the root mean square of the residuals, less the known errors of labels.

    Examples:
        >>> X = np.linspace(-1, 1, 60)[:, None]
        >>> p = BoostedTrees(0.1, random_state=0).fit(X, X[:, 0]).predict_distribution(X[:2])
        >>> p.std
        array([0., 0.])

    """

    def __init__(self, x_err: Any = None, *, regressor: Any = None, random_state: Any = None) -> None:
        self.x_err = x_err
        self.regressor = regressor
        self.random_state = random_state

    def _fit(self, rows: Rows) -> None:
        seed = seed_of(self.random_state)
        make: Callable[[], Any] = (
            (lambda: HistGradientBoostingRegressor(random_state=seed))
            if self.regressor is None
            else (lambda: clone(self.regressor))
        )
        columns = _with_errors(rows.x, rows.errors)
        folds = KFold(min(_FOLDS, len(rows.y)), shuffle=True, random_state=seed)
        residual = rows.y - cross_val_predict(make(), columns, rows.y, cv=folds)
        self.model_ = make().fit(columns, rows.y)
        self.y_noise_ = noise_left(float(np.mean(residual**2)), rows.y_err)

    def _answer(self, x: Array, errors: Array) -> Answer:
        mean = np.asarray(self.model_.predict(_with_errors(x, errors)), dtype=float)
        return Answer(mean, np.zeros(len(x)), np.zeros(len(x)))


def _with_errors(x: Array, errors: Array) -> Array:
    """The inputs, with the standard deviations of their errors as further columns: `rows x (2 n_x)`."""
    return np.hstack([x, np.broadcast_to(standard_deviations(errors), x.shape)])
