"""The shape of the law of errors, learned from the rows of a fit by the joint bound."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from eiv import EiVRegressor, law_from_fit

pytest.importorskip("zuko")
SETTINGS = {"network": "cosine", "x_err_factor": 1.0, "random_state": 0}


def bimodal(n, random):
    """Errors that stick at either end: two peaks at 0.4 and -0.4 with a width of 0.1."""
    return random.choice([-0.4, 0.4], n) + 0.1 * random.standard_normal(n)


def lost(law, fresh):
    """What a law loses of the true density, in nats per error."""
    parts = law.parts(np.zeros(1), "x_err")
    found = logsumexp(parts.log_weights + stats.norm.logpdf(fresh[:, None], parts.shifts, parts.stds), axis=1)
    peaks = [stats.norm.logpdf(fresh, peak, 0.1) for peak in (-0.4, 0.4)]
    return float(np.mean(np.logaddexp(*peaks) - np.log(2) - found))


def posterior(weights, shifts, stds, x):
    """Of a true value with a standard normal prior and the reading x, by quadrature."""
    zeta = np.linspace(-4, 4, 4001)[:, None]
    density = stats.norm.pdf(zeta[:, 0]) * (stats.norm.pdf(zeta - x, shifts, stds) @ np.asarray(weights))
    return density / density.sum()


def rows(n, f):
    random = np.random.default_rng(0)
    zeta = random.normal(size=n)
    X = (zeta - bimodal(n, random))[:, None]
    return X, f(zeta) + 0.05 * random.standard_normal(n), bimodal(20_000, random)


def wave(zeta):
    return np.sin(1.5 * zeta)


def test_two_peaks_are_found_where_labels_tell():
    """A normal law of the same standard deviation loses 0.72 nats; half of that is to be gained from 200 rows."""
    X, y, fresh = rows(200, np.positive)
    model = EiVRegressor(0.17**0.5, hidden_units=8, **SETTINGS).fit(X, y)
    law = law_from_fit(model, X, y)
    parts = law.parts(np.zeros(1), "x_err")
    assert parts.mean[0] == pytest.approx(0, abs=1e-3)
    assert parts.std[0] == pytest.approx(0.17**0.5, rel=1e-2)
    assert lost(law, fresh) < 0.36
    for x in (-1.0, 0.0, 1.0):
        truth = posterior([1, 1], [-0.4, 0.4], [0.1, 0.1], x)
        off, normal = (
            0.5 * np.abs(found - truth).sum()
            for found in (posterior(law.weights, law.shifts, law.stds, x), posterior([1], [0], [0.17**0.5], x))
        )
        assert off < 0.5 * normal  # probability that lies elsewhere


@pytest.mark.slow
def test_two_peaks_are_found_on_a_curve():
    X, y, fresh = rows(300, wave)
    model = EiVRegressor(0.17**0.5, hidden_units=16, **SETTINGS).fit(X, y)
    assert lost(law_from_fit(model, X, y), fresh) < 0.36


def test_what_a_law_cannot_be_learned_from():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 2)), random.normal(size=40)
    quick = {"input_prior": "flat", "epochs": 2, "hidden_units": 8, "n_theta": 4, "random_state": 0}
    model = EiVRegressor(0.1, **quick).fit(X, y)
    with pytest.raises(ValueError, match="one column has an error, the same in all rows; 2 have one here"):
        law_from_fit(model, X, y)
    with pytest.raises(ValueError, match="the same in all rows; 1 have one here"):
        law_from_fit(model, X, y, X_err=np.column_stack([1 + np.arange(40.0), np.zeros(40)]) / 100)
    with pytest.raises(TypeError, match="a fitted EiVRegressor"):
        law_from_fit("model", X, y)
