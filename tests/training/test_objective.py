"""Equation (mcloss) against closed forms."""

import pytest
import torch
from numpy.random import SeedSequence
from torch import nn
from torch.distributions import Normal

from eiv.engine.streams import Streams
from eiv.inputs import ZetaNormal
from eiv.likelihoods import NormalLikelihood
from eiv.networks import NetworkStack
from eiv.training.objective import bound, loss
from smallnets import CPU, small_posterior

N_ROWS, X_ERR = 400, 0.3


@pytest.fixture
def linear(dtype):
    """Two linear networks without dropout: their EiV likelihood is a normal density."""
    seeds = SeedSequence(1).spawn(2)
    stack = NetworkStack(lambda: nn.Linear(1, 1), 1, 1, seeds, CPU, dtype)
    a, b = torch.tensor([[1.5], [-0.8]], dtype=dtype), torch.tensor([[0.3], [0.1]], dtype=dtype)
    stack.parameters = {"weight": a.unsqueeze(-1), "bias": b}
    random = torch.Generator().manual_seed(0)
    zeta = torch.randn(2, N_ROWS, 1, generator=random, dtype=dtype)
    x = zeta + X_ERR * torch.randn(zeta.shape, generator=random, dtype=dtype)
    y_noise = torch.tensor([[0.5], [0.2]], dtype=dtype)
    y = a[:, :, None] * zeta + b[:, :, None] + y_noise[:, None] * torch.randn(zeta.shape, generator=random, dtype=dtype)
    marginal = Normal(a * x[..., 0] + b, (y_noise**2 + (a * X_ERR) ** 2).sqrt())

    def bound_with(n_zeta: int):
        noise = Streams(seeds, CPU, dtype).normal(N_ROWS, n_zeta, 1)
        f = stack({}, ZetaNormal(x, torch.full((2, 1, 1), X_ERR, dtype=dtype)).draw(noise))
        return bound(NormalLikelihood(y_noise), f, y)

    return bound_with, marginal.log_prob(y[..., 0]).mean(1)


def test_bound_reaches_the_marginal_likelihood(linear):
    bound_with, exact = linear
    assert (bound_with(4096) - exact).abs().max() < 0.01


def test_bound_rises_with_the_number_of_zetas(linear):
    bound_with, exact = linear
    values = torch.stack([bound_with(n_zeta) for n_zeta in (1, 5, 25, 125, 625)])
    assert (values.diff(dim=0) > 0).all()
    assert (values[0] < exact - 0.01).all()


def test_exact_inputs_give_the_loss_without_errors_in_variables(dtype):
    posterior = small_posterior(dtype=dtype)
    draw = posterior.draw(Streams(SeedSequence(0).spawn(2), CPU, dtype), 16)
    x, y = torch.randn(2, 2, 16, 1, dtype=dtype)
    y_noise = torch.full((2, 1), 0.3, dtype=dtype)
    zeta = ZetaNormal(x, torch.zeros(2, 1, 1, dtype=dtype)).draw(torch.randn(2, 16, 5, 1, dtype=dtype))
    negative = -bound(NormalLikelihood(y_noise), posterior.evaluate(draw, zeta), y)
    eiv = loss(negative, posterior.kl(), 16)
    f = posterior.evaluate(draw, x.unsqueeze(2)).squeeze(2)
    plain = -Normal(f, y_noise[:, None]).log_prob(y).sum(2).mean(1) + posterior.kl() / 16
    torch.testing.assert_close(eiv, plain)


def test_a_far_outlier_leaves_loss_and_gradient_finite(dtype):
    f = torch.zeros(1, 1, 5, 1, dtype=dtype, requires_grad=True)
    likelihood = NormalLikelihood(torch.full((1, 1), 1e-2, dtype=dtype))
    value = loss(-bound(likelihood, f, torch.full((1, 1, 1), 1e4, dtype=dtype)), torch.zeros(1), 1)
    value.sum().backward()
    assert value.isfinite().all()
    assert f.grad.isfinite().all()
    assert f.grad.abs().sum() > 0
