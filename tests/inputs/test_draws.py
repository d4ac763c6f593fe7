"""Ways to integrate over zeta against the closed-form EiV likelihood of a linear network with Gaussian noise."""

import itertools

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence
from torch.distributions import Normal

from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs import ZETA_DRAWS, MixturePrior, ZetaDraws, ZetaNormal
from eiv.likelihoods import NormalLikelihood
from eiv.training.objective import bound
from smallnets import CPU

N_ROWS, SLOPES = 300, torch.tensor([1.5, -0.8], dtype=torch.float64)
RULES = ("gauss_hermite", "interpolated")
X_ERR, Y_NOISE = torch.tensor([0.3, 0.2], dtype=torch.float64), 0.5


def error_of_the_bound(kind, n_zeta, n_noisy=1, seed=0):
    """The median over the rows of the error in log p(y | x), for rows of two features, and the number of zetas."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1, N_ROWS, 2, generator=random, dtype=torch.float64)
    std = torch.where(torch.arange(2) < n_noisy, X_ERR, 0.0).reshape(1, 1, 2)
    spread = (Y_NOISE**2 + (SLOPES * std).square().sum(-1, keepdim=True)).sqrt()
    exact = Normal((x * SLOPES).sum(-1, keepdim=True), spread)
    y = exact.mean + spread * torch.randn(1, N_ROWS, 1, generator=random, dtype=torch.float64)
    posterior = ZetaNormal(x, std)
    draws = ZetaDraws.of(kind, n_zeta, posterior)
    zeta = posterior.draw(draws.base(Streams(SeedSequence(seed).spawn(1), CPU, torch.float64), N_ROWS))
    f = (zeta * SLOPES).sum(-1, keepdim=True)
    likelihood, rule = NormalLikelihood(torch.full((1, 1), Y_NOISE, dtype=torch.float64)), draws.quadrature(f.dtype)
    rows = [bound(likelihood, f[:, [i]], y[:, [i]], None, rule) for i in range(N_ROWS)]
    found = torch.stack(rows).squeeze(1)
    return (found - exact.log_prob(y)[0, :, 0]).abs().median().item(), zeta.shape[2]


@pytest.mark.parametrize(("kind", "n_noisy"), [("sobol", 1), ("stratified", 1), ("gauss_hermite", 1), ("sobol", 2)])
def test_a_tenth_of_the_draws_of_plain_monte_carlo_does(kind, n_noisy):
    reference = np.mean([error_of_the_bound("monte_carlo", 640, n_noisy, seed)[0] for seed in range(3)])
    found = np.mean([error_of_the_bound(kind, 64, n_noisy, seed)[0] for seed in range(3)])
    assert found < reference


def test_gauss_hermite_reaches_the_closed_form():
    errors = [error_of_the_bound("gauss_hermite", n)[0] for n in (2, 4, 8, 16)]
    assert all(b < 0.3 * a for a, b in itertools.pairwise(errors))
    assert errors[-1] < 1e-4
    plane, n_zeta = error_of_the_bound("gauss_hermite", 16, n_noisy=2)
    assert n_zeta == 256
    assert plane < 1e-4


@pytest.mark.parametrize("kind", [kind for kind in ZETA_DRAWS if kind not in RULES])
@pytest.mark.parametrize("n_zeta", [1, 5, 8])
def test_every_draw_alone_is_standard_normal_and_exact_features_have_none(kind, n_zeta, dtype):
    posterior = ZetaNormal(torch.zeros(2, 4, 3, dtype=dtype), torch.tensor([[[0.1, 0.0, 0.2]]], dtype=dtype))
    draws = ZetaDraws.of(kind, n_zeta, posterior)
    noise = draws.base(Streams(SeedSequence(0).spawn(2), CPU, dtype), 20_000)
    assert noise.shape == (2, 20_000, n_zeta, 3)
    assert noise.isfinite().all()
    used = noise[..., [0, 2]]
    assert used.mean((0, 1)).abs().max() < 4 / 40_000**0.5
    assert (used.square().mean((0, 1)) - 1).abs().max() < 4 * (2 / 40_000) ** 0.5
    if kind != "monte_carlo":
        assert (noise[..., 1] == 0).all()
    assert not torch.equal(noise[:, 0], noise[:, 1])


def test_strata_and_pairs():
    posterior = ZetaNormal(torch.zeros(1, 4, 2), torch.full((1, 1, 2), 0.1))
    streams = Streams(SeedSequence(0).spawn(1), CPU)
    slices = (torch.special.ndtr(ZetaDraws.of("stratified", 5, posterior).base(streams, 100)) * 5).floor()
    assert (slices.sort(dim=2).values == torch.arange(5.0).reshape(1, 1, 5, 1)).all()
    slices = (torch.special.ndtr(ZetaDraws.of("sobol", 8, posterior).base(streams, 100)) * 8).floor()
    assert (slices.sort(dim=2).values == torch.arange(8.0).reshape(1, 1, 8, 1)).all()
    pairs = ZetaDraws.of("antithetic", 4, posterior).base(streams, 100)
    assert torch.equal(pairs[:, :, :2], -pairs[:, :, 2:])


def test_quadrature_over_a_mixture_on_a_line():
    """Nodes are quantiles; a mean of zeta, and of its square, to the posterior's own."""
    prior = MixturePrior([0.4, 0.6], [[-0.5], [0.6]], [[0.3], [0.2]])
    zeta = prior.posterior(torch.tensor([[0.1]]).double(), torch.tensor([[0.7]]).double())
    stacked = ZetaDraws.of("gauss_hermite", 40, zeta)
    nodes = zeta.draw(stacked.base(Streams(SeedSequence(0).spawn(1), CPU, torch.float64), 1)[0])[0, :, 0]
    weights = stacked.quadrature(torch.float64).log_weights.exp() / 40
    assert (weights * nodes).sum().item() == pytest.approx(zeta.mean.item(), abs=1e-3)
    second = (weights * nodes.square()).sum().item()
    assert second == pytest.approx((zeta.std.square() + zeta.mean.square()).item(), rel=5e-3)


