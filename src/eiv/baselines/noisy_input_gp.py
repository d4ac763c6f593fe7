"""A Gaussian process with noisy inputs, on top of scikit-learn's."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eiv.baselines.base import Answer, Rows, as_covariances
from eiv.baselines.gaussian_process import JITTER, GaussianProcess
from eiv.validation import check, integer

__all__ = ["NoisyInputGaussianProcess"]

Array = NDArray[np.float64]


class NoisyInputGaussianProcess(GaussianProcess):
    r"""A Gaussian process that turns the error of each input into noise of its label, by the slope of f there.

    .. math:: y_i = f(x_i) + \varepsilon_i, \qquad
              \mathrm{Var}(\varepsilon_i) = \sigma_y^2 + \nabla f(x_i)^T \Sigma_{x,i} \nabla f(x_i)

    The slopes come from the fit before, which is repeated `n_rounds` times, the first time without errors of X.

    - It assumes what a Gaussian process does, and that f is nearly straight within the errors.
    - It gives a curve that trusts rows with large errors less where f is steep, and intervals that are wider there.
    - It misses that the mean of labels at x is not f(x): the curve stays as flat as the errors make it. It misses
      curvature within the errors.
    - Take it where errors differ from row to row and are small beside the distances over which f changes.

    A. McHutchon and C. E. Rasmussen, Gaussian process training with input noise, 2011.

    Args:
        x_err: as for `EiVRegressor`.
        n_rounds: how often slopes and kernel are found in turn.
        most_rows: the most rows that predictions rest on.
        search_rows: the most rows by which the kernel is found.
        random_state: seed of the choice of rows.

    Attributes:
        model_: the fitted `sklearn.gaussian_process.GaussianProcessRegressor`, in standardised units.
        y_noise_: the fitted sigma_y, without what the errors of X cause.

    Examples:
        >>> X = np.linspace(-1, 1, 50)[:, None]
        >>> model = NoisyInputGaussianProcess(0.1, random_state=0).fit(X, 3 * X[:, 0] + 0.3 * np.sin(np.arange(50)))
        >>> model.predict_distribution([[0.0]]).aleatoric.round(1)
        array([0.3])

    """

    _takes_errors: ClassVar[bool] = True

    def __init__(
        self,
        x_err: Any = None,
        *,
        n_rounds: int = 3,
        most_rows: int = 3000,
        search_rows: int = 1000,
        random_state: Any = None,
    ) -> None:
        super().__init__(x_err, most_rows=most_rows, search_rows=search_rows, random_state=random_state)
        self.n_rounds = n_rounds

    def _fit(self, rows: Rows) -> None:
        check("n_rounds", self.n_rounds, integer(1))
        super()._fit(rows)
        chosen = self._standardised(rows)
        if not chosen.errors.any():
            return
        for _ in range(self.n_rounds):
            variances = chosen.y_err**2 + self._caused(chosen.x, chosen.errors)
            self.model_ = self._found(self.model_.kernel_, chosen, JITTER + variances)

    def _answer(self, x: Array, errors: Array) -> Answer:
        mean, epistemic, _ = super()._answer(x, errors)
        scale = self._inputs.scale_
        covariances = as_covariances(errors, len(x)) / (scale[:, None] * scale)
        return Answer(mean, epistemic, self._unit * np.sqrt(self._caused(self._inputs.transform(x), covariances)))

    def _caused(self, x: Array, covariances: Array) -> Array:
        """The variance of f that the errors of x cause by its slope, in standardised units: `rows`."""
        slopes = self._slopes(x)
        return np.asarray(np.maximum(np.einsum("ri,rij,rj->r", slopes, covariances, slopes), 0))

    def _slopes(self, x: Array) -> Array:
        r"""The gradient of the mean of f, in standardised units: `rows x n_x`.

        .. math:: \partial_j m(x) = \sum_i \alpha_i \, k(x, x_i) \frac{x_{ij} - x_j}{l_j^2}
        """
        learned, weights = self.model_.X_train_, self.model_.alpha_.reshape(-1)
        smooth = self.model_.kernel_.k1
        by_row = smooth(x, learned) * weights
        return np.asarray((by_row @ learned - by_row.sum(1, keepdims=True) * x) / smooth.k2.length_scale**2)
