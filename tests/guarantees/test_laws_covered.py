"""Coverage where errors are not normal and the law is given, and what missing readings cost.

Bands were set beforehand. Of 4,000 true values, 0.95 of them covered, the standard error of the share is 0.0034. The
fit itself leaves more than that open, so that 0.93 to 0.97 is asked of a single one.
"""

import numpy as np
import pytest

from eiv import EiVRegressor, rectangular, split_normal, student_t

pytestmark = pytest.mark.slow


def gaps(kind, random, n):
    """True values less readings, and their law."""
    if kind == "student_t":
        return 0.3 * random.standard_t(4, n), student_t(0.3, dof=4)
    if kind == "rectangular":
        return random.uniform(-0.8, 0.8, n), rectangular(0.8)
    sides = np.where(random.random(n) < 0.8, 0.6, -0.15)  # a side is as likely as it is wide
    return sides * np.abs(random.standard_normal(n)), split_normal(minus=0.15, plus=0.6)


@pytest.mark.parametrize("kind", ["student_t", "rectangular", "split_normal"])
def test_true_values_are_covered_under_the_law_of_their_errors(kind):
    random = np.random.default_rng(0)
    zeta = random.normal(size=4500)
    off, law = gaps(kind, random, 4500)
    X, truth = (zeta - off)[:, None], np.sin(2 * zeta)
    y = truth + 0.1 * random.standard_normal(4500)
    p = EiVRegressor(x_err=law, random_state=0).fit(X[:500], y[:500]).predict_distribution(X[500:])
    low, high = p.interval(0.95)
    assert 0.93 <= np.mean((low <= truth[500:]) & (truth[500:] <= high)) <= 0.97


def test_missing_readings_are_better_integrated_over_than_dropped_or_filled():
    """A tenth of the cells of five correlated columns. Of 2,000 labels, the standard error of a share is 0.005."""
    random = np.random.default_rng(0)
    root = random.normal(size=(5, 2))
    covariance = root @ root.T + 0.3 * np.eye(5)
    spread = np.sqrt(np.diag(covariance))
    zeta = random.multivariate_normal(np.zeros(5), covariance / spread / spread[:, None], 2400)
    X = zeta + 0.2 * random.standard_normal(zeta.shape)
    y = np.sin(zeta[:, 0] + zeta[:, 1]) + 0.5 * zeta[:, 2] + 0.3 * zeta[:, 3] * zeta[:, 4]
    y += 0.1 * random.standard_normal(2400)
    X[random.random(X.shape) < 0.1] = np.nan
    new, truth = X[400:], y[400:]
    complete, mean = ~np.isnan(X[:400]).any(1), np.nanmean(X[:400], 0)
    settings = {"x_err": 0.2, "random_state": 0}
    model = EiVRegressor(missing="integrate", **settings).fit(X[:400], y[:400])
    dropped = EiVRegressor(missing="integrate", **settings).fit(X[:400][complete], y[:400][complete])
    filled = EiVRegressor(**settings).fit(np.where(np.isnan(X[:400]), mean, X[:400]), y[:400])
    p = model.predict_distribution(new)
    low, high = p.interval(0.95, of="label")
    rmse, of_dropped, of_filled = (
        np.sqrt(np.mean((truth - predicted) ** 2))
        for predicted in (p.mean, dropped.predict(new), filled.predict(np.where(np.isnan(new), mean, new)))
    )
    assert rmse < of_dropped
    assert rmse < of_filled
    assert 0.93 <= np.mean((low <= truth) & (truth <= high)) <= 0.97
