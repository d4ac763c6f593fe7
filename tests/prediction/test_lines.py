"""The posterior of zeta given x and y, against closed forms and dense grids."""

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence
from torch import nn

from eiv.inputs import MixturePrior, ZetaMixture, ZetaNormal
from eiv.inputs.zeta import square_root
from eiv.likelihoods import NormalLikelihood
from eiv.networks import NetworkStack
from eiv.posteriors.base import PointPosterior
from eiv.prediction.lines import LineSampler, Observed, moments_given_x
from smallnets import CPU

N_ROWS, N_DRAWS = 12, 500


class Bowl(nn.Module):
    """f = zeta_1^2 + the other features."""

    def __init__(self, n_inputs):
        super().__init__()
        self.scale = nn.Linear(n_inputs, 1, bias=False)

    def forward(self, zeta):
        return self.scale(torch.cat([zeta[..., :1].square(), zeta[..., 1:]], dim=-1))


def of_points(build, n_inputs, n_outputs, y_noise, parameters, pool=None):
    """A sampler of networks with known weights."""
    n_networks = len(next(iter(parameters.values())))
    seeds = SeedSequence(0).spawn(n_networks)
    stack = NetworkStack(build, n_inputs, n_outputs, seeds, CPU, torch.float64)
    for name, value in parameters.items():
        stack.parameters[name].data.copy_(value)
    noise = torch.full((n_networks, n_outputs), y_noise, dtype=torch.float64)
    units = np.full(n_inputs, 0.3), np.full(n_inputs, 2.0)
    return LineSampler(PointPosterior(stack, 1.0), NormalLikelihood(noise), units, 100, seeds, pool)


def found_of(sampler, zeta, y):
    observed = Observed(y, torch.zeros_like(y))
    (kind,) = set(sampler.kinds(zeta, observed).tolist())
    return sampler.sample(zeta, observed, N_DRAWS, kind)


def normal_rows(n, seed=0):
    random = np.random.default_rng(seed)
    root = random.normal(size=(n, n)) / n**0.5
    covariance = torch.tensor(0.1 * (root @ root.T + np.eye(n)))
    mean = torch.tensor(random.normal(size=(N_ROWS, n)))
    one = torch.zeros(N_ROWS, 1, dtype=torch.float64)
    return random, ZetaMixture.of(one, mean.unsqueeze(1), square_root(covariance).expand(1, 1, n, n)), covariance


@pytest.mark.parametrize(("n", "n_y"), [(1, 1), (2, 1), (6, 1), (3, 2), (5, 3)])
@pytest.mark.parametrize("y_noise", [1.0, 0.1, 0.01])
def test_a_plane_with_normal_zeta_against_the_closed_form(n, n_y, y_noise):
    """Cells are a quarter of a standard deviation wide: as steps they add a hundredth to a variance at most.

    K = C W^T (W C W^T + sigma_y^2)^-1, mean m + K (y - W m - b), covariance C - K W C. Where y says nearly all, at
    0.01, the posterior along the line is a hundredth of that given x, and three passes leave cells of half of it.
    """
    random, zeta, covariance = normal_rows(n)
    slopes, start = torch.tensor(random.normal(size=(n_y, n))), torch.tensor(random.normal(size=n_y))
    sampler = of_points(lambda: nn.Linear(n, n_y), n, n_y, y_noise, {"weight": slopes[None], "bias": start[None]})
    slopes, start = slopes / 2.0, start - slopes.sum(1) * 0.15  # in the units of X
    true = zeta.mean + torch.tensor(random.normal(size=(N_ROWS, n))) @ square_root(covariance).T
    y = true @ slopes.T + start + y_noise * torch.tensor(random.normal(size=(N_ROWS, n_y)))
    gain = (
        covariance @ slopes.T @ torch.linalg.inv(slopes @ covariance @ slopes.T + y_noise**2 * torch.eye(n_y).double())
    )
    mean = zeta.mean + (y - zeta.mean @ slopes.T - start) @ gain.T
    expected = covariance - gain @ slopes @ covariance
    std = expected.diagonal().sqrt()

    found = found_of(sampler, zeta, y)
    assert ((found.mean - mean) / std).abs().max() < 0.05
    tolerance = 0.02 if y_noise > 0.01 else 0.1
    assert ((found.covariance - expected) / (std[:, None] * std)).abs().max() < tolerance
    assert found.ess.min() > 0.99 * (1 if n == 1 else 100), "all lines of a straight f have the same weight"
    assert ((found.draws.mean(0) - mean) / std).abs().max() < 4 / N_DRAWS**0.5
    assert (found.draws.std(0) / std - 1).abs().max() < 4 / (2 * N_DRAWS) ** 0.5


def on_a_grid(prior, f, y, y_noise, n):
    """Mean and covariance of zeta in one row by a dense grid."""
    ticks = torch.linspace(-4, 4, 4001 if n == 1 else 801, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(*[ticks] * n, indexing="ij"), dim=-1).reshape(1, -1, n)
    log = prior.log_density(grid) - 0.5 * ((y - f(grid)) / y_noise) ** 2
    weights = log.softmax(-1).T
    mean = (weights * grid[0]).sum(0)
    return mean, (weights * (grid[0] - mean)).T @ (grid[0] - mean)


