"""Slopes of fitted lines: what errors, priors and the error model are for.

The network is a line, its output noise is known, and there are 5,000 rows, so the maximum of the likelihood is close to
the truth: for zeta of spread 1, x_err = 0.5, slope 1 and y noise 0.3 the standard error of the slope is
sqrt(0.09 + 0.2) / (0.894 sqrt(5000)) = 0.0085 from the scatter of y, and 0.005 from the learned prior. The band of 0.03
is three standard errors. Sixteen nodes over the posterior of zeta, of spread 0.45, lie closer than the y noise is wide.
"""

import numpy as np
import pytest
from torch import nn

from eiv import EiVRegressor, NormalPrior, errors_from_repeats

N_ROWS, X_ERR, Y_NOISE = 5000, 0.5, 0.3


class Line(nn.Sequential):
    def __init__(self, n_inputs, n_outputs):
        super().__init__(nn.Dropout(0.0), nn.Linear(n_inputs, n_outputs))


def slope(X, y, X_err=None, **settings):
    """The slope of the line fitted by Algorithm 1 at the true y noise."""
    recipe = {"epochs": 12, "batch_size": 100, "learning_rate": 1e-2, "weight_penalty": 0.0, "n_theta": 2}
    model = EiVRegressor(
        module=Line,
        n_zeta=16,
        y_noise_init=Y_NOISE,
        y_noise_every=100,
        standardise=False,
        **recipe | settings,
        recipe="paper",
    ).set_params(random_state=0)
    start, end = model.fit(X, y, X_err=X_err).predict([[0.0], [1.0]], X_err=0)
    return end - start


def normal_inputs(n_rows=N_ROWS):
    random = np.random.default_rng(0)
    zeta = random.standard_normal((n_rows, 1))
    return random, zeta, zeta[:, 0] + Y_NOISE * random.standard_normal(n_rows)


@pytest.mark.parametrize("prior", ["normal", "mixture", NormalPrior(std=1.0)])
@pytest.mark.parametrize("zeta_draws", ["gauss_hermite", "stratified"])
def test_a_prior_gives_the_true_slope_where_inputs_are_normal(prior, zeta_draws):
    random, zeta, y = normal_inputs()
    X = zeta + X_ERR * random.standard_normal(zeta.shape)
    assert 0.97 < slope(X, y, x_err=X_ERR, input_prior=prior, zeta_draws=zeta_draws) < 1.03


def test_without_a_prior_the_slope_is_too_small():
    """Ignoring the errors gives 1 / 1.25 = 0.80; a flat prior does no better."""
    random, zeta, y = normal_inputs()
    X = zeta + X_ERR * random.standard_normal(zeta.shape)
    assert 0.77 < slope(X, y) < 0.83
    assert slope(X, y, x_err=X_ERR, zeta_draws="gauss_hermite") < 0.9


def test_set_inputs_need_the_berkson_model():
    """x is set to normal values, the true input scatters around it: with the classical model the slope is too large."""
    random, x, _ = normal_inputs()
    zeta = x + X_ERR * random.standard_normal(x.shape)
    y = zeta[:, 0] + Y_NOISE * random.standard_normal(N_ROWS)
    settings = {"x_err": X_ERR, "input_prior": "normal", "zeta_draws": "gauss_hermite"}
    assert 0.97 < slope(x, y, error_model="berkson", **settings) < 1.03
    assert slope(x, y, error_model="classical", **settings) > 1.15


def test_errors_from_repeats_give_the_true_slope():
    random, zeta, y = normal_inputs()
    groups = np.repeat(np.arange(N_ROWS), random.integers(1, 4, N_ROWS))
    repeats = errors_from_repeats(zeta[groups] + X_ERR * random.standard_normal((len(groups), 1)), groups)
    settings = {"input_prior": "normal", "zeta_draws": "gauss_hermite"}
    assert 0.97 < slope(repeats.X, y, X_err=repeats.X_err, **settings) < 1.03
    assert slope(repeats.X, y) < 0.92  # the mean of 1 / (1 + 0.25 / n) over n = 1, 2, 3 is 0.87


def test_errors_of_each_group_give_the_true_slope_too():
    """Ten repeats each, half of them by an instrument that is four times as good; errors known to a quarter or so."""
    random, zeta, y = normal_inputs()
    groups, scatter = np.repeat(np.arange(N_ROWS), 10), np.where(np.arange(N_ROWS) % 2, 0.5, 2.0)
    X = zeta[groups] + scatter[groups, None] * random.standard_normal((len(groups), 1))
    repeats = errors_from_repeats(X, groups, by_group=True)
    settings = {"input_prior": "normal", "zeta_draws": "gauss_hermite"}
    assert 0.96 < slope(repeats.X, y, X_err=repeats.X_err, **settings) < 1.04
    assert slope(repeats.X, y) < 0.88  # (1 + 1) / (1 + 0.4 + 1 + 0.025) = 0.82
