import itertools

import numpy as np
import pytest
import torch
from families import Linear, shrinkage, small, weights_of
from numpy.random import SeedSequence
from torch import nn

from eiv.engine.streams import Streams
from eiv.networks import NetworkStack
from eiv.posteriors import BernoulliDropout
from smallnets import CPU, small_posterior


def streams(n_networks=2, dtype=torch.float32):
    return Streams(SeedSequence(3).spawn(n_networks), CPU, dtype)


def test_a_row_has_one_mask_that_its_zetas_share(dtype):
    posterior = small_posterior(dtype=dtype, hidden_units=32)
    f = posterior.evaluate(posterior.draw(streams(dtype=dtype), 6), torch.ones(2, 6, 5, 1, dtype=dtype)).squeeze(-1)
    f = f.detach()
    rounding = 100 * torch.finfo(dtype).eps * f.abs().max()  # a matrix product may round each place differently
    assert (f - f[:, :, :1]).abs().max() < rounding
    values = f[:, :, 0].flatten()  # two networks of six rows, each with a mask of its own
    assert torch.pdist(values[:, None]).min() > 50 * rounding


def test_masks_keep_the_right_share_and_have_mean_one():
    n = 200_000
    for rate in (0.0, 0.1, 0.5):
        masks = streams().masks(rate, n)
        dropped = (masks == 0).double().mean(1)
        assert ((dropped - rate).abs() <= 4 * (rate * (1 - rate) / n) ** 0.5 + 1 / 2**16).all()
        standard_error = (rate / (1 - rate) / n) ** 0.5
        assert ((masks.double().mean(1) - 1).abs() <= 4 * standard_error + 1e-6).all()


def test_kl_is_the_papers_and_so_is_its_gradient(dtype):
    posterior = small_posterior(dropout=0.2, dtype=dtype)
    squares = sum(value.detach().double().square().flatten(1).sum(1) for value in posterior.parameters)
    torch.testing.assert_close(posterior.kl().detach().double(), 0.8 * 10 * squares, rtol=1e-5, atol=0)
    posterior.kl().sum().backward()
    for value in posterior.parameters:
        torch.testing.assert_close(value.grad, 2 * 0.8 * 10 * value.detach())


def test_kl_is_the_penalty_over_all_masks():
    """Two weights behind masks of 0 and 1, all four of them counted out."""

    def build():
        return nn.Sequential(nn.Dropout(0.3), nn.Linear(2, 1, bias=False))

    posterior = small("bernoulli_dropout", weight_penalty=2.0, build=build)
    for weights, kl in zip(posterior.parameters[0][:, 0], posterior.kl(), strict=True):
        expected = sum(
            0.7 ** (a + b) * 0.3 ** (2 - a - b) * 2.0 * (a * weights[0] ** 2 + b * weights[1] ** 2)
            for a, b in itertools.product([0, 1], repeat=2)
        )
        torch.testing.assert_close(kl, expected)


def test_gradients_pass_through_a_draw():
    posterior = small_posterior(dtype=torch.float64, hidden_units=4)
    draw, zeta = posterior.draw(streams(dtype=torch.float64), 3), torch.randn(2, 3, 5, 1, dtype=torch.float64)

    def f(*values):
        posterior.stack.parameters = dict(zip(posterior.stack.parameters, values, strict=True))
        return posterior.evaluate(draw, zeta)

    assert torch.autograd.gradcheck(f, tuple(posterior.parameters))


def test_networks_have_streams_of_their_own():
    seeds = SeedSequence(3).spawn(10)
    together, alone = Streams(seeds, CPU), Streams(seeds[7:8], CPU)
    assert torch.equal(together.masks(0.3, 4, 5)[7], alone.masks(0.3, 4, 5)[0])
    assert torch.equal(together.normal(4, 5)[7], alone.normal(4, 5)[0])
    assert torch.equal(together.permutations(9)[7], alone.permutations(9)[0])


def test_a_module_without_dropout_is_refused_with_the_reason():
    stack = NetworkStack(lambda: nn.Linear(2, 1), 2, 1, SeedSequence(0).spawn(1), CPU)
    with pytest.raises(
        ValueError, match=r"no dropout layer.*epistemic uncertainty would be zero.*Add torch.nn.Dropout"
    ):
        BernoulliDropout(stack, 10.0)


def test_linear_regression_is_ridge_regression_with_stds_of_fixed_share():
    """As for Gaussian dropout (`test_gaussian_dropout.py`), with the penalty times 1 - p.

    The shortfall against the posterior: weights are pulled towards zero, and their standard deviation is half their
    size, whatever the data say, here more than 1.5 times too large.
    """
    data, rate = Linear(40), 0.2
    gram = data.X.T @ data.X / data.y_noise**2
    ridge = gram + 0.25 * np.diag(np.diag(gram)) + 2 * (1 - rate) * data.weight_penalty * np.eye(2)
    expected = np.linalg.solve(ridge, data.X.T @ data.y / data.y_noise**2)
    draws = weights_of(data.fit("bernoulli_dropout", dropout=rate, epochs=400, n_networks=8, batch_size=40))
    np.testing.assert_allclose(draws.mean(0), expected, atol=0.03)
    np.testing.assert_allclose(draws.std(0), 0.5 * np.abs(expected), rtol=0.1)
    assert (np.abs(draws.mean(0)) < np.abs(data.mean)).all()
    assert (draws.std(0) > 1.5 * np.sqrt(np.diag(data.covariance))).all()


def test_the_epistemic_part_does_not_shrink_as_the_data_grow():
    assert 0.7 < shrinkage("bernoulli_dropout", dropout=0.2, epochs=200, n_networks=2) < 1.4
