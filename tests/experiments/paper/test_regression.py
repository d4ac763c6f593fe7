"""The g-based Bayesian regression against independent references."""

import numpy as np
import pytest

from eiv.datasets import SIMULATED, simulate
from eiv.experiments.paper.regression import GRegression, design


@pytest.mark.parametrize("name", SIMULATED)
def test_posterior_is_that_of_the_normal_equations(name):
    """Mean by least squares through an SVD; covariance from the curvature of the log posterior, by differences."""
    data = simulate(name, 300, random_state=0)
    x, y, noise = data.X[:, 0], data.y, SIMULATED[name].y_noise
    model = GRegression.fit(name, x, y)
    reference, *_ = np.linalg.lstsq(design(name, x), y, rcond=None)
    np.testing.assert_allclose(model.coefficients, reference, rtol=1e-8)

    def log_posterior(a):
        return -0.5 * np.sum((y - design(name, x) @ a) ** 2) / noise**2

    n, step = len(reference), 1e-3
    curvature = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            e, f = step * np.eye(n)[i], step * np.eye(n)[j]
            curvature[i, j] = (
                log_posterior(reference + e + f)
                - log_posterior(reference + e - f)
                - log_posterior(reference - e + f)
                + log_posterior(reference - e - f)
            ) / (4 * step**2)
    np.testing.assert_allclose(model.covariance, np.linalg.inv(-curvature), rtol=1e-5)


def test_the_functions_can_be_g_itself():
    zeta = np.linspace(-0.2, 0.8, 7)
    for name, coefficients in {
        "linear": [0, 1],
        "quadratic": [0, 0, 1],
        "cubic": [0, 0, 0, 1],
        "sine": [1, 1, 1],
    }.items():
        np.testing.assert_allclose(design(name, zeta) @ coefficients, SIMULATED[name].g(zeta), atol=1e-12)


def test_the_two_readings():
    data = simulate("linear", random_state=1)
    mean, parameters, predictive = GRegression.fit("linear", data.X[:, 0], data.y).predict(np.array([0.0, 1.0]))
    np.testing.assert_allclose(predictive**2 - parameters**2, SIMULATED["linear"].y_noise ** 2)
    assert parameters[1] > parameters[0]  # the line is least certain at its ends
    assert mean[1] > mean[0]
