"""The uncertainty budget against closed forms: linear functions, correlated errors, and a curved one."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.random import SeedSequence

from eiv import EiVRegressor, Prediction
from eiv.extras import is_installed
from eiv.inputs import FlatPrior, MixturePrior, ZetaNormal, ZetaPosterior
from eiv.inputs.own import OwnDraws
from eiv.posteriors import PointPosterior
from eiv.prediction.budget import BudgetSampler, matched_noise
from smallnets import small_posterior

SLOPES = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
ERRORS = torch.tensor([0.3, 0.1, 0.0, 0.2], dtype=torch.float64)
FAST = {"hidden_units": 16, "epochs": 3, "n_theta": 10, "random_state": 0, "dtype": "float64", "device": "cpu"}
draws = pytest.mark.skipif(not is_installed("matplotlib"), reason="needs matplotlib")


class Function(PointPosterior):
    """A function in the place of networks: f(zeta), plus whatever theta, a normal number, does to it."""

    def __init__(self, function, n_networks=1, n_inputs=2):
        super().__init__(small_posterior(n_networks, n_inputs, dtype=torch.float64).stack, weight_penalty=1.0)
        self.function = function

    def draw(self, streams, n_draws):
        return {"theta": streams.normal(n_draws)}

    def evaluate(self, draw, zeta):
        return self.function(zeta, draw["theta"][:, :, None])[..., None]


def linear(zeta, theta):
    return zeta @ SLOPES + theta


def shares_of(function, inputs, n_theta=100, n_networks=1, seed=0):
    n_inputs = inputs.mean.shape[-1]
    seeds = SeedSequence(seed).spawn(n_networks)
    return BudgetSampler(Function(function, n_networks, n_inputs), n_inputs, n_theta, 5, seeds).shares(inputs)[:, 0]


@pytest.mark.parametrize(("n_theta", "n_networks"), [(2, 1), (10, 1), (100, 1), (100, 3)])
def test_shares_of_a_linear_function_are_those_of_the_gum(n_theta, n_networks):
    rows = torch.tensor([[1.0], [2.0], [0.1]], dtype=torch.float64)
    errors = torch.where(rows > 1, ERRORS.flip(0), rows * ERRORS)
    found = shares_of(linear, ZetaNormal(torch.randn(3, 4).double(), errors), n_theta, n_networks)
    parts = (SLOPES * errors).square()
    torch.testing.assert_close(found, parts / parts.sum(-1, keepdim=True), rtol=0, atol=1e-12)


@pytest.mark.parametrize("correlation", [0.6, -0.9])
def test_correlated_errors_contribute_alone_and_their_correlation_is_the_remainder(correlation):
    correlations = torch.eye(4, dtype=torch.float64)
    correlations[0, 1] = correlations[1, 0] = -correlation
    correlations[1, 3] = correlations[3, 1] = 0.3
    covariance = ERRORS[:, None] * correlations * ERRORS
    inputs = FlatPrior().posterior(torch.zeros(2, 4, dtype=torch.float64), covariance[None])
    found = shares_of(linear, inputs)
    variance = SLOPES @ covariance @ SLOPES
    torch.testing.assert_close(found, ((SLOPES * ERRORS).square() / variance).expand(2, 4), rtol=0, atol=1e-12)
    terms = 2 * (SLOPES[0] * SLOPES[1] * covariance[0, 1] + SLOPES[1] * SLOPES[3] * covariance[1, 3])
    assert (1 - found.sum(-1)).tolist() == pytest.approx([(terms / variance).item()] * 2)


def test_fifty_correlated_features_leave_no_error_for_a_linear_function():
    random = torch.Generator().manual_seed(0)
    factor, slopes = torch.randn(2, 50, 50, generator=random, dtype=torch.float64)
    covariance = factor @ factor.T / 50
    inputs = FlatPrior().posterior(torch.zeros(1, 50, dtype=torch.float64), covariance[None])
    found = shares_of(lambda zeta, theta: zeta @ slopes[0] + theta, inputs)
    expected = slopes[0].square() * covariance.diagonal() / (slopes[0] @ covariance @ slopes[0])
    torch.testing.assert_close(found[0], expected, rtol=1e-9, atol=1e-12)


def test_a_mixture_of_independent_components_has_its_moments_in_the_budget():
    """Two components that differ in both features: they are correlated, and their marginals are not normal."""
    prior = MixturePrior([1.0, 2.0], [[-1.0, -1.0], [1.0, 0.5]], [[0.2, 0.3], [0.4, 0.1]])
    x, slopes = torch.tensor([[0.1, -0.2]], dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)
    zeta = prior.posterior(x, torch.tensor([[0.7, 0.9]], dtype=torch.float64))
    weights = zeta.log_weights[0].exp()
    gaps = zeta.means[0] - zeta.mean
    covariance = torch.einsum("c,ci,cj->ij", weights, gaps, gaps) + (weights @ zeta.scales[0].square()).diag()
    parts = slopes.square() * covariance.diagonal() / (slopes @ covariance @ slopes)
    found = torch.stack([shares_of(lambda z, t: z @ slopes + t, zeta, 400, seed=seed)[0] for seed in range(40)])
    # a ratio of variances from 320 degrees of freedom is off by some 1 / 320
    assert ((found.mean(0) - parts).abs() < 4 * found.std(0) / 40**0.5 + 2 / 320).all()
    assert 1 - parts.sum() > 0.05


MEAN, STD = (0.5, 0.3), (0.8, 0.6)


def curved(zeta, theta):
    """z1^2 + z1 z2 on average; theta adds an offset and a slope that average out."""
    return zeta[..., 0].square() + zeta[..., 0] * zeta[..., 1] + theta * (1 + zeta[..., 1])


def curved_shares():
    """With z = m + s e: (2 m1 + m2)^2 s1^2 + 2 s1^4, m1^2 s2^2, and s1^2 s2^2 of both together."""
    (m1, m2), (s1, s2) = MEAN, STD
    parts = np.array([(2 * m1 + m2) ** 2 * s1**2 + 2 * s1**4, m1**2 * s2**2, s1**2 * s2**2])
    return parts / parts.sum()


def errors_of_curved_shares(n_theta, n_seeds):
    inputs = ZetaNormal(*(torch.tensor([values], dtype=torch.float64) for values in (MEAN, STD)))
    found = torch.cat([shares_of(curved, inputs, n_theta, 2, seed) for seed in range(n_seeds)])
    return torch.cat([found, 1 - found.sum(-1, keepdim=True)], dim=-1).numpy() - curved_shares()


def test_shares_of_a_curved_function_are_its_sobol_indices():
    """The mean of 60 budgets within four standard errors, and 2 / (degrees of freedom) for the matched noise.

    The root mean square over 60 budgets is known to 9 %, so the ratio of two such to 13 %; four times that at most.
    """
    few, many = (errors_of_curved_shares(n_theta, n_seeds=60) for n_theta in (400, 6400))
    for errors, freedom in ((few, 320), (many, 5120)):
        assert (np.abs(errors.mean(0)) < 4 * errors.std(0) / 60**0.5 + 2 / freedom).all()
    assert (np.sqrt(np.square(many).mean(0)) < 1.52 / 4 * np.sqrt(np.square(few).mean(0))).all()
    assert np.abs(many.mean(0)).max() < 0.01  # the shares are 0.856, 0.041 and 0.104


def test_matched_noise_has_unit_covariance_within_blocks_and_stays_normal():
    noise = torch.randn(200, 20, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matched = torch.stack([matched_noise(part) for part in noise])
    gaps = matched - matched.mean(2, keepdim=True)
    covariance = torch.einsum("sgli,sglj->sij", gaps, gaps) / 80
    torch.testing.assert_close(covariance, torch.eye(3, dtype=torch.float64).expand(200, 3, 3))
    # the fourth moment of normal numbers is 3; its standard error here is 0.04
    assert matched.pow(4).mean().item() == pytest.approx(3, abs=0.2)


@pytest.fixture
def cube():
    """Forty rows of three features: a pandas table, y, and the error of each row, of every kind."""
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (40, 3))
    errors = np.tile([[0.04, 0.01, 0.0], [0.01, 0.02, 0.0], [0.0, 0.0, 0.01]], (40, 1, 1))
    errors[:10, 0, 1] = errors[:10, 1, 0] = 0.0
    errors[5:10, 1] = 0.0
    errors[8:10] = 0.0
    table = pd.DataFrame(zeta + 0.1 * random.standard_normal((40, 3)), columns=["a", "b", "c"], index=range(100, 140))
    return table, zeta @ [2.0, -1.0, 0.5] + zeta[:, 0] * zeta[:, 1], errors


@pytest.mark.parametrize("prior", ["flat", "normal", "mixture"])
def test_rows_alone_or_together_have_the_same_budget(cube, prior, monkeypatch):
    X, y, errors = cube
    model = EiVRegressor(input_prior=prior, n_networks=2, **FAST, recipe="paper").fit(X, y, X_err=errors)
    together = model.predict_distribution(X, X_err=errors, budget=True).budget()
    alone = [model.predict_distribution(X[i : i + 1], X_err=errors[[i]], budget=True).budget() for i in range(0, 40, 4)]
    np.testing.assert_allclose(pd.concat(alone), together[::4], rtol=1e-6, atol=1e-9)
    monkeypatch.setattr("eiv.engine.memory.DRAWS", {"cpu": 500})
    chunked = model.predict_distribution(X, X_err=errors, budget=True).budget()
    np.testing.assert_allclose(chunked, together, rtol=1e-6, atol=1e-9)


def test_a_budget_adds_up_to_one(cube):
    X, y, errors = cube
    model = EiVRegressor(**(FAST | {"epochs": 60}), recipe="paper").fit(X, y, X_err=errors)
    p = model.predict_distribution(X, X_err=errors, budget=True)
    budget = p.budget()
    assert list(budget) == ["a", "b", "c", "remainder"]
    assert list(budget.index) == list(range(100, 140))
    with_errors = budget.drop(index=[108, 109])
    np.testing.assert_allclose(with_errors.sum(axis=1), 1, rtol=0, atol=1e-15)
    independent = budget[:8]
    assert ((independent > -1e-12) & (independent < 1 + 1e-12)).all(axis=None)
    assert (budget.loc[105:107, "b"] == 0).all()
    assert budget.loc[[108, 109]].isna().all(axis=None)
    pd.testing.assert_frame_equal(p[3:7].budget(), budget[3:7])
    assert (model.predict_distribution(X, X_err=0, budget=True).budget().isna()).all(axis=None)


def test_one_noisy_feature_has_it_all(cube):
    X, y, _ = cube
    model = EiVRegressor([0.0, 0.1, 0.0], **(FAST | {"dtype": "float32"}), recipe="paper").fit(X, y)
    np.testing.assert_allclose(model.predict_distribution(X, budget=True).budget(), [[0, 1, 0, 0]] * 40, atol=1e-5)


def test_a_budget_leaves_the_prediction_as_it_was(cube):
    X, y, errors = cube
    model = EiVRegressor(**FAST, recipe="paper").fit(X, y, X_err=errors)
    plain, more = (model.predict_distribution(X, X_err=errors, budget=budget) for budget in (False, True))
    assert np.array_equal(plain.draws, more.draws)
    assert np.array_equal(plain.aleatoric, more.aleatoric)


@draws
def test_several_outputs_stand_side_by_side(cube):
    X, y, _ = cube
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X.to_numpy(), np.stack([y, -2 * y, y**2], axis=1))
    p = model.predict_distribution(X.to_numpy()[:4], budget=True)
    budget = p.budget()
    assert budget["y1"].columns.tolist() == ["x0", "x1", "x2", "remainder"]
    np.testing.assert_allclose(budget.T.groupby(level=0).sum(), 1)
    assert len(p.plot_budget().get_axes()) == 3


@dataclass(frozen=True)
class Folded(ZetaPosterior):
    """Each feature from two numbers, as (e1 + e2) / sqrt(2): a normal posterior behind a draw of the user's."""

    @property
    def n_base(self):
        return 2 * self.mean.shape[-1]

    def draw(self, noise):
        return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * noise.unflatten(-1, (-1, 2)).sum(-1) / 2**0.5


