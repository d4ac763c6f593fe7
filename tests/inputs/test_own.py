"""Posteriors of a user's own: their `draw` is what is drawn from, in the units that the networks see."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from eiv import EiVRegressor, FlatPrior, MixturePrior, fit_splits
from eiv.inputs import ZetaDraws, ZetaMixture, ZetaNormal, ZetaPosterior
from eiv.inputs.own import stack_posteriors, standardised

FAST = {"hidden_units": 16, "epochs": 3, "n_theta": 10, "random_state": 0, "dtype": "float64", "device": "cpu"}
X = torch.tensor([[0.7, -0.4], [-0.5, 0.3], [0.1, 0.9]], dtype=torch.float64)
SHIFT, SCALE = torch.tensor([0.2, -1.0]).double(), torch.tensor([2.0, 0.5]).double()


class Uniform(ZetaPosterior):
    """Uniform between mean - std and mean + std."""

    def draw(self, noise):
        return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * (2 * torch.special.ndtr(noise) - 1)

    def log_density(self, zeta):
        inside = (zeta - self.mean.unsqueeze(-2)).abs() <= self.std.unsqueeze(-2)
        return torch.where(inside, -(2 * self.std.unsqueeze(-2)).log(), -torch.inf).sum(-1)


@dataclass(frozen=True)
class Ring(ZetaPosterior):
    """Two features on a circle about the mean: one angle for both, and a share of another posterior."""

    radius: torch.Tensor  # rows
    inner: ZetaPosterior
    places: torch.Tensor  # rows, whole numbers
    share: float = 0.5

    @property
    def n_base(self):
        return 3

    def draw(self, noise):
        angle = 2 * torch.pi * torch.special.ndtr(noise[..., 2:]) + self.places[:, None, None]
        circle = self.radius[:, None, None] * torch.cat([angle.cos(), angle.sin()], dim=-1)
        return (
            circle + self.mean.unsqueeze(-2) + self.share * (self.inner.draw(noise[..., :2]) - self.inner.mean[:, None])
        )


def uniform(std=0.5):
    return Uniform(X, torch.full((1, 2), std, dtype=torch.float64))


def ring():
    inner = ZetaNormal(X, torch.tensor([[0.1, 0.3]]).double())
    return Ring(X, torch.ones(1, 2).double(), torch.tensor([1.0, 2.0, 3.0]).double(), inner, torch.tensor([0, 1, 2]))


@pytest.mark.parametrize("make", [uniform, ring])
def test_draws_are_its_own_in_standard_units(make):
    zeta = make()
    noise = torch.randn(3, 50, zeta.n_base, dtype=torch.float64)
    moved = standardised(zeta, SHIFT, SCALE)
    torch.testing.assert_close(moved.draw(noise), (zeta.draw(noise) - SHIFT) / SCALE)
    torch.testing.assert_close(moved.mean, (zeta.mean - SHIFT) / SCALE)
    assert moved.n_base == zeta.n_base
    assert moved.noisy == (0, 1)
    assert not moved.is_exact
    assert not zeta.matchable
    assert not moved.matchable
    assert not moved.independent.any()
    assert moved.for_training() is moved
    more = torch.randn(4, 2, 3, 5, zeta.n_base, dtype=torch.float64)  # axes before the rows are more draws
    torch.testing.assert_close(moved.draw(more)[1, 0], moved.draw(more[1, 0]))
    shared = moved.draw(more[:, :, :1])  # noise that serves all rows
    torch.testing.assert_close(shared[0, 1], moved.draw(more[0, 1, :1].expand(3, -1, -1)))


def test_twice_standardised_is_standardised_twice():
    noise, scale = torch.randn(3, 5, 2, dtype=torch.float64), torch.tensor([3.0, torch.inf]).double()
    twice = standardised(uniform(), SHIFT, scale).standardised(SHIFT, SCALE)
    once = uniform().draw(noise)[..., 0]
    torch.testing.assert_close(twice.draw(noise)[..., 0], ((once - 0.2) / 3 - 0.2) / 2)
    assert (twice.draw(noise)[..., 1] == 0).all()  # an infinite scale leaves a feature out
    assert (twice.mean[..., 1] == 0).all()
    assert twice.noisy == (0,)


def test_a_small_error_of_a_large_x_survives_single_precision():
    x = torch.full((3, 2), 1e6, dtype=torch.float64)
    zeta = Uniform(x, torch.full((1, 2), 1e-3, dtype=torch.float64))
    single = standardised(zeta, x[0], torch.full((2,), 1e-3).double()).to(torch.device("cpu"), torch.float32)
    noise = torch.randn(3, 50, 2)
    assert single.draw(noise).dtype == torch.float32
    torch.testing.assert_close(single.draw(noise), 2 * torch.special.ndtr(noise) - 1, atol=1e-5, rtol=0)


@pytest.mark.parametrize("make", [uniform, ring])
def test_stacks_take_and_cut_rows_as_each_alone(make):
    """Networks with units of their own, and a normal posterior and a mixture among them."""
    mixture = MixturePrior([1, 1], [[0.0, 0.0], [1.0, 0.5]], [[1.0, 1.0]] * 2)
    alone = [
        standardised(make(), SHIFT, SCALE),
        standardised(make(), 2 * SHIFT, SCALE),
        FlatPrior().posterior(X, torch.full((3, 2), 0.4).double()),
        mixture.posterior(X, torch.full((1, 2), 0.4).double()),
    ]
    stacked = stack_posteriors(alone)
    noise = torch.randn(4, 3, 7, 3, dtype=torch.float64)
    drawn = stacked.draw(noise)
    for s, zeta in enumerate(alone):
        torch.testing.assert_close(drawn[s], zeta.draw(noise[s]))
        torch.testing.assert_close(stacked.mean[s], zeta.mean)
        torch.testing.assert_close(stacked.std[s], zeta.std.expand(3, 2))
    torch.testing.assert_close(stacked.rows(1, 3).draw(noise[:, 1:]), drawn[:, 1:])
    torch.testing.assert_close(alone[0].rows(1, 3).draw(noise[0, 1:]), drawn[0, 1:])
    rows = torch.tensor([[2, 0], [1, 1], [0, 2], [2, 1]])
    taken = stacked.take(rows)
    for s, chosen in enumerate(rows):
        for place, row in enumerate(chosen):
            torch.testing.assert_close(
                taken.draw(noise[:, row : row + 1].expand(-1, 2, -1, -1))[s, place], drawn[s, row]
            )


def test_density_in_standard_units():
    zeta = stack_posteriors([standardised(uniform(), SHIFT, SCALE), standardised(uniform(0.25), SHIFT, SCALE)])
    drawn = zeta.draw(torch.randn(2, 3, 5, 2, dtype=torch.float64))
    # uniform on 1 x 1, or 0.5 x 0.5, in units of X; scales 2 and 0.5 leave the area as it is
    torch.testing.assert_close(
        zeta.log_density(drawn), torch.tensor([0.0, np.log(4)])[:, None, None].double().expand(2, 3, 5)
    )
    wider = standardised(uniform(), SHIFT, 2 * SCALE)
    torch.testing.assert_close(wider.log_density(wider.mean[:, None]), torch.full((3, 1), np.log(4)).double())
    assert (wider.log_density(wider.mean[:, None] + 10) == -torch.inf).all()


def test_what_is_inherited_does_not_stand_for_another_distribution():
    for zeta in (ring(), standardised(ring(), SHIFT, SCALE)):
        with pytest.raises(TypeError, match=r"Ring draws zeta in a way of its own.* Define log_density in Ring"):
            zeta.log_density(X[:, None])
    assert not hasattr(uniform(), "as_mixture")
    with pytest.raises(TypeError, match=r"abstract method '?draw"):
        ZetaPosterior(X, X)

    class Rounded(ZetaMixture):
        def draw(self, noise):
            return super().draw(noise).round()

    mixture = MixturePrior([1, 1], [[0.0], [1.0]], [[1.0]] * 2).posterior(X[:, :1], torch.ones(1, 1).double())
    own = Rounded(*(getattr(mixture, name) for name in ("mean", "std", "log_weights", "means", "scales", "lines")))
    noise = torch.randn(3, 9, 1, dtype=torch.float64)
    assert own.for_training() is own
    moved = standardised(own, SHIFT[:1], SCALE[:1])
    torch.testing.assert_close(moved.draw(noise), (mixture.draw(noise).round() - 0.2) / 2)
    assert not moved.is_smooth
    with pytest.raises(TypeError, match="Define log_density in Rounded"):
        own.log_density(X[:, None])


def test_training_fills_all_numbers_that_a_draw_may_use():
    one = standardised(Ring(**vars(ring()) | {"std": torch.tensor([[1.0, 1e-12]]).double()}), SHIFT, SCALE)
    for kind in ("auto", "stratified", "sobol", "antithetic"):
        assert ZetaDraws.of(kind, 8, one).used == (0, 1, 2)
    assert ZetaDraws.of("auto", 8, one).kind == "informed"
    for kind in ("gauss_hermite", "interpolated"):
        with pytest.raises(ValueError, match=f"{kind}.*is_smooth"):
            ZetaDraws.of(kind, 8, one)


def test_one_that_says_it_is_smooth_may_be_integrated_by_a_rule():
    class Smooth(Uniform):
        is_smooth = property(lambda self: True)

    zeta = standardised(Smooth(X[:, :1], torch.ones(1, 1).double()), SHIFT[:1], SCALE[:1])
    assert ZetaDraws.of("auto", None, zeta).kind == "interpolated"
    assert ZetaDraws.of("gauss_hermite", 8, zeta).n_zeta == 8


class Misleading:
    """A prior whose posterior has a draw of its own: the paper's, behind a mean and a std that mislead."""

    def posterior(self, x, x_err):
        return Behind(x + 1.0 * (x_err > 0), 1e-3 * x_err, FlatPrior().posterior(x, x_err))