def bowl(n, y):
    """What is found, and what a grid finds, of a label that zeta_i = 0.3 + sqrt(y) would have."""
    sampler = of_points(lambda: Bowl(n), n, 1, 0.1, {"scale.weight": torch.ones(1, 1, n, dtype=torch.float64)})
    prior = MixturePrior([0.6, 0.4], [[-0.5] * n, [0.7] * n], [[0.3] * n, [0.8] * n])
    zeta = prior.posterior(torch.full((1, n), 0.3, dtype=torch.float64), torch.full((1, n), 0.6, dtype=torch.float64))

    def f(points):
        seen = (points - 0.3) / 2.0
        return seen[..., 0] ** 2 + seen[..., 1:].sum(-1)

    label = f(torch.full((1, n), 0.3 + y**0.5, dtype=torch.float64)).reshape(1, 1)
    return found_of(sampler, zeta, label), *on_a_grid(zeta, f, label, 0.1, n)


@pytest.mark.parametrize("y", [0.2, 1.0, 3.0])
def test_a_bowl_under_a_mixture_has_two_peaks(y):
    """Either root. A twentieth of a standard deviation is the weight of a peak to one or two hundredths."""
    found, mean, covariance = bowl(1, y)
    assert abs(found.mean - mean) < 0.05 * covariance.sqrt()
    assert abs(found.covariance / covariance - 1) < 0.05


@pytest.mark.parametrize("y", [0.05, 0.2, 0.6, 1.0])
def test_a_bent_ridge_within_the_error_that_the_effective_sample_size_states(y):
    """A hundred lines, each with a weight: the mean is off by one standard deviation over sqrt(ess), or two."""
    found, mean, covariance = bowl(2, y)
    std, error = covariance.diagonal().sqrt(), found.ess.item() ** -0.5
    assert found.ess > 10
    assert ((found.mean[0] - mean) / std).abs().max() < 2 * error
    assert ((found.covariance[0] - covariance) / (std[:, None] * std)).abs().max() < 2 * 2**0.5 * error


def test_a_label_far_out_on_a_bent_ridge_has_a_small_effective_sample_size():
    """One in a million true inputs would have such a label; the answer is wrong, and says that it is rough."""
    found, mean, covariance = bowl(2, 3.0)
    assert ((found.mean[0] - mean) / covariance.diagonal().sqrt()).abs().max() > 0.5
    assert found.ess < 5


def test_networks_of_a_pool_count_by_their_shares_and_by_how_well_they_explain_the_label():
    """Two lines through zero with slopes 1 and -1: the one that agrees in sign, nearly alone."""
    weight, bias = torch.tensor([2.0, -2.0]).double().reshape(2, 1, 1), torch.tensor([0.3, -0.3]).double().reshape(2, 1)
    zeta = ZetaNormal(torch.full((1, 1), 0.5).double(), torch.full((1, 1), 0.5).double())
    y_noise, y, shares = 0.5, 0.4, np.array([0.3, 0.7])
    sampler = of_points(lambda: nn.Linear(1, 1), 1, 1, y_noise, {"weight": weight, "bias": bias}, torch.tensor(shares))
    found = found_of(sampler, zeta, torch.full((1, 1), y).double())
    slopes, variance = np.array([1.0, -1.0]), 0.25 + y_noise**2
    evidence = shares * np.exp(-0.5 * (y - slopes * 0.5) ** 2 / variance)
    evidence /= evidence.sum()
    means, within = 0.5 + 0.25 / variance * slopes * (y - slopes * 0.5), 0.25 - 0.25**2 / variance
    mean = evidence @ means
    assert abs(found.mean.item() - mean) < 1e-3
    assert abs(found.covariance.item() - (within + evidence @ (means - mean) ** 2)) < 5e-3
    assert found.ess.item() == pytest.approx(1 / (evidence**2).sum(), rel=1e-3)


def test_without_a_label_the_moments_are_those_of_the_posterior_given_x():
    _, zeta, covariance = normal_rows(3)
    found = moments_given_x(zeta, N_DRAWS, SeedSequence(0).spawn(1))
    torch.testing.assert_close(found.mean, zeta.mean)
    torch.testing.assert_close(found.covariance, covariance.expand(N_ROWS, -1, -1))
    torch.testing.assert_close(found.draws.mean(0), zeta.mean)
    torch.testing.assert_close(found.draws.var(0), covariance.diagonal().expand(N_ROWS, -1))


def test_a_label_that_nothing_explains_leaves_finite_numbers():
    """The nearest that the line gets to it."""
    sampler = of_points(lambda: nn.Linear(1, 1), 1, 1, 1e-3, {"weight": torch.ones(1, 1, 1).double()})
    zeta = ZetaNormal(torch.zeros(1, 1).double(), torch.full((1, 1), 0.1).double())
    found = found_of(sampler, zeta, torch.full((1, 1), 1e6).double())
    assert found.mean.item() == pytest.approx(0.6, abs=0.05)
    assert bool(found.draws.isfinite().all())
