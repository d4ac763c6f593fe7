"""Rules for sigma_y where the answer has a closed form: a straight line with errors in x and y."""

import numpy as np
import pytest
import torch
from numpy.random import SeedSequence

from eiv import EiVRegressor
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws, ZetaNormal
from eiv.likelihoods import NOISE_RULES, ByBound, ByError, NoiseRule, NormalLikelihood
from eiv.posteriors import PointPosterior
from smallnets import CPU, small_posterior

SLOPES, X_ERR, Y_NOISE = torch.tensor([1.0, 2.0], dtype=torch.float64), 0.3, 0.5
SEEDS = SeedSequence(0).spawn(2)
N_ROWS = 2000


class Lines(PointPosterior):
    """f = slope * zeta + scatter * theta, one slope per network."""

    def __init__(self, scatter=0.0):
        super().__init__(small_posterior(2, dtype=torch.float64).stack, weight_penalty=1.0)
        self.scatter = scatter

    def draw(self, streams, n_draws):
        return {"theta": streams.normal(n_draws)}

    def evaluate(self, draw, zeta):
        return SLOPES[:, None, None, None] * zeta + self.scatter * draw["theta"][:, :, None, None]


@pytest.fixture(scope="module")
def rows():
    """True lines, seen through errors, under a flat prior; and the mean squared residual of y."""
    random = np.random.default_rng(1)
    x = random.uniform(-3, 3, N_ROWS)
    zeta = x + X_ERR * random.standard_normal(N_ROWS)
    y = SLOPES.numpy()[:, None] * zeta + Y_NOISE * random.standard_normal((2, N_ROWS))
    inputs = ZetaNormal(
        torch.tensor(x).reshape(1, -1, 1).expand(2, -1, 1), torch.full((1, 1, 1), X_ERR, dtype=torch.float64)
    )
    squares = ((y - SLOPES.numpy()[:, None] * x) ** 2).mean(1)
    return Rows(inputs, torch.tensor(y).unsqueeze(-1)), torch.tensor(squares)


def streams(seed=0):
    return Streams(SeedSequence(seed).spawn(2), CPU, torch.float64)


def test_the_papers_rule_holds_the_error_of_the_input(rows):
    table, squares = rows
    found = ByError().of_rows(Lines(), table, streams())[:, 0].square()
    torch.testing.assert_close(found, squares, rtol=0.02, atol=0)
    assert bool((found > Y_NOISE**2 + 0.9 * (SLOPES * X_ERR).square()).all())


def test_the_residual_rule_takes_it_out(rows):
    """The mean squared residual less the variance of f; that of theta too. Band: four standard errors of the mean."""
    table, squares = rows
    for scatter in (0.0, 0.4):
        found = ByError(less_explained=True).of_rows(Lines(scatter), table, streams())[:, 0].square()
        expected = squares - (SLOPES * X_ERR).square() - scatter**2
        error = 4 * ((SLOPES * X_ERR).square() + scatter**2) * (2 / (9 * N_ROWS)) ** 0.5 + 0.01
        assert bool(((found - expected).abs() < error).all())


@pytest.mark.parametrize(("kind", "n_zeta"), [("gauss_hermite", 16), ("stratified", 64)])
def test_the_likelihood_rule_finds_the_maximum(rows, kind, n_zeta):
    """y given x is normal with variance slope^2 x_err^2 + sigma_y^2, so the maximum is known."""
    table, squares = rows
    draws = ZetaDraws.of(kind, n_zeta, table.inputs)
    found, error = ByBound().of_rows(torch.ones(2, 1, dtype=torch.float64), Lines(), table, draws, streams())
    expected = (squares - (SLOPES * X_ERR).square()).sqrt()
    torch.testing.assert_close(found[:, 0], expected, rtol=0.03, atol=0)
    information = 2 * found[:, 0] ** 4 / squares**2  # of log sigma_y, in a row
    torch.testing.assert_close(error[:, 0], (information * N_ROWS).rsqrt(), rtol=0.1, atol=0)


def test_known_errors_of_y_are_not_found_again(rows):
    inputs, y, *_ = rows[0]
    random = np.random.default_rng(2)
    y_err = torch.tensor(random.uniform(0, 1, y.shape))
    noisier = y + y_err * torch.tensor(random.standard_normal(y.shape))
    draws = ZetaDraws.of("gauss_hermite", 16, inputs)
    start = torch.ones(2, 1, dtype=torch.float64)
    table = Rows(inputs, noisier, y_err)
    by_bound, _ = ByBound().of_rows(start, Lines(), table, draws, streams())
    by_error = ByError(less_explained=True).of_rows(Lines(), table, streams())
    for found in (by_bound, by_error):
        torch.testing.assert_close(found, torch.full_like(found, Y_NOISE), rtol=0.115, atol=0)


def test_the_rules_are_these():
    assert list(NOISE_RULES) == ["rmse", "residual", "likelihood"]
    assert [rule.splits_error for rule in NOISE_RULES.values()] == [False, False, True]
    with pytest.raises(TypeError, match="renewed"):
        NoiseRule()


def test_the_error_is_judged_by_the_rows_held_out(rows):
    """The rows that were learned from fit twice as well, and say nothing."""
    table, _ = rows
    start = torch.ones(2, 1, dtype=torch.float64)
    learned = table._replace(y=(table.y + Lines().evaluate({"theta": start}, table.inputs.mean[:, None])[:, 0]) / 2)
    for rule in (ByError(), ByError(less_explained=True)):
        found = rule.renewed(start, Lines(), learned, table, None, streams())
        torch.testing.assert_close(found, rule.of_rows(Lines(), table, streams()), rtol=0, atol=0)