@dataclass(frozen=True)
class Behind(ZetaPosterior):
    inner: ZetaPosterior

    def draw(self, noise):
        return self.inner.draw(noise)


@pytest.mark.usefixtures("few_zetas")
@pytest.mark.parametrize("posterior", ["bernoulli_dropout", "linearised_laplace", "ensemble", "swag"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_fit_and_its_predictions_draw_from_it(line, posterior, dtype):
    """Flat posteriors behind a class of the user's give the numbers of flat posteriors."""
    X, y = line
    fast = FAST | {"dtype": dtype, "n_networks": 2, "posterior": posterior, "zeta_draws": "monte_carlo"}
    tolerance = {"rtol": 1e-9 if dtype == "float64" else 1e-3, "atol": 1e-9 if dtype == "float64" else 1e-3}
    for y_noise in ("rmse", "likelihood"):
        plain, own = (
            EiVRegressor(0.3, input_prior=prior, y_noise=y_noise, **fast, recipe="paper").fit(X, y)
            for prior in (FlatPrior(), Misleading())
        )
        np.testing.assert_allclose(own.loss_curve_, plain.loss_curve_, **tolerance)
        np.testing.assert_allclose(own.y_noise_, plain.y_noise_, **tolerance)
    found, expected = (model.predict_distribution(X, method="literal") for model in (own, plain))
    np.testing.assert_allclose(found.mean, expected.mean, **tolerance)
    np.testing.assert_allclose(found.std, expected.std, **tolerance)


def test_unbiased_predictions_draw_from_it(line):
    """Mean and aleatoric component as with the posterior that stands behind, within the error of so many draws."""
    X, y = line
    fast = FAST | {"n_theta": 500, "dropout": 0.1, "epochs": 20}
    plain, own = (
        EiVRegressor(0.3, input_prior=prior, **fast, recipe="paper").fit(X, y) for prior in (FlatPrior(), Misleading())
    )
    same = {"posterior": plain.posterior_, "likelihood": plain.model_.likelihood}
    own.model_ = replace(own.model_, **same)
    found, expected = own.predict_distribution(X, budget=True), plain.predict_distribution(X, budget=True)
    np.testing.assert_allclose(found.mean, expected.mean, atol=4 * expected.std.max() / 500**0.5)
    np.testing.assert_allclose(found.aleatoric, expected.aleatoric, rtol=0.3)
    curve = own.predict_distribution(X, X_err=0)
    assert (curve.aleatoric == 0).all()
    np.testing.assert_allclose(curve.mean, plain.predict(X, X_err=0))


class Spun:
    """One feature from two numbers: a sign and a size, for a posterior with two peaks at x - x_err and x + x_err."""

    def posterior(self, x, x_err):
        return Peaks(x, x_err.expand_as(x))


class Peaks(ZetaPosterior):
    n_base = property(lambda self: 2)

    def draw(self, noise):
        return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * (noise[..., :1].sign() + 0.01 * noise[..., 1:])


@pytest.mark.parametrize("zeta_draws", ["monte_carlo", "stratified", "informed", "auto"])
def test_numbers_of_a_zeta_may_be_more_than_its_features(line, zeta_draws):
    """f hardly bends over so small an error: its aleatoric component is half its rise from peak to peak."""
    X, y = line
    fast = FAST | {"posterior": "ensemble", "n_networks": 2, "n_theta": 100, "epochs": 30}
    model = EiVRegressor(0.01, input_prior=Spun(), zeta_draws=zeta_draws, **fast, recipe="paper").fit(X, y)
    rise = np.abs(model.predict(X + 0.01, X_err=0) - model.predict(X - 0.01, X_err=0)) / 2
    for method in ("unbiased", "literal"):
        p = model.predict_distribution(X, method=method)
        np.testing.assert_allclose(np.median(p.aleatoric / rise), 1.0, atol=0.15)


def test_an_exact_input_has_an_exact_posterior(line):
    class Uncertain:
        def posterior(self, x, x_err):
            return Uniform(x, x_err + 1.0)

    with pytest.raises(ValueError, match="std above 0 where all errors of X are 0"):
        EiVRegressor(input_prior=Uncertain(), **FAST, recipe="paper").fit(*line)
    model = EiVRegressor(0.1, input_prior=Uncertain(), **FAST, recipe="paper").fit(*line)
    with pytest.raises(ValueError, match="std above 0"):
        model.predict(line[0], X_err=0)


def test_splits_fitted_together_equal_splits_fitted_alone(line):
    X, y = line
    splits = [range(0, 30), range(10, 40)]
    model = EiVRegressor(0.3, input_prior=Misleading(), **FAST, recipe="paper")
    for together, rows in zip(fit_splits(model, X, y, splits), splits, strict=True):
        alone = EiVRegressor(**together.get_params()).fit(X[list(rows)], y[list(rows)])
        np.testing.assert_allclose(together.predict(X), alone.predict(X), rtol=1e-7)


class Hidden(ZetaPosterior):
    """Keeps something of its rows outside of its fields."""

    def __init__(self, mean, std, hidden=None):
        super().__init__(mean, std)
        object.__setattr__(self, "hidden", hidden)

    def draw(self, noise):
        return self.hidden.unsqueeze(-2) + noise


@dataclass(frozen=True)
class Listed(ZetaPosterior):
    values: list

    def draw(self, noise):
        return torch.stack([self.values[row] + noise[row] for row in range(len(self.mean))])


class Together(ZetaPosterior):
    def draw(self, noise):
        return self.mean.unsqueeze(-2) + noise - noise.mean(0)


class Random(ZetaPosterior):
    def draw(self, noise):
        return self.mean.unsqueeze(-2) + torch.randn_like(noise)


class Flat(ZetaPosterior):
    def draw(self, noise):
        return self.mean


class Infinite(ZetaPosterior):
    def draw(self, noise):
        return torch.full_like(noise, torch.inf)


@pytest.mark.parametrize(
    ("make", "std", "error", "words"),
    [
        (lambda x, s: Hidden(x, s, x), 1.0, TypeError, r"Hidden.*dataclass fields.*cannot be drawn alone"),
        (lambda x, s: Listed(x, s, list(x)), 1.0, TypeError, r"Listed.*dataclass fields.*other zetas"),
        (Together, 1.0, TypeError, r"Together\.draw must give each row its zetas whatever the other rows are"),
        (Random, 1.0, TypeError, r"no randomness but its noise"),
        (Flat, 1.0, TypeError, r"Flat\.draw must turn noise .* of \(40, 3, 1\) it made shape \(40, 1\)"),
        (Infinite, 1.0, ValueError, "not finite"),
        (Random, 0.0, ValueError, r"Random\.std is 0 for feature 0.*but Random\.draw moves it"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(line, make, std, error, words):
    class Prior:
        def posterior(self, x, x_err):
            return make(x, std * x_err)

    with pytest.raises(error, match=words):
        EiVRegressor(0.3, input_prior=Prior(), **FAST, recipe="paper").fit(*line)
