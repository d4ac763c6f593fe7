"""Networks that count by their shares: moments, draws, budget and noise of a prediction."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence

from eiv import EiVRegressor
from eiv.inputs import ZetaNormal
from eiv.posteriors import PointPosterior, ThetaVariance
from eiv.prediction.budget import BudgetSampler
from eiv.prediction.decomposition import conditional_moments, literal_moments, unbiased_moments
from eiv.prediction.matching import by_share
from eiv.prediction.sampling import BlockSampler, LiteralSampler
from smallnets import small_posterior

N = 4000  # small predictions
POOL = torch.tensor([0.9, 0.1], dtype=torch.float64)
SEEDS = SeedSequence(0).spawn(2)


@pytest.mark.parametrize("n_zeta", [1, 3])
def test_both_parts_and_the_mean_are_unbiased(n_zeta):
    """f = mu + a_theta + slope * zeta + c_(theta, zeta), all of which differ between the networks.

    Means of 4,000 estimates within four standard errors of the closed form.
    """
    random = torch.Generator().manual_seed(0)

    def of_network(first, second):
        return torch.tensor([first, second], dtype=torch.float64)[:, None, None, None, None]

    def normal(*shape):
        return torch.randn(*shape, N, generator=random, dtype=torch.float64)

    means, slopes, of_theta, of_both = of_network(0, 2), of_network(1, 4), of_network(0.5, 1.5), of_network(1.0, 0.2)
    zeta = 0.7 * normal(1, 2, 1, n_zeta) * (n_zeta > 1)
    both = of_both * normal(2, 2, 3, n_zeta) * (n_zeta > 1)
    found = unbiased_moments(means + of_theta * normal(2, 2, 3, 1) + slopes * zeta + both, POOL)
    within, between, aleatoric = 0.9 * 0.25 + 0.1 * 2.25, 0.09 * 2**2, 0.0
    if n_zeta > 1:
        within += 0.9 * 1.0 + 0.1 * 0.04
        between += 0.09 * 3**2 * 0.49
        aleatoric = (0.9 * 1 + 0.1 * 4) ** 2 * 0.49
    for values, truth in ((found.mean, 0.2), (found.epistemic, within + between), (found.aleatoric, aleatoric)):
        assert abs(values.mean() - truth) <= 4 * values.std() / N**0.5


def test_known_means_and_variances():
    """Two networks, two nodes with weights 1/4 and 3/4: by hand."""
    mean = torch.tensor([[1.0, 3.0], [11.0, 3.0]], dtype=torch.float64).view(2, 2, 1, 1)
    variance = torch.tensor([2.0, 7.0], dtype=torch.float64).view(2, 1, 1, 1)
    nodes = torch.tensor([[0.25], [0.75]], dtype=torch.float64)
    found = conditional_moments(mean, variance, nodes, torch.ones(1, 1, dtype=torch.float64), POOL)
    centres = 0.9 * 1 + 0.1 * 11, 3.0
    centre = 0.25 * centres[0] + 0.75 * centres[1]
    assert found.mean.item() == pytest.approx(centre)
    assert found.epistemic.item() == pytest.approx(0.9 * 2 + 0.1 * 7 + 0.25 * 0.09 * 10**2)
    assert found.aleatoric.item() == pytest.approx(0.25 * (centres[0] - centre) ** 2 + 0.75 * (3.0 - centre) ** 2)


def test_literal_moments_of_weights_and_of_draws_that_stand_there_several_times():
    f = torch.randn(3, 5, 7, dtype=torch.float64)
    weights = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    found, repeated = literal_moments(f, weights), literal_moments(f[[0, 0, 1, 2]])
    torch.testing.assert_close(found.mean, repeated.mean)
    corrections = (1 - (0.25 + 2 * 0.0625) / 5) * 20 / 19
    torch.testing.assert_close(found.epistemic * corrections, repeated.epistemic)
    torch.testing.assert_close(found.aleatoric * corrections, repeated.aleatoric)


def test_the_literal_variance_of_independent_draws_is_unbiased():
    f = 3 * torch.randn(4, 1, 20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = literal_moments(f, torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64)).variance
    assert abs(found.mean() - 9) < 4 * found.std() / 20_000**0.5


def test_a_network_has_its_share_of_the_draws_and_none_of_them_comes_first():
    """0.7 of 2 x 10 draws: four of ten once, the others twice; 0.3 of them: six of ten. Which ones, chance decides."""
    random, pool = torch.Generator().manual_seed(0), torch.tensor([0.7, 0.3], dtype=torch.float64)
    orders = torch.rand(2000, 2, 10, generator=random).argsort(2)
    counts = torch.stack([torch.bincount(by_share(pool, own), minlength=20) for own in orders]).double()
    assert (counts[:, :10].sum(1) == 14).all()
    assert set(counts[:, :10].unique().tolist()) == {1.0, 2.0}
    assert set(counts[:, 10:].unique().tolist()) == {0.0, 1.0}
    expected = torch.tensor([1.4, 0.6], dtype=torch.float64).repeat_interleave(10)
    assert ((counts.mean(0) - expected).abs() < 4 * (0.4 * 0.6 / 2000) ** 0.5).all()


class Apart(PointPosterior):
    """f = mu_s + slope_s * sum of zeta + theta: the networks' values lie so far apart that each draw shows its own."""

    means, slopes = (torch.tensor(v, dtype=torch.float64)[:, None, None, None] for v in ((0.0, 1000.0), (1.0, 3.0)))

    def draw(self, streams, n_draws):
        return {"theta": streams.normal(n_draws)}

    def evaluate(self, draw, zeta):
        return self.means + self.slopes * zeta.sum(-1, keepdim=True) + draw["theta"][:, :, None, None]


