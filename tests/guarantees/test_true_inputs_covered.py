"""Intervals of the true inputs hold them as often as they say, with and without the labels.

Coverage of 1,000 rows has a standard error of sqrt(0.95 * 0.05 / 1000) = 0.0069: the goal, 0.93 to 0.97, is three of
them. sigma_y is given: where it is fitted too small, the intervals given y are too narrow.
"""

import functools

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence
from torch import nn

from eiv import EiVRegressor, NormalPrior
from eiv.datasets.simulated import SIMULATED, simulate
from eiv.likelihoods import NormalLikelihood
from eiv.networks import NetworkStack
from eiv.posteriors.base import PointPosterior
from eiv.prediction.lines import LineSampler, Observed

N_ROWS = 1000


def coverage(model, X, zeta, y=None, **arguments):
    low, high = model.true_inputs(X, y, **arguments).interval(0.95)
    return ((low <= zeta) & (zeta <= high)).mean()


@pytest.mark.slow
def test_of_a_line():
    random = np.random.default_rng(0)
    zeta = random.normal(size=(2 * N_ROWS, 1))
    X, y = zeta + 0.3 * random.normal(size=zeta.shape), zeta[:, 0] + 0.1 * random.normal(size=2 * N_ROWS)
    model = EiVRegressor(
        0.3, module=nn.Linear, posterior="last_layer_laplace", input_prior="normal", zeta_draws="interpolated",
        n_zeta=16, y_noise=0.1, weight_penalty=1e-3, learning_rate=1e-2, epochs=30, recipe="paper", random_state=0,
    ).fit(X[:N_ROWS], y[:N_ROWS])  # fmt: skip
    new = slice(N_ROWS, None)
    assert 0.93 < coverage(model, X[new], zeta[new]) < 0.97
    assert 0.93 < coverage(model, X[new], zeta[new], y[new]) < 0.97
    assert coverage(model, X[new], zeta[new], y[new], X_err=0.1) < 0.9, "errors that are stated too small show"


class Known(nn.Module):
    """The curve of a simulated set."""

    def __init__(self, name):
        super().__init__()
        self.g, self.factor = CURVES[name], nn.Parameter(torch.ones(1))

    def forward(self, zeta):
        return self.factor * self.g(zeta)


CURVES = {
    "linear": lambda zeta: zeta,
    "quadratic": torch.square,
    "cubic": lambda zeta: zeta**3,
    "sine": lambda zeta: zeta + torch.sin(2 * torch.pi * zeta) + torch.sin(4 * torch.pi * zeta),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_where_curve_noise_and_prior_are_known(name):
    """What is left is the integration. 4,000 rows: a standard error of 0.0034, and the band is three of them."""
    problem, data = SIMULATED[name], simulate(name, 4000, random_state=0, zeta="normal")
    seeds = SeedSequence(0).spawn(1)
    stack = NetworkStack(lambda: Known(name), 1, 1, seeds, torch.device("cpu"), torch.float64)
    noise = torch.full((1, 1), problem.y_noise, dtype=torch.float64)
    sampler = LineSampler(PointPosterior(stack, 1.0), NormalLikelihood(noise), (np.zeros(1), np.ones(1)), 1, seeds)
    mean, std = problem.moments
    x, y = torch.tensor(data.X), torch.tensor(data.y[:, None])
    zeta = NormalPrior(std, mean).posterior(x, torch.full((1, 1), problem.x_err, dtype=torch.float64))
    for labels, kind in ((y, "line"), (y, "x")):
        draws = sampler.sample(zeta, Observed(labels, 0 * y), 500, kind).draws.numpy()
        low, high = np.quantile(draws, [0.025, 0.975], axis=0, method="averaged_inverted_cdf")
        assert abs(((low <= data.zeta) & (data.zeta <= high)).mean() - 0.95) < 0.0105


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_of_the_simulated_sets_by_their_readings(name):
    model, new = fitted(name)
    assert 0.93 < coverage(model, new.X, new.zeta) < 0.97


MISSED = "0.87: f is off by 1.5 of its stated standard deviation (0.81 within 1.96), and labels are far more precise"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*list(SIMULATED)[:-1], pytest.param("sine", marks=pytest.mark.xfail(strict=True, reason=MISSED))]
)
def test_of_the_simulated_sets_by_readings_and_labels(name):
    model, new = fitted(name)
    assert 0.93 < coverage(model, new.X, new.zeta, new.y) < 0.97


@functools.cache
def fitted(name):
    """The default recipe, and new rows."""
    problem, data = SIMULATED[name], simulate(name, random_state=1)
    model = EiVRegressor(problem.x_err, y_noise=problem.y_noise, random_state=0).fit(data.X, data.y)
    return model, simulate(name, N_ROWS, random_state=2)