@pytest.mark.parametrize("factor", [1.0, 1.01, 2.0])
def test_the_bound_is_that_of_the_rows_learned_from_unless_those_held_out_disagree(rows, factor):
    """Labels held out scatter `factor` times as much: at 1 and 1.01 within a standard error, at 2 far off."""
    table, _ = rows
    line = Lines().evaluate({"theta": torch.zeros(2, 1)}, table.inputs.mean[:, None])[:, 0]
    judged = table._replace(y=line + factor * (table.y - line))
    start, draws = torch.ones(2, 1, dtype=torch.float64), ZetaDraws.of("gauss_hermite", 16, table.inputs)
    found = ByBound().renewed(start, Lines(), table, judged, draws, streams())
    learned, _ = ByBound().of_rows(start, Lines(), table, draws, streams())
    unseen, error = ByBound().of_rows(start, Lines(), judged, draws, streams())
    if factor == 2.0:
        torch.testing.assert_close(found, unseen, rtol=0.01, atol=0)
        assert ((unseen / learned).log() > 4 * error).all()
    else:
        torch.testing.assert_close(found, learned, rtol=0.01, atol=0)


@pytest.mark.parametrize("rule", NOISE_RULES.values(), ids=list(NOISE_RULES))
def test_exact_inputs_have_one_zeta_per_row(rows, rule):
    """All rules then find the root mean square of the residuals."""
    (inputs, y, *_), squares = rows
    table = Rows(ZetaNormal(inputs.mean, 0 * inputs.mean), y)
    found = rule.renewed(torch.ones(2, 1, dtype=torch.float64), Lines(), table, table, None, streams())
    torch.testing.assert_close(found[:, 0], squares.sqrt())


class Tiny(NoiseRule):
    """Finds next to nothing."""

    least_share = 0.8

    def renewed(self, y_noise, *_):
        return torch.full_like(y_noise, 1e-6)


def test_sigma_y_falls_by_a_fifth_at_most_but_for_the_last_time():
    likelihood = NormalLikelihood(torch.tensor([[1.0], [2.0]]), Tiny())
    likelihood.renew(None, None, None, None, None, is_last=False)
    torch.testing.assert_close(likelihood.y_noise, torch.tensor([[0.8], [1.6]]))
    likelihood.renew(None, None, None, None, None, is_last=True)
    torch.testing.assert_close(likelihood.y_noise, torch.full((2, 1), 1e-6))


@pytest.mark.parametrize("y_noise", ["rmse", "residual", "likelihood"])
def test_the_estimator_takes_every_rule(line, y_noise):
    X, y = line
    model = EiVRegressor(
        0.1, y_noise=y_noise, epochs=4, y_noise_every=2, hidden_units=8, random_state=0, recipe="paper"
    ).fit(X, y)
    assert np.isfinite(model.y_noise_).all()


@pytest.mark.filterwarnings("ignore::eiv.training.diagnostics.LooseBoundWarning")
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
    known = EiVRegressor(y_noise=0.1, **settings, recipe="paper").fit(X, y, y_err=np.where(wrong, 50.0, 0.0))
    assert abs(known.predict([[0.5]])[0] - 0.5) < 0.3
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


class Returns(NoiseRule):
    """Finds what it is made with."""

    def __init__(self, value):
        self.value = value

    def renewed(self, y_noise, *_):
        return self.value if not isinstance(self.value, torch.Tensor) else self.value.expand(y_noise.shape)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (0.1, TypeError, r"got 0\.1 \(float\)"),
        (np.full((1, 1), 0.1), TypeError, r"got array.* \(ndarray\)"),
        (None, TypeError, r"got None"),
        (torch.tensor(0.0), ValueError, r"above zero; got 0\."),
        (torch.tensor(-0.5), ValueError, r"got -0\.5"),
        (torch.tensor(torch.nan), ValueError, "got nan"),
        (torch.tensor(torch.inf), ValueError, "got inf"),
    ],
)
def test_what_a_rule_of_ones_own_returns_is_checked(value, error, words):
    X = np.linspace(-1, 1, 40)[:, None]
    model = EiVRegressor(0.1, y_noise=Returns(value), recipe="paper", epochs=2, y_noise_every=1, hidden_units=4)
    with pytest.raises(error, match=r"y_noise: Returns\.renewed must return .* of shape \(1, 1\).*" + words):
        model.fit(X, X[:, 0])


def test_a_rule_of_ones_own_finds_one_noise_per_network_and_output():
    class Flat(NoiseRule):
        def renewed(self, y_noise, *_):
            return y_noise[:, 0]

    likelihood = NormalLikelihood(torch.ones(2, 1), Flat())
    with pytest.raises(ValueError, match=r"Flat\.renewed must return .* of shape \(2, 1\) .* got the shape \(2,\)"):
        likelihood.renew(None, None, None, None, None, is_last=False)
    likelihood = NormalLikelihood(torch.ones(2, 1), Returns(torch.tensor(0.5, dtype=torch.float64)))
    likelihood.renew(None, None, None, None, None, is_last=False)
    torch.testing.assert_close(likelihood.y_noise, torch.full((2, 1), 0.5))