def test_what_quadrature_cannot_do_is_refused():
    four = ZetaNormal(torch.zeros(1, 2, 4), torch.full((1, 1, 4), 0.1))
    with pytest.raises(ValueError, match=r"zeta_draws='gauss_hermite' takes at most 3 features .* got 4"):
        ZetaDraws.of("gauss_hermite", 5, four)
    prior = MixturePrior([1.0, 1.0], [[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0]] * 2)
    with pytest.raises(ValueError, match="only where one feature has errors"):
        ZetaDraws.of("gauss_hermite", 5, prior.posterior(torch.zeros(1, 2), torch.ones(1, 2)))
    with pytest.raises(ValueError, match=r"zeta_draws='interpolated' takes one feature .* got 4 features"):
        ZetaDraws.of("interpolated", 16, four)


def test_interpolation_reaches_a_likelihood_that_zetas_of_their_own_miss():
    """On a curved f, with sigma_y a twentieth of what the error of x moves f by, against a fine sum."""
    x = torch.linspace(-1, 1, 101, dtype=torch.float64).reshape(1, -1, 1)
    posterior = ZetaNormal(x, torch.full((1, 1, 1), 0.1).double())
    likelihood = NormalLikelihood(torch.full((1, 1), 0.03).double())
    y = torch.sin(6 * (x + 0.07))

    def value(kind, n_zeta):
        draws = ZetaDraws.of(kind, n_zeta, posterior)
        base = draws.base(Streams(SeedSequence(0).spawn(1), CPU, torch.float64), x.shape[1])
        f = torch.sin(6 * posterior.draw(base))
        rule = draws.quadrature(f.dtype)
        rows = [bound(likelihood, f[:, [i]], y[:, [i]], None, rule) for i in range(x.shape[1])]
        return torch.cat(rows)

    exact = value("interpolated", 201)
    assert (value("interpolated", 16) - exact).abs().mean() < 0.1
    for kind in set(ZETA_DRAWS) - {"interpolated"}:
        assert (value(kind, 16) - exact).abs().mean() > 0.3


@pytest.mark.parametrize("between", [None, torch.rand(7, 4)])
def test_gradient_with_weights_is_that_of_autograd(dtype, between):
    f, y = torch.randn(2, 3, 4, 2, dtype=dtype, requires_grad=True), torch.randn(2, 3, 2, dtype=dtype)
    between = None if between is None else between.to(dtype)
    rule = Quadrature(torch.randn(4 if between is None else 7, dtype=dtype), between)
    y_noise = torch.rand(2, 2, dtype=dtype) + 0.2
    likelihood = NormalLikelihood(y_noise)
    value = bound(likelihood, f, y, None, rule)
    value.sum().backward()
    total = torch.zeros(2, dtype=dtype)
    gradient = likelihood.add_loss_gradient(f.detach().clone(), y, None, total, 1.0, rule)
    torch.testing.assert_close(gradient, -f.grad)
    constant = (y_noise.log() + 0.5 * torch.log(torch.tensor(2 * torch.pi, dtype=dtype))).sum(1)
    torch.testing.assert_close(total + constant, -value.detach())
