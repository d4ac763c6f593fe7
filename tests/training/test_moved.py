"""The true input of each row moved with the weights: orthogonal distances, and Laplace's approximation."""

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence
from scipy.optimize import minimize
from torch import nn

from eiv import EiVClassifier, EiVRegressor, MixturePrior, NormalPrior
from eiv.engine.batch import Batch
from eiv.engine.optim import FlatAdam
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws, ZetaMixture, ZetaNormal
from eiv.inputs.zeta import square_root
from eiv.likelihoods import NormalLikelihood
from eiv.networks import NetworkStack
from eiv.posteriors import FAMILIES
from eiv.posteriors.base import PointPosterior
from eiv.training import Schedule, train
from eiv.training.moved import MovedZetaStep, _Rows
from eiv.training.steps import Counts
from smallnets import CPU

X_ERR, Y_NOISE = 0.4, 0.3
# The whole table in each step, and a step size that falls to zero: Adam then ends at the maximum.
TO_THE_END = {"weight_penalty": 0.0, "learning_rate": 0.02, "learning_rate_decay": 0.9, "epochs": 500}
POINT = {"posterior": "last_layer_laplace", "dtype": "float64", "random_state": 0, "recipe": "paper"}


def rows(n=60, n_x=1, seed=0):
    random = np.random.default_rng(seed)
    zeta = random.normal(size=(n, n_x))
    y = 1.5 * zeta[:, 0] - zeta[:, 1:].sum(1) + 0.5 + Y_NOISE * random.normal(size=n)
    return zeta + X_ERR * random.normal(size=zeta.shape), y


def fitted(X, y, zeta_draws, module=nn.Linear, **settings):
    known = {"x_err": X_ERR, "y_noise": Y_NOISE, "batch_size": len(X), "input_prior": "flat"}
    arguments = POINT | TO_THE_END | known | settings
    return EiVRegressor(module=module, zeta_draws=zeta_draws, **arguments).fit(X, y)


def line_of(model, n_x=1):
    values = model.predict(np.vstack([np.zeros(n_x), np.eye(n_x)]), X_err=0)
    return np.append(values[1:] - values[0], values[0])


def test_profile_on_a_line_is_demings_regression():
    X, y = rows()
    x, ratio = X[:, 0] - X.mean(), Y_NOISE**2 / X_ERR**2
    sxx, syy, sxy = x @ x, (y - y.mean()) @ (y - y.mean()), x @ y
    slope = (syy - ratio * sxx + np.hypot(syy - ratio * sxx, 2 * ratio**0.5 * sxy)) / (2 * sxy)
    found = line_of(fitted(X, y, "profile"))
    np.testing.assert_allclose(found, [slope, y.mean() - slope * X.mean()], atol=1e-6)
    least_squares = sxy / sxx
    assert slope - least_squares > 0.1, "which is another line than that of least squares"


@pytest.mark.parametrize(
    ("assumed", "prior"), [pytest.param(0.2, "normal", marks=pytest.mark.slow), (0.4, "normal"), (0.4, "flat")]
)
def test_an_assumed_size_has_the_slope_of_the_closed_form(assumed, prior):
    """S_xy / (S_xx - s^2) with a learned normal prior, S_xy / S_xx with a flat one, sigma_y being fitted.

    That holds as long as what s does not explain of the scatter is above zero: at 0.5, sigma_y^2 would be below it.
    The learned variance of zeta is off by the row that its weak prior counts for, 1 % of 100 rows at most.
    """
    X, y = rows(100)
    moments = np.cov(X[:, 0], y, bias=True)
    expected = moments[0, 1] / (moments[0, 0] - (assumed**2 if prior == "normal" else 0))
    settings = {"x_err": assumed, "input_prior": prior, "y_noise": "likelihood", "held_out": 0, "epochs": 300}
    assert line_of(fitted(X, y, "laplace", **settings))[0] == pytest.approx(expected, rel=0.015)


class Quadratic(nn.Module):
    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.last = nn.Linear(2, n_outputs)

    def forward(self, zeta):
        return self.last(torch.cat([zeta, zeta.square()], dim=-1))


@pytest.mark.parametrize(
    ("module", "errors"), [pytest.param(nn.Linear, (0.4, 0.3), marks=pytest.mark.slow), (Quadratic, (0.1, 0.1))]
)
def test_profile_is_odrpacks(module, errors):
    """Errors of the curve's own size would leave several minima."""
    odrpack = pytest.importorskip("odrpack")
    random, (x_err, y_noise) = np.random.default_rng(2), errors
    truth = np.array([0.5, 1.5, 0.3] if module is Quadratic else [0.5, 1.5])
    zeta = random.normal(size=60)

    def f(x, beta):
        return sum(b * x**i for i, b in enumerate(beta))

    x, y = zeta + x_err * random.normal(size=60), f(zeta, truth) + y_noise * random.normal(size=60)
    to_the_end = {"sstol": 1e-14, "partol": 1e-14}
    solution = odrpack.odr_fit(f, x, y, truth, weight_x=x_err**-2, weight_y=y_noise**-2, **to_the_end)
    model = fitted(x[:, None], y, "profile", module, x_err=x_err, y_noise=y_noise, standardise=module is nn.Linear)
    grid = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(model.predict(grid[:, None], X_err=0), f(grid, solution.beta), atol=1e-6)


