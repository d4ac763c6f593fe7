"""The Gaussian process of scikit-learn; the errors of X are ignored."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from eiv.baselines.base import Answer, Baseline, Rows, seed_of
from eiv.validation import check, integer

__all__ = ["GaussianProcess"]

Array = NDArray[np.float64]
JITTER = 1e-10  # scikit-learn's own, for its matrix to be positive definite


class GaussianProcess(Baseline):
    r"""A Gaussian process with a squared exponential kernel, one length scale per column, by scikit-learn.

    .. math:: k(x, x') = a^2 \exp\Big(-\frac12 \sum_j \frac{(x_j - x'_j)^2}{l_j^2}\Big) + \sigma_y^2 \delta_{x x'}

    - It assumes a smooth f, exact inputs and normal noise that is the same everywhere, with the known errors of labels
      on top.
    - It gives a curve without a form chosen beforehand, and an honest uncertainty of it where the inputs are exact.
    - It misses the errors of X: what they cause counts as noise that all rows share, and the curve comes out too flat.
    - Take it where the errors of X are small beside the distances over which f changes.

    X and y are standardised. At most `search_rows` random rows decide on the kernel, at most `most_rows` on the curve.

    Args:
        x_err: checked as for `EiVRegressor`, and not used.
        most_rows: the most rows that predictions rest on; time grows with the third power.
        search_rows: the most rows by which the kernel is found.
        random_state: seed of the choice of rows.

    Attributes:
        model_: the fitted `sklearn.gaussian_process.GaussianProcessRegressor`, in standardised units.
        y_noise_: the fitted sigma_y.

    Examples:
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = GaussianProcess(random_state=0).fit(X, 3 * X[:, 0] + 0.01 * np.sin(999 * X[:, 0]))
        >>> model.predict([[0.5]]).round(1)
        array([1.5])

    """

    _takes_errors: ClassVar[bool] = False

    def __init__(
        self, x_err: Any = None, *, most_rows: int = 3000, search_rows: int = 1000, random_state: Any = None
    ) -> None:
        self.x_err = x_err
        self.most_rows = most_rows
        self.search_rows = search_rows
        self.random_state = random_state

    def _fit(self, rows: Rows) -> None:
        for name in ("most_rows", "search_rows"):
            check(name, getattr(self, name), integer(2))
        chosen = self._standardised(rows)
        kernel = ConstantKernel() * RBF(np.ones(rows.x.shape[1])) + WhiteKernel(0.1)
        self.model_ = self._found(kernel, chosen, JITTER + chosen.y_err**2)

    def _answer(self, x: Array, errors: Array) -> Answer:
        mean, total = self.model_.predict(self._inputs.transform(x), return_std=True)
        epistemic = np.sqrt(np.maximum((self._unit * total) ** 2 - self.y_noise_**2, 0))
        return Answer(self._centre + self._unit * mean, epistemic, np.zeros(len(x)))

    @property
    def y_noise_(self) -> float:
        """The fitted sigma_y, from the white kernel."""
        return self._unit * float(np.sqrt(self.model_.kernel_.k2.noise_level))

    def _standardised(self, rows: Rows) -> Rows:
        """The rows that predictions rest on, in random order and in standardised units."""
        self._seed = seed_of(self.random_state)
        order = np.random.default_rng(self._seed).permutation(len(rows.y))[: self.most_rows]
        self._inputs = StandardScaler().fit(rows.x)
        self._centre, self._unit = float(rows.y.mean()), float(rows.y.std())
        scale = self._inputs.scale_
        covariances = rows.covariances[order] / (scale[:, None] * scale)
        labels = (rows.y[order] - self._centre) / self._unit
        return Rows(self._inputs.transform(rows.x[order]), covariances, labels, rows.y_err[order] / self._unit)

    def _found(self, kernel: Any, rows: Rows, variances: Array) -> GaussianProcessRegressor:
        """The process whose kernel is found by some of the rows and that rests on all of them.

        `variances`, `rows`, are known variances of the labels.
        """
        few = slice(self.search_rows)
        search = GaussianProcessRegressor(kernel, alpha=variances[few], random_state=self._seed)
        found = search.fit(rows.x[few], rows.y[few]).kernel_
        return GaussianProcessRegressor(found, alpha=variances, optimizer=None).fit(rows.x, rows.y)