def test_a_posterior_of_the_users_own_may_take_more_numbers_than_features():
    """Of a linear f the shares are those of the GUM; V itself is estimated, as nothing is known of its correlations."""
    zeta = Folded(torch.zeros(3, 4, dtype=torch.float64), ERRORS.expand(3, 4))
    own = OwnDraws.of(zeta, torch.zeros(4).double(), torch.ones(4).double())
    parts = (SLOPES * ERRORS).square()
    found = shares_of(linear, own)
    torch.testing.assert_close(found, (parts / parts.sum()).expand(3, 4), rtol=0, atol=1e-12)


def test_a_fit_with_a_posterior_of_the_users_own_has_a_budget(cube):
    class Prior:
        def posterior(self, x, x_err):
            return Folded(x, x_err.expand_as(x))

    X, y, _ = cube
    settings = FAST | {"epochs": 30, "n_theta": 100, "posterior": "ensemble", "n_networks": 2, "recipe": "paper"}
    own, plain = (EiVRegressor([0.1, 0.2, 0.0], input_prior=prior, **settings).fit(X, y) for prior in (Prior(), "flat"))
    plain.model_ = replace(plain.model_, posterior=own.posterior_)
    found, expected = (model.predict_distribution(X, budget=True).budget() for model in (own, plain))
    assert (found["c"] == 0).all()
    # shares are ratios of variances with 80 degrees of freedom, correlated as both are from the same draws
    assert np.abs(found - expected)[["a", "b"]].median(axis=None) < 0.05


