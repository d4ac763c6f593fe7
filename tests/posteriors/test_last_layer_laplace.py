import numpy as np
import pytest
import torch
from families import Linear, shrinkage, small, streams, trained, weights_of
from numpy.random import SeedSequence
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence

from conftest import CPU
from eiv.inputs import ZetaDraws, ZetaPosterior
from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import LastLayerLaplace
from eiv.streams import Streams

F64 = torch.float64


def test_kl_is_that_of_normal_distributions():
    posterior = small("last_layer_laplace", weight_penalty=2.0)
    trained(posterior)
    root, head = posterior.state["root"], posterior._head().flatten(1)
    prior = MultivariateNormal(torch.zeros(13, dtype=F64), 0.25 * torch.eye(13, dtype=F64))
    others = 2.0 * (posterior.squares() - head.square().sum(1))  # points, up to a constant
    torch.testing.assert_close(posterior.kl(), kl_divergence(MultivariateNormal(head, root @ root.mT), prior) + others)


def test_linear_regression_is_exact():
    data = Linear(40)
    model = data.fit("last_layer_laplace", epochs=400, batch_size=40, learning_rate=2e-2)
    root = model.posterior_.state["root"][0].numpy()
    np.testing.assert_allclose(root @ root.T, data.covariance, rtol=1e-8)
    np.testing.assert_allclose(model.posterior_.stack.parameters["weight"][0, 0].detach(), data.mean, atol=1e-3)
    draws = weights_of(model)
    np.testing.assert_allclose(np.cov(draws.T), data.covariance, rtol=5 * (2 / 2000) ** 0.5, atol=0)


def test_with_errors_in_x_it_has_the_second_derivatives_of_the_exact_likelihood():
    """A line under errors in x: y ~ N(w x + b, sigma_y^2 + w^2 sigma_x^2), whose second derivatives are known."""
    random = np.random.default_rng(0)
    x = torch.tensor(random.uniform(-2, 2, (1, 300, 1)))
    y = 1.5 * x + torch.tensor(random.normal(0, 0.6, (1, 300, 1)))
    x_err, y_noise = 0.3, torch.tensor([[0.4]], dtype=F64)
    seeds = SeedSequence(0).spawn(1)
    posterior = LastLayerLaplace(NetworkStack(lambda: nn.Linear(1, 1), 1, 1, seeds, CPU, F64), weight_penalty=0.5)
    phi = torch.tensor([1.5, 0.1], dtype=F64)
    for value, number in zip(posterior.parameters, phi, strict=True):
        value.data.fill_(number)
    inputs = ZetaPosterior(x, torch.full((1, 1, 1), x_err, dtype=F64))

    def log_likelihood(w):
        spread = (y_noise.square() + w[0] ** 2 * x_err**2).sqrt()
        return torch.distributions.Normal(w[0] * x + w[1], spread).log_prob(y).sum()

    exact = -torch.autograd.functional.hessian(log_likelihood, phi) + torch.eye(2, dtype=F64)
    for kind, n_zeta, tolerance in (("gauss_hermite", 40, 1e-6), ("sobol", 512, 0.02)):
        draws = ZetaDraws.of(kind, n_zeta, inputs)
        posterior.finish(inputs, y, y_noise, draws, Streams(seeds, CPU, F64))
        root = posterior.state["root"][0]
        torch.testing.assert_close(torch.linalg.inv(root @ root.mT), exact, rtol=tolerance, atol=tolerance * 300)
    without = torch.cat([x, torch.ones_like(x)], dim=2)[0]
    naive = without.T @ without / 0.16 + torch.eye(2, dtype=F64)
    assert exact[1, 1] < 0.7 * naive[1, 1]  # what errors in x take from the information is not small


def test_several_outputs_share_what_is_known_of_zeta():
    """Against autograd's second derivatives of the Monte Carlo bound, whose zetas are the same for both."""
    seeds = SeedSequence(0).spawn(2)
    stack = NetworkStack(lambda: paper_network(2, 3, 5, n_hidden=1), 2, 3, seeds, CPU, F64)
    posterior = LastLayerLaplace(stack, weight_penalty=0.5)
    zeta, y = torch.randn(2, 7, 4, 2, dtype=F64), torch.randn(2, 7, 3, dtype=F64)
    noise = torch.rand(2, 7, 3, dtype=F64) + 0.5
    with torch.no_grad():
        found = posterior._information(zeta, y, noise, None)
        features, head = posterior._features(zeta), posterior._head()
    for s in range(2):

        def value(flat, s=s):
            f = features[s] @ flat.view(3, 6).T
            terms = torch.distributions.Normal(f, noise[s].unsqueeze(1)).log_prob(y[s].unsqueeze(1)).sum(-1)
            return -terms.logsumexp(-1).sum()

        torch.testing.assert_close(found[s], torch.autograd.functional.hessian(value, head[s].flatten()))


def test_the_epistemic_part_shrinks_as_the_data_grow():
    expected = np.sqrt(np.trace(Linear(400).covariance) / np.trace(Linear(40).covariance))
    ratio = shrinkage("last_layer_laplace", epochs=200)
    assert ratio == pytest.approx(expected, rel=5 * (2 / 2000) ** 0.5)
    assert expected < 0.35


def test_modules_whose_output_is_not_that_of_a_linear_layer_are_refused():
    for build, words in (
        (lambda: nn.Sequential(nn.Linear(2, 1), nn.Tanh()), "not that of its last"),
        (lambda: nn.Sequential(nn.Unflatten(1, (2, 1)), nn.Conv1d(2, 1, 1), nn.Flatten()), r"no nn\.Linear"),
    ):
        with pytest.raises(ValueError, match=words):
            small("last_layer_laplace", build=build)


def test_draws_before_the_end_are_points():
    assert small("last_layer_laplace").draw(streams(), 3) == {}
