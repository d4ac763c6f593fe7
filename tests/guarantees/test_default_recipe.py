"""What the default recipe promises. Bands: three standard errors, worked out before.

`make test` asks it of small networks and few steps, `make test-all` of the full size too.
"""

import numpy as np
import pytest

from eiv import EiVRegressor
from eiv.metrics import coverage

N_TEST = 4000


def small_and_full(epochs):
    small = {"hidden_units": 32, "n_hidden": 2, "epochs": epochs}
    sizes = [pytest.param(small, id="small"), pytest.param({}, id="full", marks=pytest.mark.slow)]
    return pytest.mark.parametrize("size", sizes)


@pytest.fixture(scope="module")
def normal_line():
    """Normal zeta of spread 1, g(zeta) = zeta, sigma_x = 0.5, sigma_y = 0.1: training and test rows."""
    random = np.random.default_rng(0)
    zeta = random.standard_normal(5000 + N_TEST)
    return (
        zeta,
        zeta[:, None] + 0.5 * random.standard_normal((len(zeta), 1)),
        zeta + 0.1 * random.standard_normal(len(zeta)),
    )


@small_and_full(epochs=10)
@pytest.mark.slow
def test_the_curve_is_not_flattened_where_the_true_inputs_are_normal(normal_line, size):
    """The slope has a standard error of 0.009: sqrt(0.21 / (5000 * 0.8)) from the labels, 0.004 from the prior."""
    zeta, X, y = normal_line
    grid = np.linspace(-1.5, 1.5, 61)[:, None]

    def fitted(**settings):
        return EiVRegressor(random_state=0, **size, **settings).fit(X[:5000], y[:5000])

    def slope(model):
        return np.polyfit(grid[:, 0], model.predict(grid, X_err=0), 1)[0]

    ours = fitted(x_err=0.5)
    assert 0.97 < slope(ours) < 1.03
    p = ours.predict_distribution(X[5000:])
    for method in ("moment", "quantile"):  # standard error 0.0035 from the test rows
        assert 0.93 < coverage(zeta[5000:], *p.interval(0.95, method=method)) < 0.97
    assert 0.7 < slope(fitted(x_err=0.5, input_prior="flat")) < 0.85
    assert 0.77 < slope(fitted(x_err=None)) < 0.83


@small_and_full(epochs=60)
def test_each_row_counts_with_its_own_error(size):
    """Errors from 0.02 to 0.4 on sin 3 zeta: thirds of the 4,000 test rows by error; standard error 0.006."""
    random = np.random.default_rng(0)
    n_train = 1000 if size else 2000
    zeta = random.uniform(-1, 1, (n_train + N_TEST, 1))
    errors = np.exp(random.uniform(np.log(0.02), np.log(0.4), zeta.shape))
    X = zeta + errors * random.standard_normal(zeta.shape)
    truth = np.sin(3 * zeta[:, 0])
    y = truth + 0.05 * random.standard_normal(len(truth))
    train, test = slice(n_train), np.arange(n_train, len(y))
    low, high = np.quantile(errors[test], [1 / 3, 2 / 3])
    thirds = test[errors[test, 0] < low], test[errors[test, 0] > high]

    def covered(model, X_err):
        return [
            coverage(truth[rows], *model.predict_distribution(X[rows], X_err=X_err[rows]).interval(0.95))
            for rows in thirds
        ]

    ours = EiVRegressor(random_state=0, **size).fit(X[train], y[train], X_err=errors[train])
    assert covered(ours, errors) == pytest.approx([0.95, 0.95], abs=0.03)
    mean_error = float(np.sqrt(np.mean(errors**2)))
    common = EiVRegressor(mean_error, random_state=0, **size).fit(X[train], y[train])
    assert all(abs(third - 0.95) > 0.03 for third in covered(common, np.full_like(errors, mean_error)))