def exact_loss(parameters, X, y, mean, covariance):
    """Minus the mean of log N(y | f(E zeta), sigma_y^2 + slopes C slopes^T)."""
    slopes, start = parameters[:-1], parameters[-1]
    variance = Y_NOISE**2 + slopes @ covariance @ slopes
    return 0.5 * np.mean((y - mean @ slopes - start) ** 2 / variance + np.log(2 * np.pi * variance))


@pytest.mark.parametrize("correlated", [False, True])
def test_the_loss_of_laplace_on_a_plane_is_the_exact_one(correlated):
    X, y = rows(n_x=3)
    covariance = torch.diag(torch.tensor([0.16, 0.0, 0.09], dtype=torch.float64))
    if correlated:
        covariance[0, 2] = covariance[2, 0] = 0.06
    x = torch.tensor(X).unsqueeze(0)
    if correlated:
        none = torch.zeros(1, 60, 1, dtype=torch.float64)
        inputs = ZetaMixture.of(none, x.unsqueeze(2), square_root(covariance).expand(1, 1, 1, 3, 3))
    else:
        inputs = ZetaNormal(x, covariance.diagonal().sqrt().reshape(1, 1, 3))
    stack = NetworkStack(lambda: nn.Linear(3, 1), 3, 1, SeedSequence(0).spawn(1), CPU, torch.float64)
    posterior = PointPosterior(stack, 0.0)
    parameters = np.append(*(stack.parameters[name].detach().numpy().ravel() for name in ("weight", "bias")))
    draws = ZetaDraws.of("laplace", None, inputs)
    assert draws.n_zeta == 3, "the reading, and one step along each of the two noisy features"
    zeta = inputs.draw(draws.base(streams(), 60))
    batch = Batch(zeta, torch.tensor(y).reshape(1, 60, 1), None, None, {})
    for with_determinant in (True, False):
        total, likelihood = torch.zeros(1).double(), NormalLikelihood(torch.full((1, 1), Y_NOISE, dtype=torch.float64))
        adam = FlatAdam(posterior.parameters, 0.0)
        MovedZetaStep(posterior, likelihood, Counts(60, 60), adam, with_determinant)(batch, total)
        expected = exact_loss(parameters, X, y, X, covariance.numpy())
        if with_determinant:
            assert total.item() == pytest.approx(expected, abs=1e-6)
        else:
            assert total.item() < expected - 0.01


def streams():
    return Streams(SeedSequence(0).spawn(1), CPU, torch.float64)


def test_laplace_on_a_plane_ends_at_the_maximum_of_the_exact_likelihood():
    X, y = rows(100, n_x=2)
    shrinkage = 1 / (1 + X_ERR**2)
    found = line_of(fitted(X, y, "laplace", input_prior=NormalPrior(1.0)), 2)
    covariance = shrinkage * X_ERR**2 * np.eye(2)
    best = minimize(exact_loss, np.array([1.0, -1.0, 0.0]), (X, y, shrinkage * X, covariance), tol=1e-12).x
    np.testing.assert_allclose(found, best, atol=1e-6)
    wrong = minimize(exact_loss, np.array([1.0, -1.0, 0.0]), (X, y, shrinkage * X, 0 * covariance), tol=1e-12).x
    assert np.abs(best - wrong).max() > 1e-3


def test_where_a_step_leads_astray_zeta_stays_or_takes_half_of_it():
    """f is a steep wave: a full step of Gauss and Newton often passes the next crest. No row may end worse off."""

    class Wave(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.ones(1))

        def forward(self, zeta):
            return self.factor * torch.sin(8 * zeta)

    stack = NetworkStack(Wave, 1, 1, SeedSequence(0).spawn(1), CPU, torch.float64)
    x = torch.linspace(-1, 1, 200).double().reshape(1, 200, 1)
    inputs = ZetaNormal(x, torch.full((1, 1, 1), 0.3).double())
    zeta = inputs.draw(ZetaDraws.of("profile", None, inputs).base(streams(), 200))
    batch = Batch(zeta, torch.full((1, 200, 1), 0.9).double(), None, None, {})
    moved = _Rows(batch, PointPosterior(stack, 0.0), NormalLikelihood(torch.full((1, 1), 0.05).double()))
    nothing = torch.zeros(1, 200, 1).double()
    before, after = moved.objective(nothing), moved.objective(moved.best())
    assert bool((after >= before).all())
    assert (after - before).mean() > 10


