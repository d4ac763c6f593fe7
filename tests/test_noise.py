"""Rules for sigma_y where the answer has a closed form: a straight line with errors in x and y."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from eiv.noise import noise_by_bound, noise_by_error, spread_by_weights, with_known_errors
from numpy.random import SeedSequence

from conftest import CPU
from eiv import EiVRegressor
from eiv.inputs import ZetaDraws, ZetaPosterior
from eiv.streams import Streams

SLOPES, X_ERR, Y_NOISE = torch.tensor([1.0, 2.0], dtype=torch.float64), 0.3, 0.5
SEEDS = SeedSequence(0).spawn(2)
N_ROWS = 2000


class Lines:
    """F = slope * zeta + spread * theta, one slope a network."""

    stack = SimpleNamespace(width=8, n_networks=2)

    def __init__(self, spread=0.0):
        self.spread = spread

    def draw(self, streams, n_draws):
        return {"theta": streams.normal(n_draws)}

    def evaluate(self, draw, zeta):
        return SLOPES[:, None, None, None] * zeta + self.spread * draw["theta"][:, :, None, None]


@pytest.fixture(scope="module")
def rows():
    """True lines, seen through errors: posterior of zeta (flat prior), y, and the mean squared residual of y."""
    random = np.random.default_rng(1)
    x = random.uniform(-3, 3, N_ROWS)
    zeta = x + X_ERR * random.standard_normal(N_ROWS)
    y = SLOPES.numpy()[:, None] * zeta + Y_NOISE * random.standard_normal((2, N_ROWS))
    inputs = ZetaPosterior(
        torch.tensor(x).reshape(1, -1, 1).expand(2, -1, 1), torch.full((1, 1, 1), X_ERR, dtype=torch.float64)
    )
    squares = ((y - SLOPES.numpy()[:, None] * x) ** 2).mean(1)
    return inputs, torch.tensor(y).unsqueeze(-1), torch.tensor(squares)


def streams(seed=0):
    return Streams(SeedSequence(seed).spawn(2), CPU, torch.float64)


@pytest.mark.parametrize("x_err", [0.0, X_ERR])
def test_the_spread_by_weights_leaves_the_scatter_over_zeta_out(x_err):
    inputs = ZetaPosterior(torch.zeros(2, 5, 1), torch.full((1, 1, 1), x_err, dtype=torch.float64))
    found = spread_by_weights(Lines(spread=0.7), inputs, streams())
    assert found.shape == (2, 5, 1)
    torch.testing.assert_close(found, torch.full_like(found, 0.7), rtol=4 * (1 / 198) ** 0.5, atol=0)


def test_the_papers_rule_holds_the_error_of_the_input(rows):
    inputs, y, squares = rows
    found = noise_by_error(Lines(), inputs, y, streams())[:, 0].square()
    torch.testing.assert_close(found, squares, rtol=0.02, atol=0)
    assert bool((found > Y_NOISE**2 + 0.9 * (SLOPES * X_ERR).square()).all())


def test_the_residual_rule_takes_it_out(rows):
    """The mean squared residual less the variance of f; that of theta too. Band: four standard errors of the mean."""
    inputs, y, squares = rows
    for spread in (0.0, 0.4):
        found = noise_by_error(Lines(spread), inputs, y, streams(), less_explained=True)[:, 0].square()
        expected = squares - (SLOPES * X_ERR).square() - spread**2
        error = 4 * ((SLOPES * X_ERR).square() + spread**2) * (2 / (9 * N_ROWS)) ** 0.5 + 0.01
        assert bool(((found - expected).abs() < error).all())


@pytest.mark.parametrize(("kind", "n_zeta"), [("gauss_hermite", 16), ("stratified", 64)])
def test_the_likelihood_rule_finds_the_maximum(rows, kind, n_zeta):
    """Y given x is normal with variance slope^2 x_err^2 + sigma_y^2, so the maximum is known."""
    inputs, y, squares = rows
    draws = ZetaDraws.of(kind, n_zeta, inputs)
    found, spread = noise_by_bound(Lines(), inputs, y, torch.ones(2, 1, dtype=torch.float64), draws, streams())
    expected = (squares - (SLOPES * X_ERR).square()).sqrt()
    torch.testing.assert_close(found[:, 0], expected, rtol=0.03, atol=0)
    information = 2 * found[:, 0] ** 4 / squares**2  # of log sigma_y, in a row
    torch.testing.assert_close(spread[:, 0], (information * N_ROWS).rsqrt(), rtol=0.1, atol=0)


def test_known_errors_of_y_are_not_found_again(rows):
    inputs, y, _ = rows
    random = np.random.default_rng(2)
    y_err = torch.tensor(random.uniform(0, 1, y.shape))
    noisier = y + y_err * torch.tensor(random.standard_normal(y.shape))
    draws = ZetaDraws.of("gauss_hermite", 16, inputs)
    start = torch.ones(2, 1, dtype=torch.float64)
    by_bound, _ = noise_by_bound(Lines(), inputs, noisier, start, draws, streams(), y_err)
    by_error = noise_by_error(Lines(), inputs, noisier, streams(), y_err, less_explained=True)
    for found in (by_bound, by_error):
        torch.testing.assert_close(found, torch.full_like(found, Y_NOISE), rtol=0.115, atol=0)


def test_noise_of_rows():
    both = with_known_errors(torch.tensor([[3.0]]), torch.tensor([[[4.0], [0.0]]]))
    torch.testing.assert_close(both, torch.tensor([[[5.0], [3.0]]]))
    assert with_known_errors(both, None) is both


@pytest.mark.parametrize("y_noise", ["rmse", "residual", "likelihood"])
def test_the_estimator_takes_every_rule(line, y_noise):
    X, y = line
    model = EiVRegressor(
        0.1, y_noise=y_noise, epochs=4, y_noise_every=2, hidden_units=8, random_state=0, recipe="paper"
    ).fit(X, y)
    assert np.isfinite(model.y_noise_).all()


@pytest.mark.filterwarnings("ignore::eiv.diagnostics.LooseBoundWarning")
def test_a_known_value_stays_in_units_of_y(line):
    X, y = line
    model = EiVRegressor(0.1, y_noise=0.25, epochs=3, hidden_units=8, random_state=0, recipe="paper").fit(X, 100 * y)
    assert model.y_noise_ == pytest.approx([0.25])


def test_rows_with_large_known_errors_hardly_count():
    """Half the labels are far off and say so: the curve follows the others."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (400, 1))
    wrong = np.arange(400) % 2 == 1
    y = np.where(wrong, 5.0, X[:, 0]) + 0.05 * random.standard_normal(400)
    settings = {"epochs": 60, "hidden_units": 32, "dropout": 0.05, "weight_penalty": 0.1, "random_state": 0}
    told = EiVRegressor(y_noise=0.1, **settings, recipe="paper").fit(X, y, y_err=np.where(wrong, 50.0, 0.0))
    assert abs(told.predict([[0.5]])[0] - 0.5) < 0.3
    assert EiVRegressor(y_noise=0.1, **settings, recipe="paper").fit(X, y).predict([[0.5]])[0] > 1.5


@pytest.mark.parametrize(
    ("y_err", "message"),
    [
        (-1.0, "at least 0"),
        (np.nan, "finite"),
        (np.ones(3), r"\(40, 1\).*, got shape \(3,\)"),
        (np.ones((40, 2)), "got"),
    ],
)
def test_bad_errors_of_y_are_named(line, y_err, message):
    X, y = line
    with pytest.raises(ValueError, match=f"y_err.*{message}"):
        EiVRegressor(0.1, epochs=1, recipe="paper").fit(X, y, y_err=y_err)


def test_bad_rules_are_named(line):
    X, y = line
    for bad in ("mean", -1.0, True):
        with pytest.raises(ValueError, match=r"y_noise must be .*'rmse'.* number above 0"):
            EiVRegressor(0.1, y_noise=bad, epochs=1, recipe="paper").fit(X, y)
