"""Other likelihoods cost little where noise is normal, and find the curve where it is not. Goals set beforehand."""

import warnings

import numpy as np
import pytest

from eiv import EiVRegressor

GRID = np.linspace(-0.95, 0.95, 200)[:, None]


def table(n, seed, sigma):
    random = np.random.default_rng(seed)
    zeta = random.uniform(-1, 1, (n, 1))
    X = zeta + 0.15 * random.standard_normal((n, 1))
    return X, np.sin(3 * zeta[:, 0]) + sigma(zeta[:, 0]) * random.standard_normal(n)


def fitted(X, y, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EiVRegressor(**{"x_err": 0.15, "random_state": 0} | changes).fit(X, y)


def crps(model, X, y):
    """The mean over rows, from all pairs of draws of labels."""
    samples = np.sort(model.predict_distribution(X, keep_draws=True).samples(of="label", random_state=0), axis=0)
    n = len(samples)
    ranks = (2 * np.arange(n)[:, None] + 1 - n) / n**2
    return float(np.mean(np.abs(samples - y).mean(0) - (ranks * samples).sum(0)))


@pytest.mark.slow
def test_constant_noise_is_predicted_as_well_as_by_the_normal_likelihood():
    """By no more than 1 % worse in CRPS than the default."""
    X, y = table(400, 0, lambda zeta: 0.1)
    new = table(1000, 1000, lambda zeta: 0.1)
    plain = crps(fitted(X, y), *new)
    for likelihood in ("varying", "student_t"):
        assert crps(fitted(X, y, likelihood=likelihood), *new) < 1.01 * plain


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [600, 2000])
def test_the_curve_under_fourfold_noise_is_better_than_with_the_errors_ignored(n_rows):
    X, y = table(n_rows, 0, lambda zeta: 0.1 * 4 ** ((zeta + 1) / 2))
    errors = [
        np.sqrt(np.mean((fitted(X, y, **changes).predict(GRID, X_err=0) - np.sin(3 * GRID[:, 0])) ** 2))
        for changes in ({"likelihood": "varying"}, {"x_err": None})
    ]
    assert errors[0] < errors[1]