class ApartInClosedForm(Apart):
    """The same, with mean and variance over theta known."""

    in_closed_form = True

    def mean(self, zeta):
        return self.means[:, 0] + self.slopes[:, 0] * zeta.sum(-1, keepdim=True)

    def theta_variance(self, zeta, draw=None):
        variance = torch.ones_like(zeta[..., :1])
        moves = None if draw is None else draw["theta"][:, :, None, None].expand(-1, -1, zeta.shape[1], -1)
        return ThetaVariance(variance, moves)


def rows(n_inputs=1):
    errors = torch.tensor([[0.2, 0.5]], dtype=torch.float64)[:, :n_inputs]
    return ZetaNormal(torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None].expand(-1, n_inputs), errors)


@pytest.mark.parametrize(
    ("kind", "family"),
    [(BlockSampler, Apart), (BlockSampler, ApartInClosedForm), (LiteralSampler, Apart)],
    ids=["blocks", "closed form", "literal"],
)
class TestSamplers:
    def sampled(self, kind, family, pool):
        posterior = family(small_posterior(2, dtype=torch.float64).stack, 1.0)
        return kind(posterior, 1, 100, 5, SEEDS, pool).sample(rows(), True)

    def test_moments_against_the_closed_form(self, kind, family):
        """Mean, and u squared of f, within 2 %: the networks lie far apart, which no draw misses.

        The interaction of networks and zeta is small beside that.
        """
        moments = self.sampled(kind, family, POOL).moments
        x = rows().mean
        torch.testing.assert_close(moments.mean, 0.9 * x + 0.1 * (1000 + 3 * x), rtol=0, atol=0.5)
        torch.testing.assert_close(moments.variance, 0.09 * (1000 + 2 * x) ** 2, rtol=0.02, atol=0)

    def test_draws_are_shared_out(self, kind, family):
        found = self.sampled(kind, family, POOL)
        assert found.draws.shape == (1000, 6, 1)
        assert ((found.draws > 500).sum(0) == 100).all()
        # Draws are matched to the moments, but for the literal ones: 900 and 100 of them, chosen of 500 each.
        chance = 4 * (0.9 * 1.04**0.5 / 500**0.5 + 0.1 * 1.36**0.5 / 100**0.5)
        atol = chance if kind is LiteralSampler else 1e-9
        torch.testing.assert_close(found.draws.mean(0), found.moments.mean, rtol=0, atol=atol)

    def test_draws_of_the_lesser_network_keep_their_distribution(self, kind, family):
        """100 of 500 draws, in which zeta and theta both vary: their variance is 1 + 9 * 0.04."""
        chosen = self.sampled(kind, family, POOL).draws[:, 0, 0]
        lesser = chosen[chosen > 500]
        assert len(lesser.unique()) == 100
        assert lesser.std().item() == pytest.approx(1.36**0.5, rel=4 / (2 * 100) ** 0.5)

    def test_rows_predicted_alone_or_together_give_the_same_numbers(self, kind, family):
        if kind is LiteralSampler:
            pytest.skip("its numbers for a row depend on the rows before it")
        posterior = family(small_posterior(2, dtype=torch.float64).stack, 1.0)
        alone = kind(posterior, 1, 100, 5, SEEDS, POOL).sample(rows().rows(2, 3), True)
        torch.testing.assert_close(alone.draws, self.sampled(kind, family, POOL).draws[:, 2:3])


