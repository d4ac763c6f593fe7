import numpy as np
import pytest
import torch
from families import Linear, shrinkage, small, streams, trained, weights_of
from numpy.random import SeedSequence
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence

from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws, ZetaNormal
from eiv.likelihoods import NormalLikelihood
from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import LastLayerLaplace
from smallnets import CPU

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


def test_with_errors_in_x_it_has_the_information_of_the_exact_likelihood():
    """A line under errors in x: y ~ N(w x + b, v) with v = sigma_y^2 + w^2 sigma_x^2, whose information is known."""
    x = torch.tensor(np.random.default_rng(0).uniform(-2, 2, (1, 8000, 1)))
    x_err, likelihood, w = 0.3, NormalLikelihood(torch.tensor([[0.4]], dtype=F64)), 1.5
    seeds = SeedSequence(0).spawn(1)
    posterior = LastLayerLaplace(NetworkStack(lambda: nn.Linear(1, 1), 1, 1, seeds, CPU, F64), weight_penalty=0.5)
    for value, number in zip(posterior.parameters, (w, 0.1), strict=True):
        value.data.fill_(number)
    inputs = ZetaNormal(x, torch.full((1, 1, 1), x_err, dtype=F64))
    slopes = torch.cat([x, torch.ones_like(x)], dim=2)[0]
    variance = 0.16 + (w * x_err) ** 2
    exact = slopes.T @ slopes / variance + torch.eye(2, dtype=F64)
    exact[0, 0] += 8000 * (2 * w * x_err**2) ** 2 / (2 * variance**2)
    for kind, n_zeta in (("gauss_hermite", 40), ("interpolated", 16), ("sobol", 512)):
        draws = ZetaDraws.of(kind, n_zeta, inputs)
        posterior.finish(Rows(inputs, 0 * x), likelihood, draws, Streams(seeds, CPU, F64))
        root = posterior.state["root"][0]
        # 32,000 labels: the squares of their slopes have a relative scatter of sqrt(2 / 32,000) at least.
        torch.testing.assert_close(torch.linalg.inv(root @ root.mT), exact, rtol=0.05, atol=0.01 * exact.max().item())
    naive = slopes.T @ slopes / 0.16 + torch.eye(2, dtype=F64)
    assert exact[1, 1] < 0.7 * naive[1, 1]  # what errors in x take from the information is not small


@pytest.mark.parametrize(("n_features", "x_err"), [(2, 0.2), (4, 0.1)])
def test_drawn_zetas_of_several_features_have_it_too(n_features, x_err):
    """As above with v = sigma_y^2 + sum w_i^2 sigma_x^2, and zetas that are drawn."""
    x = torch.tensor(np.random.default_rng(0).uniform(-1, 1, (1, 2000, n_features)))
    likelihood, seeds = NormalLikelihood(torch.tensor([[0.2]], dtype=F64)), SeedSequence(0).spawn(1)
    stack = NetworkStack(lambda: nn.Linear(n_features, 1), n_features, 1, seeds, CPU, F64)
    posterior = LastLayerLaplace(stack, weight_penalty=0.5)
    for value, number in zip(posterior.parameters, (1.0, 0.1), strict=True):
        value.data.fill_(number)
    inputs = ZetaNormal(x, torch.full((1, 1, n_features), x_err, dtype=F64))
    slopes = torch.cat([x, torch.ones_like(x[..., :1])], dim=2)[0]
    variance = 0.04 + n_features * x_err**2
    of_variance = torch.tensor([2 * x_err**2] * n_features + [0.0], dtype=F64)  # its slopes
    exact = slopes.T @ slopes / variance + torch.eye(n_features + 1, dtype=F64)
    exact += 2000 * torch.outer(of_variance, of_variance) / (2 * variance**2)
    rows, draws = Rows(inputs, 0 * x[..., :1]), ZetaDraws.of("informed", 32, inputs)
    posterior.finish(rows, likelihood, draws, Streams(seeds, CPU, F64))
    found = posterior.state["root"][0].square().sum(0).sqrt()
    expected = torch.linalg.inv(exact).diagonal().sqrt()
    # 8,000 labels tell a standard deviation to sqrt(1 / 16,000); 256 zetas leave a bias of some per cent.
    torch.testing.assert_close(found, expected, rtol=0.06, atol=0)


@pytest.mark.parametrize("between", [None, torch.rand(9, 4, dtype=F64)])
def test_slopes_are_those_of_autograd(between):
    """Of the bound, for several outputs, which share what is known of zeta."""
    seeds = SeedSequence(0).spawn(2)
    stack = NetworkStack(lambda: paper_network(2, 3, 5, n_hidden=1), 2, 3, seeds, CPU, F64)
    posterior = LastLayerLaplace(stack, weight_penalty=0.5)
    zeta, y = torch.randn(2, 7, 4, 2, dtype=F64), torch.randn(2, 7, 3, dtype=F64)
    likelihood, y_err = NormalLikelihood(torch.rand(2, 3, dtype=F64) + 0.3), torch.rand(2, 7, 3, dtype=F64)
    noise, rule = likelihood.noise(y_err), Quadrature(torch.randn(9 if between is not None else 4), between)
    with torch.no_grad():
        features, head = posterior._features(zeta), posterior._head()
        found = posterior._scores(features, y, likelihood, y_err, rule)
    for s, i in ((0, 0), (1, 6)):

        def value(flat, s=s, i=i):
            f = rule.points(features.last[s, i] @ flat.view(3, 6).T)
            terms = torch.distributions.Normal(f, noise[s, i]).log_prob(y[s, i]).sum(-1)
            return (terms + rule.log_weights).logsumexp(-1)

        torch.testing.assert_close(found[s, i], torch.autograd.functional.jacobian(value, head[s].flatten()))


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