def widths(axes):
    return np.array([bar.get_width() for bar in axes.patches])


@draws
def test_the_chart_draws_every_share_once():
    shares = np.array([[0.5, 0.25], [1.25, 0.5], [np.nan, np.nan]])
    p = Prediction(*np.zeros((4, 3)), index=np.array(["p", "q", "r"]), shares=shares, feature_names=("a", "b"))
    figure = p.plot_budget()
    (axes,) = figure.get_axes()
    np.testing.assert_allclose(widths(axes), [0.5, 1.25, 0, 0.25, 0.5, 0, 0.25, -0.75, 0])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "remainder"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["p", "q", "r"]
    assert [label.get_text() for label in p.plot_budget(np.array([2, 0])).axes[0].get_yticklabels()] == ["r", "p"]


@draws
def test_the_chart_of_many_rows_and_features_shows_the_first_and_the_largest():
    shares = np.tile(np.linspace(0.01, 0.1, 12), (30, 1))
    figure = Prediction(*np.zeros((4, 30)), shares=shares).plot_budget()
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["x5", "x6", "x7", "x8", "x9", "x10", "x11", "5 other features", "remainder"]
    (axes,) = figure.get_axes()
    assert len(axes.get_yticklabels()) == 20
    np.testing.assert_allclose(widths(axes).reshape(9, 20).sum(0), 1)


def test_without_a_budget_the_error_says_how_to_get_one():
    p = Prediction(np.zeros(1), np.ones(1), np.ones(1), np.ones(1))
    for call in (p.budget, p.plot_budget):
        with pytest.raises(ValueError, match="budget=True"):
            call()
