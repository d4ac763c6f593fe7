"""What a pool of kernels is made of: rough and smooth ones, waves that errors wash out, priors from halves of rows."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import multivariate_normal
from torch.func import functional_call

from eiv import EiVRegressor, MixturePrior
from eiv.engine.streams import network_seeds
from eiv.experiments.studies.random_problems import random_problem
from eiv.inputs import LearnedPrior, Rows, ZetaNormal
from eiv.networks import CosineNetwork, NetworkStack
from eiv.posteriors import LastLayerLaplace
from eiv.training.evidence import MEMBERS, fit_by_evidence
from eiv.training.evidence import explanations as module
from eiv.training.evidence.explanations import explanations
from eiv.training.evidence.features import ROUGH, Family, Inputs
from eiv.training.evidence.search import evidence_of_means, rougher, search, washed_out
from eiv.training.evidence.solution import Labels, log_density, solve

F64 = torch.float64


def problem(g, n_rows, x_std, y_noise, n_columns=1):
    """Normal zetas, inputs known to `x_std` with the right prior, labels standardised."""
    random = torch.Generator().manual_seed(0)
    zeta, error = torch.randn(2, n_rows, n_columns, generator=random, dtype=F64)
    share = 1 / (1 + x_std**2)
    inputs = ZetaNormal(share * (zeta + x_std * error), torch.full_like(zeta, share**0.5 * x_std))
    y = g(zeta.sum(1, keepdim=True) / n_columns**0.5)
    y = y + y_noise * torch.randn(n_rows, 1, generator=random, dtype=F64)
    y = (y - y.mean()) / y.std()
    return Inputs(inputs), Labels(y, torch.zeros_like(y))


def walk(zeta):
    """A path of Brownian motion, nowhere smooth."""
    steps = torch.randn(4001, generator=torch.Generator().manual_seed(5), dtype=F64)
    return steps.cumsum(0)[((zeta + 4) * 500).long().clamp(0, 4000)] / 1000**0.5


def found(inputs, labels):
    return search(inputs, labels, Family(inputs.zeta.mean.shape[1], 1, 0, 96, seed=0), None, lambda *_: None)


def test_the_density_of_other_labels_is_that_given_the_known_ones():
    """With exact inputs labels are normal together: each new one, given the others, by the covariance of all."""
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 2, generator=random, dtype=F64), torch.randn(20, 1, generator=random, dtype=F64)
    family = Family(2, 1, 1, 16, seed=0)
    values = family.values(0.3 * torch.randn(family.n_values, generator=random, dtype=F64))
    draws, zeta = family.draws(y), Inputs(ZetaNormal(x, torch.zeros_like(x)))
    labels, known, other = Labels(y, torch.full_like(y, 0.1)), torch.arange(12), torch.arange(12, 20)
    solution = solve(family, values, draws, zeta.take(known), labels.take(known))
    densities = log_density(family, values, draws, zeta.take(other), labels.take(other), solution)
    means = family.means(zeta, values, draws)
    together = (means @ means.T + ((2 * values.log_noise).exp() + 0.1) * torch.eye(20, dtype=F64)).numpy()
    of_known = multivariate_normal(cov=together[:12, :12]).logpdf(y[:12, 0])
    for row, density in zip(other.tolist(), densities.tolist(), strict=True):
        rows = [*known.tolist(), row]
        both = multivariate_normal(cov=together[np.ix_(rows, rows)]).logpdf(y[rows, 0])
        assert density == pytest.approx(both - of_known)


def test_shares_count_that_other_rows_would_have_given_other_sums():
    """The sum of differences is nearly normal, so that the share is the mean of a logistic curve over a normal law."""
    differences = np.random.default_rng(1).normal(0.01, 0.3, 400)
    total, scatter = differences.sum(), differences.std() * 20
    nodes, weights = np.polynomial.hermite_e.hermegauss(99)
    wanted = weights @ expit(total + scatter * nodes) / weights.sum()
    shares = module._shares(np.stack([differences, np.zeros(400)]))
    assert shares.sum() == pytest.approx(1)
    assert shares[0] == pytest.approx(wanted, abs=3 * 0.5 / 1000**0.5)
    assert abs(shares[0] - expit(total)) > 0.05  # a softmax of the sums would be surer than it may be


@pytest.mark.parametrize(
    ("shares", "pairs"), [([0.5, 0.3, 0.2], [2, 1, 1]), ([0.9, 0.1], [4, 0]), ([0.75, 0.25], [3, 1])]
)
def test_pairs_go_by_shares(shares, pairs):
    assert module._given_out(np.array(shares), 4).tolist() == pairs


@pytest.mark.slow
def test_a_rough_curve_asks_for_a_rough_kernel_and_a_smooth_one_does_not():
    shares = []
    for g in (walk, torch.sin):
        inputs, labels = problem(g, 150, 0.02, 0.05)
        best = found(inputs, labels)
        gain = rougher(best, inputs, labels, None).evidence - best.evidence
        assert gain > 1 if g is walk else gain < -5
        parts = explanations(best, inputs, labels, None, 4)
        assert sum(part.share for part in parts) == pytest.approx(1)
        assert sum(part.n_pairs for part in parts) == 4
        shares.append(sum(part.share for part in parts if part.found.family.tails == ROUGH))
    assert shares[0] > shares[1]


def test_waves_that_errors_wash_out_are_not_taken_for_noise_alone():
    """Of sin 4 zeta along one of four directions nothing is left in the mean of labels: it may be noise or waves."""
    inputs, labels = problem(lambda zeta: torch.sin(4 * zeta), 200, 0.9, 0.05, n_columns=4)
    best = found(inputs, labels)
    assert best.family.values(best.flat).log_noise.exp() > 0.9
    waves = washed_out(best, inputs, labels, None)
    assert waves.family.values(waves.flat).log_noise.exp() < 0.3
    assert abs(evidence_of_means(waves, inputs, labels) - evidence_of_means(best, inputs, labels)) < 1
    assert waves.evidence < best.evidence - 10  # the variance of labels was used to find such waves
    *others, last = explanations(best, inputs, labels, None, 4)
    assert others
    assert 0.2 < last.share <= 0.5 + 1e-9
    assert washed_out(best, inputs, labels, torch.tensor([0.9], dtype=F64)) is None  # sigma_y is known


def test_where_errors_explain_the_scatter_no_waves_are_looked_for():
    line = problem(lambda zeta: zeta, 120, 0.7, 0.05)
    assert washed_out(found(*line), *line, None) is None


def test_what_is_washed_out_is_covered():
    """Waves along one of four directions in 126 rows: f at exact inputs is no constant that would be sure of itself."""
    problem = random_problem(3)
    train, test = problem.draw(problem.n_rows, "training"), problem.draw(500, "test")
    model = EiVRegressor(network="cosine", x_err_factor=1.0, random_state=0).fit(train.X, train.y, X_err=train.X_err)
    p = model.predict_distribution(test.zeta, X_err=0.0)
    assert np.mean(np.abs(test.truth - p.mean) < 1.96 * p.epistemic) > 0.5  # the best kernel alone: 0.23
    assert np.ptp(model.model_.weights) > 0


def test_priors_of_halves_scatter_as_the_prior_does_about_the_truth():
    """One component: the mean of n rows has a variance of (V + S) / n, a variance one of 2 (V + S)^2 / n."""
    random = torch.Generator().manual_seed(1)
    x = torch.randn(1000, 1, generator=random, dtype=F64) * 1.25**0.5
    learned, errors = LearnedPrior(max_components=1), torch.tensor([[0.5]], dtype=F64)
    prior = learned.fit(x, errors)
    halves = learned.halves(prior, x, errors, 200)
    means = np.array([half.means[0, 0] for half in halves]) - prior.means[0, 0]
    variances = np.array([half.covariances[0, 0] for half in halves]) - prior.covariances[0, 0]
    total = prior.covariances[0, 0] + 0.25
    assert means.std() == pytest.approx((total / 1000) ** 0.5, rel=0.15)  # 200 halves: 5 %
    assert variances.std() == pytest.approx(total * (2 / 1000) ** 0.5, rel=0.15)
    assert np.abs(means[::2] + means[1::2]).max() < 1e-3 * means.std()  # what one half has more, the other has less


def test_a_prior_for_other_errors_begins_at_that_of_the_stated_ones():
    """One component: the variance of x less that of the errors, wherever it begins; it keeps the number of them."""
    x = torch.randn(1000, 1, generator=torch.Generator().manual_seed(2), dtype=F64) * 1.25**0.5
    learned, errors = LearnedPrior(max_components=1), torch.tensor([[0.5]], dtype=F64)
    other = learned.near(learned.fit(x, errors), x, errors / 2)
    assert other.covariances.item() == pytest.approx(x.var().item() - 0.0625, rel=1e-2)  # as in test_learned.py
    pair = MixturePrior([0.5, 0.5], [[-1.0], [1.0]], [[1.0], [1.0]])
    assert len(learned.near(pair, x, errors).weights) == 2


def test_priors_of_halves_keep_their_form():
    random = torch.Generator().manual_seed(1)
    x = torch.cat([torch.randn(50, 2, generator=random, dtype=F64) + 3 * side for side in (-1, 1)])
    x = torch.cat([x, x[:, :1] + 0.6 * torch.randn(100, 1, generator=random, dtype=F64)], 1)
    errors = 0.2 + 0.2 * torch.rand(100, 3, generator=random, dtype=F64)
    learned = LearnedPrior(max_components=2)
    for stds in (errors, errors.square().diag_embed()):
        prior = learned.fit(x, stds)
        for half in learned.halves(prior, x, stds, 4):
            assert np.shape(half.covariances) == np.shape(prior.covariances)
            middle, other = (np.average(each.means, axis=0, weights=each.weights) for each in (prior, half))
            np.testing.assert_allclose(middle, other, atol=4 * 3.2 / 50**0.5)  # four standard errors of a half
    constant = torch.cat([x, torch.ones(100, 1, dtype=F64)], 1)
    errors = torch.cat([errors, torch.ones(100, 1, dtype=F64)], 1)
    halves = learned.halves(learned.fit(constant, errors), constant, errors, 2)
    varying = learned.halves(learned.fit(x, errors[:, :3]), x, errors[:, :3], 2)
    for half, other in zip(halves, varying, strict=True):  # a constant column changes nothing
        np.testing.assert_allclose(half.means[:, :3], other.means)
        np.testing.assert_allclose(half.means[:, 3], 1)


def test_each_network_of_a_pool_has_the_prior_of_one_half():
    """A line: with a prior of twice the variance, errors explain less, and the slope comes out smaller."""
    random = torch.Generator().manual_seed(0)
    zeta, error, noise = torch.randn(3, 100, 1, generator=random, dtype=F64)
    priors = [MixturePrior([1.0], [[0.0]], [[variance]]) for variance in (1.0, *(0.7, 1.4) * 4)]
    zetas = [prior.posterior(zeta + error, torch.ones(1, 1, dtype=F64)) for prior in priors]
    stack = NetworkStack(partial(CosineNetwork, 1, 1, 16), 1, 1, network_seeds(0, MEMBERS), torch.device("cpu"), F64)
    rows = Rows(zetas[0], zeta + 0.1 * noise)
    fitted = fit_by_evidence(LastLayerLaplace(stack, 1.0), rows, 0, None, lambda *_: None, zetas[1:])
    ends, found = torch.tensor([[-1.0], [1.0]], dtype=F64), fitted.posterior.stack.parameters
    networks = [{name: value[i] for name, value in found.items()} for i in range(MEMBERS)]
    slopes = [float(functional_call(CosineNetwork(1, 1, 16), each, ends).diff(dim=0)) / 2 for each in networks]
    assert min(slopes[::2]) > max(slopes[1::2])
