"""A straight line or plane by least squares; the errors of X are ignored."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eiv.baselines.base import Answer, Baseline, Rows, noise_left

__all__ = ["LeastSquares"]

Array = NDArray[np.float64]


class LeastSquares(Baseline):
    r"""A straight line, or a plane, by least squares.

    .. math:: \hat b = (A^T A)^{-1} A^T y, \qquad \mathrm{epistemic}^2 = a^T s^2 (A^T A)^{-1} a, \qquad a = (1, x)

    - It assumes that f is linear, and that the inputs are exact.
    - It gives the best linear prediction of a label from a measured x, with its standard error.
    - It misses the slope of f: errors of x make it too flat, by the factor Var(zeta) / Var(x) for one column. It misses
      everything that is not linear, and that rows with larger errors are less certain.
    - Take it as the first thing to look at, and as the measure of what any other method gains.

    Args:
        x_err: checked as for `EiVRegressor`, and not used.

    Attributes:
        coef_: `n_x`, the slopes.
        intercept_: the value at x = 0.
        y_noise_: the standard deviation of the residuals, s, less the known errors of labels.

    Examples:
        >>> X = np.arange(10.0)[:, None]
        >>> model = LeastSquares().fit(X, 2 * X[:, 0] + 1)
        >>> model.coef_.round(6), round(model.intercept_, 6)
        (array([2.]), 1.0)

    """

    _takes_errors: ClassVar[bool] = False

    def __init__(self, x_err: Any = None) -> None:
        self.x_err = x_err

    def _fit(self, rows: Rows) -> None:
        self._centre, self._scale = rows.x.mean(0), np.where(rows.x.std(0) > 0, rows.x.std(0), 1.0)
        design = self._design(rows.x)
        self._beta, _, rank, _ = np.linalg.lstsq(design, rows.y, rcond=None)
        residual = rows.y - design @ self._beta
        variance = float(residual @ residual) / max(1, len(rows.y) - int(rank))
        self._covariance = variance * np.linalg.pinv(design.T @ design, hermitian=True)
        self.coef_ = self._beta[1:] / self._scale
        self.intercept_ = float(self._beta[0] - self.coef_ @ self._centre)
        self.y_noise_ = noise_left(variance, rows.y_err)

    def _answer(self, x: Array, errors: Array) -> Answer:
        design = self._design(x)
        variance = np.einsum("ri,ij,rj->r", design, self._covariance, design)
        return Answer(design @ self._beta, np.sqrt(np.maximum(variance, 0)), np.zeros(len(x)))

    def _design(self, x: Array) -> Array:
        """The rows `(1, x)` with x standardised, `rows x (1 + n_x)`."""
        return np.column_stack([np.ones(len(x)), (x - self._centre) / self._scale])
