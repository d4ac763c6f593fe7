"""Regression calibration: the inputs are replaced by the means of the true inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from eiv.baselines.base import Answer, Baseline, Rows, as_covariances, noise_left, std_through
from eiv.baselines.least_squares import LeastSquares

__all__ = ["RegressionCalibration"]

Array = NDArray[np.float64]


class RegressionCalibration(Baseline):
    r"""Another regression, fitted to the mean of the true input given x instead of x itself.

    .. math:: E(\zeta | x) = \mu + \Sigma_\zeta (\Sigma_\zeta + \Sigma_x)^{-1} (x - \mu), \qquad
              \Sigma_\zeta = S_{xx} - \overline{\Sigma_x}

    - It assumes that the true inputs are normal with a mean and covariance that all rows share, and that f is nearly
      linear within the errors.
    - It gives the right slopes where f is linear: for one column, that of least squares times Var(x) / Var(zeta).
    - It misses curvature within the errors, and true inputs whose distribution is skewed or clustered.
    - Take it for linear models with moderate errors, where one line of explanation has to suffice.

    The aleatoric component is the standard deviation of f over the true inputs given x. `y_noise_` is the scatter of
    labels that it does not explain. R. J. Carroll et al., Measurement Error in Nonlinear Models, 2006, chapter 4.

    Args:
        x_err: as for `EiVRegressor`.
        regressor: the regression, an estimator with `predict_distribution` such as `eiv.baselines.GaussianProcess`; by
            default `eiv.baselines.LeastSquares`.

    Attributes:
        model_: the fitted regression.
        zeta_mean_: `n_x`, the mean of the true inputs.
        zeta_covariance_: `n_x x n_x`, their covariance.
        y_noise_: the scatter of labels that nothing else explains.

    Examples:
        >>> random = np.random.default_rng(0)
        >>> zeta = random.normal(size=(2000, 1))
        >>> model = RegressionCalibration(0.5).fit(zeta + 0.5 * random.normal(size=(2000, 1)), 3 * zeta[:, 0])
        >>> model.model_.coef_.round(1)
        array([3.])

    """

    def __init__(self, x_err: Any = None, *, regressor: Any = None) -> None:
        self.x_err = x_err
        self.regressor = regressor

    def _fit(self, rows: Rows) -> None:
        self.zeta_mean_ = rows.x.mean(0)
        of_errors = rows.covariances.mean(0)
        self.zeta_covariance_ = _without_negative(np.atleast_2d(np.cov(rows.x.T)) - of_errors)
        centre, covariances = self._zeta(rows.x, rows.errors)
        self.model_ = (LeastSquares() if self.regressor is None else clone(self.regressor)).fit(
            centre, rows.y, y_err=rows.y_err
        )
        aleatoric = std_through(self._curve, centre, covariances)
        self.y_noise_ = noise_left(float(self.model_.y_noise_) ** 2, aleatoric)

    def _answer(self, x: Array, errors: Array) -> Answer:
        centre, covariances = self._zeta(x, errors)
        p = self.model_.predict_distribution(centre)
        return Answer(p.mean, p.std, std_through(self._curve, centre, covariances))

    def _curve(self, zeta: Array) -> Array:
        return np.asarray(self.model_.predict(zeta), dtype=float)

    def _zeta(self, x: Array, errors: Array) -> tuple[Array, Array]:
        """Mean and covariance of the true inputs given x: `rows x n_x` and `rows x n_x x n_x`."""
        prior, own = self.zeta_covariance_, as_covariances(errors, len(x))
        gain = prior @ np.linalg.pinv(prior + own, hermitian=True)
        exact = np.asarray(~np.diagonal(own, axis1=1, axis2=2).any(1))  # also where a column does not vary at all
        gain[exact] = np.eye(x.shape[1])
        centre = self.zeta_mean_ + np.einsum("rij,rj->ri", gain, x - self.zeta_mean_)
        covariances = prior - gain @ prior
        return centre, np.where(exact[:, None, None], 0.0, (covariances + covariances.swapaxes(1, 2)) / 2)


def _without_negative(covariance: Array) -> Array:
    """The nearest matrix without negative eigenvalues; errors beyond the spread of a column leave it no truth."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)
