"""Orthogonal distance regression, by odrpack."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eiv.baselines.base import Answer, Baseline, Rows, as_covariances, noise_left, std_through
from eiv.baselines.regression_calibration import RegressionCalibration
from eiv.extras import needs
from eiv.validation import check, integer

__all__ = ["OrthogonalDistance"]

Array = NDArray[np.float64]
_TOLERANCE = 1e-14  # of odrpack, relative; its own, 1e-8, leaves five digits of a slope
_CONVERGED = (1, 2, 3)  # the last digit of odrpack's `info`: sum of squares, parameters, or both
_LEAST_SHARE = 1e-3  # of the spread of y, that the noise is taken to have where moments say that there is none


class OrthogonalDistance(Baseline):
    r"""A plane, or powers of each column, with errors in X and y, by the package odrpack.

    .. math:: \min_{b, \zeta} \sum_i \Big( \frac{(y_i - f_b(\zeta_i))^2}{\sigma_{y,i}^2}
              + (x_i - \zeta_i)^T \Sigma_{x,i}^{-1} (x_i - \zeta_i) \Big), \qquad
              f_b(\zeta) = b_0 + \sum_{j, d} b_{jd} \zeta_j^d

    - It assumes the form of f, and that the errors of X and of y are known and are all there is.
    - It gives the coefficients of f, with a standard error that is scaled by the scatter that is found.
    - It misses f of any other form. Noise beyond the known errors pulls the fit, because it counts as error of X too. A
      prediction from a measured x is f(x): of a label, ignoring the errors predicts better.
    - Take it for a law of known form, with the errors of both sides from a data sheet.

    Without `y_err`, sigma_y is one number: what regression calibration leaves as noise of a plane.

    Args:
        x_err: as for `EiVRegressor`.
        degree: the highest power of each column; 1 for a plane.

    Attributes:
        result_: the `odrpack.OdrResult`, in standardised units.
        coef_: for degree 1 `n_x`, the slopes; else `degree x n_x` coefficients of the powers of standardised columns.
        intercept_: the value at x = 0; for other degrees at the mean of x.
        y_noise_: the scatter of labels that the errors do not explain.

    Examples:
        >>> random = np.random.default_rng(0)
        >>> zeta = random.uniform(-1, 1, (200, 1))
        >>> X, y = zeta + 0.2 * random.normal(size=(200, 1)), 3 * zeta[:, 0] + 0.1 * random.normal(size=200)
        >>> OrthogonalDistance(0.2).fit(X, y, y_err=0.1).coef_.round(0)
        array([3.])

    """

    def __init__(self, x_err: Any = None, *, degree: int = 1) -> None:
        self.x_err = x_err
        self.degree = degree

    def _fit(self, rows: Rows) -> None:
        needs("Orthogonal distance regression", "odrpack", extra="odr")
        from odrpack import odr_fit  # noqa: PLC0415  (of an extra)

        check("degree", self.degree, integer(1))
        self._centre, self._scale = rows.x.mean(0), np.where(rows.x.std(0) > 0, rows.x.std(0), 1.0)
        self._unit = float(rows.y.std())
        self._middle = (
            float(rows.y.mean()) - self._unit
        )  # an intercept near 1: odrpack's steps are shares of parameters
        x, y = (rows.x - self._centre) / self._scale, (rows.y - self._middle) / self._unit
        weights, exact = _weights(rows.covariances / (self._scale[:, None] * self._scale))
        start, *_ = np.linalg.lstsq(self._design(x), y, rcond=None)
        self.result_ = odr_fit(
            lambda z, b: self._design(z.T) @ b,
            np.ascontiguousarray(x.T),
            y,
            start,
            weight_x=weights,
            weight_y=(self._unit / self._y_errors(rows)) ** 2,
            fix_x=exact,
            task="OLS" if exact.all() else "explicit-ODR",
            diff_scheme="central",  # with derivatives given, odrpack stalls on some tables
            scale_beta=np.ones(len(start)),  # odrpack would divide by values of beta that are zero
            sstol=_TOLERANCE,
            partol=_TOLERANCE,
            maxit=1000,
        )
        if self.result_.info % 10 not in _CONVERGED:
            raise ValueError(
                "Orthogonal distance regression did not converge. Where labels scatter by more than the errors of x "
                "and y allow, its slopes can grow without limit: state larger errors of y (y_err), or take another "
                "method."
            )
        self._covariance = self.result_.cov_beta * self._covariance_factor
        self._set_coefficients()
        aleatoric = std_through(self._curve, rows.x, rows.covariances)
        residual = rows.y - self._curve(rows.x)
        self.y_noise_ = noise_left(float(np.mean(residual**2)), aleatoric, rows.y_err)

    def _answer(self, x: Array, errors: Array) -> Answer:
        design = self._design((x - self._centre) / self._scale)
        variance = np.einsum("ri,ij,rj->r", design, self._covariance, design)
        epistemic = self._unit * np.sqrt(np.maximum(variance, 0))
        return Answer(self._curve(x), epistemic, std_through(self._curve, x, as_covariances(errors, len(x))))

    @property
    def _covariance_factor(self) -> float:
        """What odrpack's covariance is multiplied by: the variance of the weighted residuals."""
        return float(self.result_.res_var)

    def _y_errors(self, rows: Rows) -> Array:
        """The errors of y that the fit takes, `rows`; where none are known, one number from moments."""
        if rows.y_err.all():
            return rows.y_err
        if rows.y_err.any():
            raise ValueError("y_err must be above 0 for all rows or for none: orthogonal distances divide by it.")
        found = RegressionCalibration(rows.covariances).fit(rows.x, rows.y, X_err=rows.covariances).y_noise_
        return np.full(len(rows.y), max(found, _LEAST_SHARE * self._unit))

    def _curve(self, zeta: Array) -> Array:
        return np.asarray(
            self._middle + self._unit * (self._design((zeta - self._centre) / self._scale) @ self.result_.beta)
        )

    def _design(self, x: Array) -> Array:
        """Powers of the columns, from 0 on: `rows x (1 + degree n_x)`."""
        return np.column_stack([np.ones(len(x)), *(x**power for power in range(1, self.degree + 1))])

    def _set_coefficients(self) -> None:
        by_power = self._unit * self.result_.beta[1:].reshape(self.degree, -1)
        self.coef_ = by_power[0] / self._scale if self.degree == 1 else by_power
        self.intercept_ = float(self._middle + self._unit * self.result_.beta[0])
        if self.degree == 1:
            self.intercept_ -= float(self.coef_ @ self._centre)


def _weights(covariances: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The inverse covariances, `n_x x n_x x rows`, and which values are exact, `n_x x rows`; these have weight 1."""
    exact = np.diagonal(covariances, axis1=1, axis2=2) == 0
    filled = covariances + np.eye(covariances.shape[1]) * exact[:, None, :]
    try:
        inverse = np.linalg.inv(filled)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "X_err must hold covariances that can be inverted: orthogonal distances divide by them."
        ) from error
    return np.ascontiguousarray(inverse.transpose(1, 2, 0)), np.ascontiguousarray(exact.T)