def test_the_budget_is_that_of_the_pooled_function():
    """Slopes (1, 0) and (0, 10) with shares 0.9 and 0.1: 0.9 and 1 for the mean over theta, errors 0.2 and 0.5."""

    class Crossed(Apart):
        def evaluate(self, draw, zeta):
            slopes = torch.tensor([[1.0, 0.0], [0.0, 10.0]], dtype=torch.float64)
            return torch.einsum("si,sdri->sdr", slopes, zeta)[..., None] + draw["theta"][:, :, None, None]

    posterior = Crossed(small_posterior(2, n_inputs=2, dtype=torch.float64).stack, 1.0)
    found = BudgetSampler(posterior, 2, 100, 5, SEEDS, POOL).shares(rows(2))
    parts = torch.tensor([(0.9 * 0.2) ** 2, (1.0 * 0.5) ** 2], dtype=torch.float64)
    torch.testing.assert_close(found[:, 0], (parts / parts.sum()).expand(6, 2), rtol=0, atol=1e-9)


FAMILIES = ["bernoulli_dropout", "linearised_laplace", "ensemble"]
PARTS = ("mean", "epistemic", "aleatoric", "noise", "shares")


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    """Two networks of some family, fitted to rows with two noisy features."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (60, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * random.standard_normal(60)
    return EiVRegressor(
        [0.1, 0.2], posterior=request.param, hidden_units=8, n_hidden=2, epochs=5, n_networks=2, n_theta=20,
        random_state=0, dtype="float64", recipe="paper",
    ).fit(X, y).model_  # fmt: skip


X_NEW = np.linspace(-1, 1, 10).reshape(5, 2)


def predicted(model, weights, errors=(0.1, 0.2), **options):
    pooled = replace(model, weights=np.array(weights, dtype=float))
    return pooled.predict(X_NEW, np.array([errors]), **options)


def alone(model, network):
    """The model of one of the networks, which has the first one's seed."""
    return replace(
        model,
        posterior=model.posterior.split([1, 1])[network],
        likelihood=model.likelihood.networks(slice(network, network + 1)),
        weights=np.ones(1),
    )


@pytest.mark.parametrize("method", ["unbiased", "literal"])
def test_a_share_of_one_is_the_network_alone(model, method):
    budget = method == "unbiased"
    found = predicted(model, (1, 0), method=method, budget=budget)
    first = predicted(alone(model, 0), (1,), method=method, budget=budget)
    equal = predicted(model, (0.5, 0.5), method=method, budget=budget)
    for part in PARTS[: 5 if budget else 4]:
        np.testing.assert_allclose(getattr(found, part), getattr(first, part), rtol=1e-9, atol=1e-12)
        assert not np.isclose(getattr(equal, part), getattr(first, part)).all(), part
    levels = [0.05, 0.4, 0.95]
    for of in ("function", "label"):
        np.testing.assert_allclose(found.quantile(levels, of=of), first.quantile(levels, of=of), rtol=1e-9, atol=1e-9)


def test_shares_of_nine_and_one_tenth_against_the_networks_alone(model):
    """At exact inputs. Means are weighted means; so are variances, and the variance between the means comes on top.

    Where theta is drawn, that variance is found in each of four blocks of five thetas, less its Monte Carlo error e =
    0.09 (v_1 + v_2) / 5. Their mean is off by the variance of four differences, which has a standard deviation of
    sqrt(2 / 4) e, and by e / 4.
    """
    one, two, both = (predicted(model, weights, (0.0, 0.0)) for weights in ((1, 0), (0, 1), (0.9, 0.1)))
    np.testing.assert_allclose(both.mean, 0.9 * one.mean + 0.1 * two.mean)
    np.testing.assert_allclose(both.noise**2, 0.9 * one.noise**2 + 0.1 * two.noise**2)
    within, between = 0.9 * one.epistemic**2 + 0.1 * two.epistemic**2, 0.09 * (one.mean - two.mean) ** 2
    if model.posterior.in_closed_form:
        np.testing.assert_allclose(both.epistemic**2, within + between)
    else:
        error = 0.09 * (one.epistemic**2 + two.epistemic**2) / 5
        assert (np.abs(both.epistemic**2 - within - between) < (4 * 0.5**0.5 + 0.25) * error).all()


def test_the_noise_of_labels_is_that_of_the_pool(model):
    one, two, both = (predicted(model, weights) for weights in ((1, 0), (0, 1), (0.9, 0.1)))
    np.testing.assert_allclose(both.noise**2, 0.9 * one.noise**2 + 0.1 * two.noise**2)
    np.testing.assert_allclose(replace(model, weights=np.array([0.9, 0.1])).y_noise, both.noise[0])


@pytest.mark.parametrize("weights", [[1.0], [0.5, 0.6], [1.5, -0.5], [0.5, np.nan], [[0.5, 0.5]]])
def test_weights_that_are_no_shares_are_refused(model, weights):
    with pytest.raises(ValueError, match="weights must"):
        predicted(model, weights)
