"""The best possible RMSE against closed forms and Monte Carlo."""

import numpy as np
import pytest

from eiv.datasets import SIMULATED, simulate
from eiv.studies.limits import smallest_rmse


def test_normal_zeta_and_a_line_have_a_closed_form():
    """Var(zeta | x) = 1 / (1 / spread^2 + 1 / x_err^2)."""
    problem = SIMULATED["linear"]
    expected = (problem.moments[1] ** -2 + problem.x_err**-2) ** -0.5
    assert smallest_rmse("linear", "normal") == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("zeta", "published"),
    [("uniform", (0.0955, 0.1002, 0.1744, 0.3724)), ("normal", (0.0986, 0.1130, 0.3159, 0.3649))],
)
def test_the_table_of_limits(zeta, published):
    """Against the table of the design, whose numbers come from an independent computation."""
    found = [smallest_rmse(name, zeta) for name in ("linear", "quadratic", "cubic", "sine")]
    np.testing.assert_allclose(found, published, rtol=0.004)


def test_no_guess_of_ours_does_better():
    """The best polynomial of degree nine in x on 200,000 rows comes close to the limit, and not below it."""
    data = simulate("quadratic", 200_000, random_state=0)
    functions = np.polynomial.legendre.legvander(data.X[:, 0] / 1.5, 9)
    best, *_ = np.linalg.lstsq(functions, data.truth, rcond=None)
    error = np.sqrt(np.mean((functions @ best - data.truth) ** 2))
    assert 0.995 < error / smallest_rmse("quadratic", "uniform") < 1.03