@pytest.mark.parametrize("posterior", FAMILIES)
def test_every_family_takes_laplace(posterior):
    X, y = rows(n_x=2)
    settings = {"hidden_units": 8, "epochs": 2, "n_theta": 10, "n_networks": 2, "random_state": 0, "recipe": "paper"}
    model = EiVRegressor(X_ERR, zeta_draws="laplace", posterior=posterior, **settings).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.zeta_ess_ is None is model.bound_gap_


@pytest.mark.slow
def test_networks_of_steps_learn_a_curve_with_it():
    """The slope of a line in noise, by layers: a normal prior keeps it from being flattened, and sigma_y is fitted."""
    random = np.random.default_rng(1)
    zeta = random.normal(size=(1000, 1))
    X, y = zeta + 0.5 * random.normal(size=zeta.shape), zeta[:, 0] + 0.3 * random.normal(size=1000)
    settings = {
        "epochs": 30,
        "hidden_units": 16,
        "n_hidden": 1,
        "learning_rate": 1e-2,
        "batch_size": 64,
        "random_state": 0,
    }
    model = EiVRegressor(0.5, zeta_draws="laplace", input_prior="normal", **settings).fit(X, y)
    ends = model.predict([[-1.0], [1.0]], X_err=0)
    assert 0.9 < (ends[1] - ends[0]) / 2 < 1.1, "0.8 where the errors are ignored"
    assert 0.2 < model.y_noise_.item() < 0.4


def test_a_class_can_be_learned_with_it():
    X, y = rows()
    model = EiVClassifier(X_ERR, zeta_draws="profile", input_prior="normal", epochs=40, n_theta=10, random_state=0)
    model.fit(X, y > 0.5)
    assert model.score(X, y > 0.5) > 0.7


def test_what_profile_would_make_of_sigma_y():
    """Of residuals r of variance V = sigma_y^2 + b^2 sigma_x^2, zeta leaves those of y the share sigma_y^2 / V.

    Their mean square is sigma_y^4 / V: half of sigma_y^2 where the error of x moves f by sigma_y. Of 20,000 rows it has
    a relative standard error of 0.01, and the band is three of them.
    """
    random, n, y_noise = np.random.default_rng(0), 20_000, 0.8
    zeta = random.normal(size=(1, n, 1))
    x = torch.tensor(zeta + 0.4 * random.normal(size=zeta.shape))
    y = torch.tensor(2 * zeta + y_noise * random.normal(size=zeta.shape))
    stack = NetworkStack(lambda: nn.Linear(1, 1), 1, 1, SeedSequence(0).spawn(1), CPU, torch.float64)
    for name, value in (("weight", 2.0), ("bias", 0.0)):
        stack.parameters[name].data.fill_(value)
    inputs = ZetaNormal(x, torch.full((1, 1, 1), 0.4, dtype=torch.float64))
    batch = Batch(inputs.draw(ZetaDraws.of("profile", None, inputs).base(streams(), n)), y, None, None, {})
    noise = NormalLikelihood(torch.full((1, 1), y_noise, dtype=torch.float64))
    e = _Rows(batch, PointPosterior(stack, 0.0), noise).best()
    residuals = y - 2 * (x + 0.4 * e)
    assert residuals.square().mean().item() / y_noise**2 == pytest.approx(0.5, rel=0.03)


def test_refusals():
    X, y = rows()
    with pytest.raises(ValueError, match=r"by half of its square.* Give y_noise a number"):
        EiVRegressor(X_ERR, zeta_draws="profile").fit(X, y)
    with pytest.raises(ValueError, match="has no meaning for network='cosine'"):
        EiVRegressor(X_ERR, zeta_draws="laplace", network="cosine").fit(X, y)
    mixture = MixturePrior([1, 1], [[-1.0], [1.0]], [[0.5], [0.5]])
    for zeta_draws in ("profile", "laplace"):
        with pytest.raises(ValueError, match="takes a normal posterior of the true input: input_prior='flat'"):
            EiVRegressor(X_ERR, zeta_draws=zeta_draws, y_noise=0.3, input_prior=mixture, epochs=1).fit(X, y)


def test_training_takes_it_by_name():
    """Exact inputs have nothing to move."""
    stack = NetworkStack(lambda: nn.Linear(1, 1), 1, 1, SeedSequence(0).spawn(1), CPU, torch.float64)
    x = torch.linspace(-1, 1, 50).double().reshape(1, 50, 1)
    schedule = Schedule(300, 50, 0.05, None, 10, zeta_draws="profile", learning_rate_decay=1.0)
    likelihood = NormalLikelihood(torch.ones(1, 1).double())
    posterior = PointPosterior(stack, 0.0)
    train(posterior, Rows(ZetaNormal(x, 0 * x[:, :1]), 2 * x), likelihood, schedule, SeedSequence(0).spawn(1))
    assert stack.parameters["weight"].item() == pytest.approx(2, abs=1e-3)
