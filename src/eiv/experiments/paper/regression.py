"""The reference method of the paper on simulated data: Bayesian regression with the form of g (appendix).

The functions are evaluated at the measured x. So this model knows the form of g, but ignores the errors in x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eiv.datasets import SIMULATED

__all__ = ["GRegression", "design"]

Array = NDArray[np.float64]


def design(name: str, x: Array) -> Array:
    r"""The values at x of the functions that g-tilde is a linear combination of.

    .. math:: \tilde g(x) = \sum_{i=0}^{K} a_i x^i \quad \text{or} \quad a_0 x + a_1 \sin 2\pi x + a_2 \sin 4\pi x

    Args:
        name: "linear" (K = 1), "quadratic" (2), "cubic" (3) or "sine".
        x: `rows`.

    Returns:
        `rows x functions`.

    Examples:
        >>> design("quadratic", np.array([2.0]))
        array([[1., 2., 4.]])

    """
    if name == "sine":
        return np.column_stack([x, np.sin(2 * np.pi * x), np.sin(4 * np.pi * x)])
    degree = {"linear": 1, "quadratic": 2, "cubic": 3}[name]
    return np.vander(x, degree + 1, increasing=True)


@dataclass(frozen=True)
class GRegression:
    r"""The posterior of the coefficients under a flat prior and the true sigma_y, in closed form.

    .. math:: a \mid \mathcal{D} \sim \mathcal{N}\big((\Phi^T\Phi)^{-1}\Phi^T y,\ \sigma_y^2 (\Phi^T\Phi)^{-1}\big)

    Attributes:
        name: the simulated problem.
        coefficients: the posterior mean of a.
        covariance: the posterior covariance of a.

    Examples:
        >>> from eiv.datasets import simulate
        >>> data = simulate("linear", random_state=0)
        >>> model = GRegression.fit("linear", data.X[:, 0], data.y)
        >>> mean, parameters, predictive = model.predict(data.X[:3, 0])
        >>> bool((parameters < 0.02).all()), bool((predictive > 0.2).all())
        (True, True)

    """

    name: str
    coefficients: Array
    covariance: Array

    @classmethod
    def fit(cls, name: str, x: Array, y: Array) -> GRegression:
        """Fit the coefficients to rows of a simulated problem."""
        functions = design(name, x)
        inverse = np.asarray(np.linalg.inv(functions.T @ functions), dtype=np.float64)
        return cls(name, inverse @ functions.T @ y, inverse * SIMULATED[name].y_noise ** 2)

    def predict(self, x: Array) -> tuple[Array, Array, Array]:
        """The mean, and two uncertainties: that of g-tilde from its coefficients, and that of a label, with sigma_y.

        The paper describes the second (the standard deviation of the posterior predictive distribution), and says that
        it covers the truth too seldom on all four sets. Only the first does. The coverage of the second depends on
        sigma_y: it covers nearly all of the truth on linear, where sigma_y is twice the effect of sigma_x on g, and far
        too little where sigma_y is small. Every claim about this regression is tested for both.
        """
        functions = design(self.name, x)
        parameters = np.sqrt(np.einsum("ri,ij,rj->r", functions, self.covariance, functions))
        return functions @ self.coefficients, parameters, np.hypot(parameters, SIMULATED[self.name].y_noise)
