"""SIMEX: simulate larger errors, and extrapolate to none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from eiv.baselines.base import Answer, Baseline, Rows, as_covariances, noise_left, seed_of, std_through
from eiv.baselines.least_squares import LeastSquares
from eiv.validation import check, integer

__all__ = ["Simex"]

Array = NDArray[np.float64]
_FACTORS = (0.0, 0.5, 1.0, 1.5, 2.0)  # lambda, of the variance that is added; those of Cook and Stefanski


class Simex(Baseline):
    r"""Simulation and extrapolation: fits to inputs with errors added, extrapolated to inputs without.

    .. math:: \hat f(\zeta) = \sum_\lambda w_\lambda \frac1B \sum_{b=1}^B \hat f_{\lambda b}(\zeta), \qquad
              \hat f_{\lambda b} \text{ from } x + \sqrt\lambda \, \varepsilon_b, \; \varepsilon_b \sim N(0, \Sigma_x)

    The weights are those of the parabola in lambda through the means, evaluated at lambda = -1, where no error is left.

    - It assumes that a parabola describes how a fit changes with the size of the errors.
    - It gives f at exact inputs for any regression, with a standard error, and nothing has to be known of the true
      inputs.
    - It misses part of the effect where errors are large: for a line the truth is 1 / (1 + lambda) rather than a
      parabola, and the slope keeps an error of about the third power of Var(error) / Var(x). A prediction from a
      measured x is f(x): of a label, ignoring the errors predicts better.
    - Take it for the coefficients of a simple model whose errors are moderate.

    J. R. Cook and L. A. Stefanski, Simulation-extrapolation estimation in parametric measurement error models, 1994.

    Args:
        x_err: as for `EiVRegressor`.
        regressor: the regression, an estimator with `predict_distribution`; by default `eiv.baselines.LeastSquares`.
        n_remeasured: B, fits for each size of the errors.
        random_state: seed of the errors that are added.

    Attributes:
        models_: the fits, a list of B for each lambda; a single one for 0.
        y_noise_: the scatter of labels that nothing else explains.

    Examples:
        >>> random = np.random.default_rng(0)
        >>> zeta = random.normal(size=(500, 1))
        >>> model = Simex(0.3, random_state=0).fit(zeta + 0.3 * random.normal(size=(500, 1)), 3 * zeta[:, 0])
        >>> np.diff(model.predict([[0.0], [1.0]])).round(1)
        array([3.])

    """

    def __init__(
        self, x_err: Any = None, *, regressor: Any = None, n_remeasured: int = 50, random_state: Any = None
    ) -> None:
        self.x_err = x_err
        self.regressor = regressor
        self.n_remeasured = n_remeasured
        self.random_state = random_state

    def _fit(self, rows: Rows) -> None:
        check("n_remeasured", self.n_remeasured, integer(2))
        random = np.random.default_rng(seed_of(self.random_state))
        regression = LeastSquares() if self.regressor is None else self.regressor
        values, vectors = np.linalg.eigh(rows.covariances)
        root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
        self.models_ = [
            [
                clone(regression).fit(x, rows.y, y_err=rows.y_err)
                for x in _remeasured(rows.x, root, factor, self.n_remeasured, random)
            ]
            for factor in (_FACTORS if root.any() else _FACTORS[:1])
        ]
        aleatoric = std_through(self._curve, rows.x, rows.covariances)
        residual = rows.y - self._curve(rows.x)
        self.y_noise_ = noise_left(float(np.mean(residual**2)), aleatoric, rows.y_err)

    def _answer(self, x: Array, errors: Array) -> Answer:
        aleatoric = std_through(self._curve, x, as_covariances(errors, len(x)))
        predictions = [[model.predict_distribution(x) for model in models] for models in self.models_]
        means = np.array([np.mean([p.mean for p in each], axis=0) for each in predictions])
        variances = np.array(
            [
                np.mean([p.std**2 for p in each], axis=0) - (np.var([p.mean for p in each], axis=0, ddof=min(1, i)))
                for i, each in enumerate(predictions)
            ]
        )  # that of the estimate, less that of the errors that were added
        weights = self._weights
        return Answer(weights @ means, np.sqrt(np.maximum(weights @ variances, 0)), aleatoric)

    def _curve(self, zeta: Array) -> Array:
        means = [np.mean([model.predict(zeta) for model in models], axis=0) for models in self.models_]
        return np.asarray(self._weights @ np.array(means))

    @property
    def _weights(self) -> Array:
        """What the parabola through values at the factors, by least squares, is at -1, as weights of these values."""
        if len(self.models_) == 1:
            return np.ones(1)
        powers = np.vander(np.array(_FACTORS), 3)
        found: Array = np.vander(np.array([-1.0]), 3)[0] @ np.linalg.pinv(powers)
        return found


def _remeasured(x: Array, root: Array, factor: float, n: int, random: np.random.Generator) -> list[Array]:
    """The inputs with errors added, whose covariance is `factor` times `root root^T`: n times, for 0 once."""
    if factor == 0:
        return [x]
    noise = random.standard_normal((n, *x.shape))
    return [x + np.sqrt(factor) * np.einsum("rij,rj->ri", root, each) for each in noise]
