"""The best possible RMSE against closed forms and Monte Carlo."""

import numpy as np
import pytest
from scipy.stats import truncnorm

from eiv.datasets import SIMULATED, simulate
from eiv.experiments.studies import limits
from eiv.experiments.studies.limits import best_prediction, smallest_rmse
from eiv.metrics import rmse


@pytest.fixture
def coarse(monkeypatch):
    """The limit by a quarter of the nodes for x and for zeta, which moves it by 1e-5, and not kept for other tests."""
    monkeypatch.setattr(limits, "_NODES", 1001)
    return smallest_rmse.__wrapped__


def test_normal_zeta_and_a_line_have_a_closed_form():
    """Var(zeta | x) = 1 / (1 / spread^2 + 1 / x_err^2)."""
    problem = SIMULATED["linear"]
    expected = (problem.moments[1] ** -2 + problem.x_err**-2) ** -0.5
    assert smallest_rmse("linear", "normal") == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("zeta", "published"),
    [("uniform", (0.0955, 0.1002, 0.1744, 0.3724)), ("normal", (0.0986, 0.1130, 0.3159, 0.3649))],
)
def test_the_table_of_limits(coarse, zeta, published):
    """Against the table of the design, whose numbers come from an independent computation."""
    found = [coarse(name, zeta) for name in ("linear", "quadratic", "cubic", "sine")]
    np.testing.assert_allclose(found, published, rtol=0.004)


def test_no_guess_of_ours_does_better(coarse):
    """The best polynomial of degree nine in x on 200,000 rows comes close to the limit, and not below it."""
    data = simulate("quadratic", 200_000, random_state=0)
    functions = np.polynomial.legendre.legvander(data.X[:, 0] / 1.5, 9)
    best, *_ = np.linalg.lstsq(functions, data.truth, rcond=None)
    error = np.sqrt(np.mean((functions @ best - data.truth) ** 2))
    assert 0.995 < error / coarse("quadratic", "uniform") < 1.03


def test_the_best_prediction_of_normal_zeta_has_closed_forms():
    """zeta given x is normal with mean k x and variance v, where v = k x_err^2; both problems have zetas around 0."""
    x = np.array([-3.0, -0.4, 0.0, 1.3])
    spread, x_err = SIMULATED["linear"].moments[1], SIMULATED["linear"].x_err
    k = spread**2 / (spread**2 + x_err**2)
    np.testing.assert_allclose(best_prediction("linear", "normal", x), k * x, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(best_prediction("quadratic", "normal", x), (k * x) ** 2 + k * x_err**2, rtol=1e-8)


def test_the_best_prediction_of_uniform_zeta_is_the_mean_of_a_cut_normal():
    x = np.array([-2.0, -1.0, 0.0, 0.95])
    ends = (np.array([[-1.0], [1.0]]) - x) / 0.1
    expected = x + 0.1 * truncnorm.mean(*ends)
    np.testing.assert_allclose(best_prediction("linear", "uniform", x), expected, atol=2e-5)


@pytest.mark.parametrize("zeta", ["uniform", "normal"])
@pytest.mark.parametrize("name", ["cubic", "sine"])
def test_the_best_prediction_reaches_the_limit(coarse, name, zeta):
    data = simulate(name, 2000, random_state=0, zeta=zeta)
    error = rmse(data.truth, best_prediction(name, zeta, data.X[:, 0]))
    assert error / coarse(name, zeta) == pytest.approx(1, abs=0.1)
