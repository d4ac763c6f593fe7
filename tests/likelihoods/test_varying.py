"""Noise that varies with the true input: density, decision, labels, and fits against maximum likelihood."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from numpy.random import SeedSequence
from scipy import optimize, stats
from sklearn.base import clone
from torch import nn

from eiv import EiVRegressor
from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaNormal
from eiv.likelihoods import NOISE_RULES, VaryingLabels, VaryingLikelihood
from eiv.likelihoods.base import OtherOutputs
from eiv.likelihoods.noise import Outputs
from eiv.networks import NetworkStack
from eiv.posteriors import PointPosterior
from eiv.training import Schedule, train
from eiv.training.choosing import Spec, fit_models
from eiv.training.objective import bound
from smallnets import CPU

F64, S, N_ROWS, N_ZETA, N_Y = torch.float64, 2, 5, 6, 2
errors = pytest.mark.parametrize("known", [False, True], ids=["", "y_err"])


def numbers(known):
    """A likelihood whose heads are open by different shares, outputs of networks, y and known errors."""
    random = torch.Generator().manual_seed(0)
    started = VaryingLikelihood.start(0.5 + torch.rand(S, N_Y, generator=random, dtype=F64), NOISE_RULES["likelihood"])
    started.share.copy_(torch.tensor([[1.0], [0.3]]))
    f = torch.randn(S, N_ROWS, N_ZETA, 2 * N_Y, generator=random, dtype=F64)
    y = torch.randn(S, N_ROWS, N_Y, generator=random, dtype=F64)
    return started, f, y, torch.rand(S, N_ROWS, N_Y, generator=random, dtype=F64) if known else None


@errors
def test_the_density_is_normal_with_the_noise_of_each_zeta(known):
    likelihood, f, y, y_err = numbers(known)
    sigma = likelihood.y_noise[:, None, None] * (likelihood.share[:, None, None] * f[..., N_Y:]).exp()
    total = sigma if y_err is None else torch.hypot(sigma, y_err[:, :, None].expand_as(sigma))
    expected = torch.distributions.Normal(f[..., :N_Y], total).log_prob(y[:, :, None]).sum(-1)
    torch.testing.assert_close(likelihood.log_density(f, y, y_err), expected)


@errors
@pytest.mark.parametrize("kind", ["mean", "points"])
def test_gradients_are_those_of_autograd(known, kind):
    likelihood, f, y, y_err = numbers(known)
    needs = f.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(likelihood.log_density(needs, y, y_err).sum(), needs)
    torch.testing.assert_close(likelihood.score(f, y, y_err), expected)
    rule = None
    if kind == "points":
        rule = Quadrature(torch.randn(9, dtype=F64), torch.rand(9, N_ZETA, dtype=F64))
    value, total = -bound(likelihood, needs, y, y_err, rule), torch.zeros(S, dtype=F64)
    (expected,) = torch.autograd.grad(value.sum(), needs)
    torch.testing.assert_close(likelihood.add_loss_gradient(f.clone(), y, y_err, total, 1.0, rule), expected)
    torch.testing.assert_close(total, value.detach())


@errors
def test_the_information_is_the_mean_product_of_scores(known):
    """Over labels that are nodes of a rule, which is exact for a normal density; f and log s do not mix."""
    likelihood, f, _, y_err = numbers(known)
    at = f[:, :, 0]
    nodes, weights = (torch.tensor(values, dtype=F64) for values in hermegauss(9))
    weights = weights / weights.sum()
    found = likelihood.whitened(torch.eye(2 * N_Y, dtype=F64).expand(S, N_ROWS, -1, -1), at, y_err)
    information = torch.zeros(S, N_ROWS, 2 * N_Y, 2 * N_Y, dtype=F64)
    sigma = likelihood.y_noise[:, None] * (likelihood.share[:, None] * at[..., N_Y:]).exp()
    total = sigma if y_err is None else torch.hypot(sigma, y_err)
    for first, of_first in zip(nodes, weights, strict=True):
        for second, of_second in zip(nodes, weights, strict=True):
            y = at[..., :N_Y] + total * torch.stack([first, second])
            score = likelihood.score(at.unsqueeze(2), y, y_err).squeeze(2)
            information += of_first * of_second * score.unsqueeze(-1) * score.unsqueeze(-2)
    torch.testing.assert_close(found.mT @ found, information)


def test_labels_that_are_drawn_scatter_by_the_noise():
    likelihood, f, _, y_err = numbers(known=True)
    many = f[:, :, :1].expand(-1, -1, 40_000, -1)
    drawn = likelihood.draw(many, Streams(SeedSequence(0).spawn(S), CPU, F64), y_err) - many[..., :N_Y]
    sigma = likelihood.y_noise[:, None] * (likelihood.share[:, None] * f[:, :, 0, N_Y:]).exp()
    torch.testing.assert_close(drawn.std(2), torch.hypot(sigma, y_err), rtol=5 * (1 / 80_000) ** 0.5, atol=0)


LABELS = VaryingLabels(np.array([1.0, 2.0]), np.array([0.0, 0.5]), np.exp(np.linspace(-1, 1, 80))[:, None] * [1.0, 2.0])


def test_labels_use_the_noise_of_each_draw():
    draws, levels = np.random.default_rng(0).standard_normal((80, 2)), np.array([0.01, 0.5, 0.95])
    widths = np.hypot(LABELS.of_draws, LABELS.known)
    found = LABELS.quantile(draws, levels)
    np.testing.assert_allclose(stats.norm.cdf(found[:, None], draws, widths).mean(1).T, [levels] * 2, atol=1e-9)
    y = np.array([0.3, -2.0])
    np.testing.assert_allclose(LABELS.log_density(draws, y), np.log(stats.norm.pdf(y, draws, widths).mean(0)))
    np.testing.assert_allclose(LABELS[1:].quantile(draws[:, 1:], levels), found[:, 1:])
    sampled = np.stack([LABELS.sample(0 * draws, np.random.default_rng(i)) for i in range(500)])
    np.testing.assert_allclose(sampled.std(0), widths, rtol=5 * (1 / 1000) ** 0.5)
    other = np.zeros((7, 2))  # not the draws of the prediction: the noise of the row
    np.testing.assert_allclose(LABELS.quantile(other, np.array(0.9)), stats.norm.ppf(0.9, 0, LABELS.std))
    columns = VaryingLabels(np.ones((3, 2)), np.zeros((3, 2)), np.ones((4, 3, 2)))[:, 0]
    assert columns.of_draws.shape == (4, 3)


def test_the_noise_of_a_prediction_is_the_mean_square_over_true_inputs():
    """h normal with mean m and variance v: exp(2 m + 2 v), within the limits of the training rows."""
    likelihood = VaryingLikelihood.start(torch.full((1, 1), 0.5), NOISE_RULES["likelihood"])
    likelihood.share.fill_(1.0)
    likelihood.limits.copy_(torch.tensor([[-2.0, 1.0]]))
    h = 0.2 + 0.3 * np.random.default_rng(0).standard_normal((200_000, 1, 1))
    others = OtherOutputs(np.array([[0.2], [7.0]]), np.array([[0.09], [0.0]]), None)
    found = likelihood.labels_at([others], np.array([10.0]), (2, 1), np.array([[3.0], [0.0]]))
    np.testing.assert_allclose(found.std[0] ** 2, 25 * np.exp(2 * h).mean() + 9, rtol=0.01)
    np.testing.assert_allclose(found.std[1], 5 * np.e)  # no more than any training row has
    assert found.of_draws is None
    drawn = others._replace(draws=np.array([[[0.0], [9.0]]]))
    of_draws = likelihood.labels_at([drawn], np.array([10.0]), (2, 1)).of_draws
    np.testing.assert_allclose(of_draws[0, :, 0], [5.0, 5 * np.e])


class Parabola(nn.Module):
    """f = beta zeta and log sigma = log(a + b zeta^2) / 2."""

    def __init__(self):
        super().__init__()
        self.beta, self.a, self.b = (nn.Parameter(torch.tensor([value])) for value in (0.5, 0.0, 0.0))

    def forward(self, zeta):
        return torch.cat([self.beta * zeta, (self.a.exp() + self.b.exp() * zeta.square()).log() / 2], dim=-1)


def test_line_and_parabola_are_those_of_maximum_likelihood():
    """y = 1.5 zeta + sqrt(0.05 + 0.2 zeta^2) e with an error of x of 0.3, 400 rows, against a sum over 200 nodes.

    Nothing is more probable by more than 0.02 nats of all rows together, which is a fifth of a standard deviation.
    """
    random = np.random.default_rng(3)
    x = random.standard_normal(400)
    zeta = x + 0.3 * random.standard_normal(400)
    y = 1.5 * zeta + np.sqrt(0.05 + 0.2 * zeta**2) * random.standard_normal(400)
    nodes, weights = hermegauss(200)
    at = x[:, None] + 0.3 * nodes

    def negative(values):
        beta, a, b = values[0], *np.exp(values[1:])
        return -np.log(stats.norm.pdf(y[:, None], beta * at, np.sqrt(a + b * at**2)) @ (weights / weights.sum())).sum()

    best = optimize.minimize(negative, [1.5, -3.0, -1.6], method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-6})
    seeds = SeedSequence(0).spawn(1)
    stack = NetworkStack(Parabola, 1, 2, seeds, CPU, F64)
    rows = Rows(ZetaNormal(torch.tensor(x).view(1, -1, 1), torch.full((1, 1, 1), 0.3, dtype=F64)),
                torch.tensor(y).view(1, -1, 1))  # fmt: skip
    schedule = Schedule(epochs=400, batch_size=400, learning_rate=0.03, n_zeta=40, renew_every=10,
                        zeta_draws="gauss_hermite", learning_rate_decay=0.6)  # fmt: skip
    posterior, started = PointPosterior(stack, 0.0), VaryingLikelihood.start(
        torch.ones(1, 1, dtype=F64), NOISE_RULES["likelihood"]
    )  # fmt: skip
    found = train(posterior, rows, started, schedule, seeds).likelihood
    beta, a, b = (value.item() for value in posterior.parameters)
    both = 2 * found.y_noise.log().item()
    assert found.share.item() == 1
    assert negative([beta, a + both, b + both]) < best.fun + 0.02
    np.testing.assert_allclose([beta, *np.exp([a + both, b + both])], [best.x[0], *np.exp(best.x[1:])], rtol=0.05)


FAST = {
    "hidden_units": 32,
    "n_hidden": 2,
    "network": "paper",
    "n_theta": 20,
    "random_state": 0,
    "epochs": 50,
    "y_noise_every": 5,
    "batch_size": 128,
}


def sine(n_rows, growth, seed):
    """Noise that grows by a factor of `growth` from 0.1 over the range of zeta; errors of x of 0.05."""
    random = np.random.default_rng(seed)
    zeta = random.uniform(-1, 1, n_rows)
    noise = 0.1 * growth ** ((zeta + 1) / 2)
    y = np.sin(3 * zeta) + noise * random.standard_normal(n_rows)
    return zeta[:, None] + 0.05 * random.standard_normal((n_rows, 1)), y


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = EiVRegressor(0.05, likelihood="varying", **FAST)
        return {growth: clone(model).fit(*sine(n, growth, 0)) for growth, n in ((4, 2000), (1, 400))}


def test_labels_of_every_quarter_are_covered(fitted):
    """Noise that grows fourfold: 0.93 to 0.97 of the labels of each quarter of x lie in their 95 % interval.

    8,000 labels leave a standard error of 0.005 in each quarter. A constant noise covers 0.99 and 0.88 at the ends.
    """
    model, (X, y) = fitted[4], sine(8_000, 4, 1)
    assert model.model_.likelihood.share.item() == 1
    p = model.predict_distribution(X, keep_draws=False)
    low, high = p.interval(0.95, of="label")
    quarter = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.25, 0.5, 0.75]))
    covered = np.array([((low < y) & (y < high))[quarter == i].mean() for i in range(4)])
    assert ((covered > 0.93) & (covered < 0.97)).all(), covered
    assert "varies from" in model.model_.likelihood.describe(model.model_.y_scaler.scale)


def test_constant_noise_stays_constant_and_the_model_says_so(fitted):
    assert fitted[1].settings_.likelihood == "normal"
    assert "the same everywhere" in fitted[1].model_.record.likelihood_choice
    assert fitted[4].model_.record.likelihood_choice == ""
    assert np.ptp(fitted[1].predict_distribution(sine(9, 1, 2)[0]).noise) == 0


def test_a_file_holds_the_head_and_its_share(fitted, tmp_path):
    model, X = fitted[4], sine(6, 4, 3)[0]
    model.save(tmp_path / "m.eiv")
    p, same = (each.predict_distribution(X) for each in (model, EiVRegressor.load(tmp_path / "m.eiv")))
    for part in ("mean", "epistemic", "aleatoric", "noise"):
        np.testing.assert_array_equal(getattr(same, part), getattr(p, part))
    np.testing.assert_array_equal(same.quantile(0.9, of="label"), p.quantile(0.9, of="label"))
    wrong = model.model_.likelihood.copy()
    wrong.share.fill_(2.0)
    assert "from 0 to 1" in wrong.fault()
    wrong.y_noise.fill_(0.0)
    assert "above zero" in wrong.fault()


def test_the_noise_of_pooled_networks_is_that_of_each_by_its_share(fitted):
    """A network and its copy with twice the noise: noise^2 is the mean of n^2 and 4 n^2, by their shares."""
    one, X = fitted[4].model_, sine(6, 4, 3)[0]
    twice = one.likelihood.with_state(one.likelihood.state | {"y_noise": 2 * one.likelihood.y_noise})
    posterior, likelihood = one.posterior.join([one.posterior]), one.likelihood.join([twice])
    errors = np.full((1, 1), 0.05)
    alone = one.predict(X, errors)
    for weights in ([0.5, 0.5], [0.75, 0.25]):
        pool = replace(one, posterior=posterior, likelihood=likelihood, weights=np.array(weights))
        p = pool.predict(X, errors)
        expected = alone.noise * np.sqrt(weights[0] + 4 * weights[1])
        np.testing.assert_allclose(p.noise, expected, rtol=1e-6)
        spread = p.samples(of="label", random_state=0).std(0) ** 2 - p.draws.std(0) ** 2
        np.testing.assert_allclose(np.sqrt(spread), expected, rtol=0.2)


def judged(ratio, away, n_seen, n_unseen):
    """A head that makes labels of one half of the rows `ratio` times as wide, h = -+ log(ratio) / 2, once judged.

    Labels are normal scores times that, and those of unseen rows times `away` more in one half, less in the other.
    """

    def rows(n, stretched):
        scores = torch.tensor(stats.norm.ppf((np.arange(n // 2) + 0.5) / (n // 2)), dtype=F64).repeat_interleave(2)
        h = np.log(ratio) / 2 * torch.tensor([-1.0, 1.0], dtype=F64).repeat(n // 2)
        y = scores * (h * stretched).exp()
        f = torch.stack([0 * h, h], dim=-1).view(1, n, 1, 2)
        return Outputs(f, y.view(1, n, 1), None, None, n, None)

    likelihood = VaryingLikelihood.start(torch.ones(1, 1, dtype=F64), NOISE_RULES["likelihood"])
    likelihood.share.fill_(1.0)
    seen = rows(n_seen, 1.0)
    likelihood._judge(seen, rows(n_unseen, away) if n_unseen else seen)
    return likelihood


def test_held_out_labels_alone_decide():
    """The gain of a known ratio r is log((r + 1 / r) / 2) / 2 nats per row, that is 0.26 for r of 3, 0.008 for 1.2."""
    kept = judged(3.0, 1.0, 160, 40)
    assert kept.objection() == ""
    assert kept.gain.item() == pytest.approx(np.log((3 + 1 / 3) / 2) / 2, rel=0.1)
    assert kept.rows.item() == 40
    assert "40 held-out labels by +0." in judged(1.2, 1.0, 1600, 40).objection()  # the learned ones gain 13 nats
    assert "held-out labels by -" in judged(3.0, -1.0, 1600, 40).objection()
    assert "0 held-out labels by +0 nats, and 3 are needed" in judged(3.0, 1.0, 1600, 0).objection()


def test_networks_of_a_pool_are_judged_together():
    one, other = judged(3.0, 1.0, 160, 40), judged(3.0, -1.0, 160, 40)
    pool = one.join([other])
    assert pool.objection(torch.tensor([1.0, 0.0])) == ""
    assert pool.objection(torch.tensor([0.0, 1.0])) == other.objection()


def test_the_fewest_held_out_rows_are_those_that_gain_enough_where_noise_grows_fourfold():
    """e^3 by log sigma uniform from log 1 to log 4, at known f and exact inputs."""
    logs = np.linspace(0, np.log(4), 100_001)
    gain = np.log(np.mean(np.exp(2 * logs))) / 2 - logs.mean()
    assert VaryingLikelihood.fewest_held_out == np.ceil(3 / gain) == 20


def constant(n_rows, seed=101):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n_rows, 1))
    return x, np.sin(3 * x[:, 0]) + 0.1 * random.standard_normal(n_rows)


@pytest.mark.parametrize(
    ("n_rows", "changes", "words"),
    [
        (24, {}, "it takes 20 held-out rows to tell another from it, and here none are held out"),
        (60, {}, "it takes 20 held-out rows .* here 12 are"),
        (150, {"held_out": 0.0}, ".* here none are"),
        (150, {}, r"noise that varies changes the log density of 20 held-out labels by -?\+?[.0-9]+ nats, and 3 are"),
    ],
)
def test_without_the_word_of_held_out_labels_the_fit_is_that_of_normal_noise(n_rows, changes, words):
    model = EiVRegressor(likelihood="varying", **FAST | changes)
    X, y = constant(n_rows)
    plain = clone(model).set_params(likelihood="normal").fit(X, y)
    heard = []
    table = model._check_table(X, y, None)
    (found,) = fit_models([Spec(model._arguments, 0)], [table], heard.append)
    assert re.search(f"^normal noise that is the same everywhere, since {words}", found.record.likelihood_choice)
    assert found.settings.likelihood == "normal"
    assert np.array_equal(model.fit(X, y).predict(X), plain.predict(X))
    assert heard[-1] == 1
    assert heard == sorted(heard)


def test_a_noise_that_is_known_or_found_otherwise_is_refused():
    for y_noise in (0.3, "rmse"):
        with pytest.raises(ValueError, match=r"y_noise: likelihood='varying' finds its noise by the bound"):
            EiVRegressor(None, likelihood="varying", y_noise=y_noise, epochs=1).fit(np.eye(9), np.arange(9.0))


@pytest.mark.parametrize("family", ["bernoulli_dropout", "mean_field", "ensemble", "swag", "linearised_laplace"])
def test_it_serves_every_family_stacked_with_errors_of_labels(any_head, family):
    random = np.random.default_rng(0)
    X, y = random.standard_normal((60, 2)), random.standard_normal((60, 2))
    model = EiVRegressor([0.1, 0.0], likelihood="varying", posterior=family, hidden_units=8, n_hidden=1, epochs=4,
                         n_theta=10, n_networks=2, random_state=0)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, y_err=0.3)
    p = model.predict_distribution(X[:4], y_err=0.3, budget=True)
    assert p.mean.shape == p.noise.shape == (4, 2)
    assert p.shares.shape == (4, 2, 2)
    low, high = p.interval(0.95, of="label", method="quantile")
    assert (low < high).all()
    assert p.samples(of="label", random_state=0).shape == p.draws.shape
