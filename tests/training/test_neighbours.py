"""Neighbouring rows against sigma_y: the statistic by its closed form, and what a fit says."""

import warnings

import numpy as np
import pandas as pd
import pytest

from eiv import EiVRegressor, MissedCurveWarning, fit_splits
from eiv.training.neighbours import NeighbourTest, _nearest
from eiv.training.settings import RECIPES

SMALL = {"hidden_units": 8, "n_hidden": 1, "n_theta": 4, "random_state": 0}


def wave(n=300, noise=0.05):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (n, 1))
    return x, np.sin(3 * x[:, 0]) + noise * random.normal(size=n)


@pytest.mark.parametrize("kind", ["line", "plane", "two values"])
def test_mean_and_standard_error_of_the_differences(kind):
    """4,000 sets of normal labels on the same rows: the mean within 4 standard errors, the deviation within 5 %."""
    random = np.random.default_rng(0)
    x = {
        "line": np.sort(random.normal(size=(80, 1)), axis=0),
        "plane": random.normal(size=(80, 2)) * [1, 1000],
        "two values": random.integers(0, 2, (80, 1)).astype(float),
    }[kind]
    found = [NeighbourTest.of(x, 3 * random.normal(size=80)) for _ in range(4000)]
    squares = np.array([test.difference**2 for test in found]) / 9
    expected = np.median([test.error for test in found])  # the kurtosis of a sample is above 3 in half of them
    assert squares.mean() == pytest.approx(1, abs=4 * expected / 4000**0.5)
    assert squares.std() == pytest.approx(expected, rel=0.05)


def test_neighbours_are_those_of_a_search_by_hand():
    random = np.random.default_rng(0)
    x = np.column_stack([random.normal(size=40), 1e6 * random.normal(size=40), np.full(40, 5.0)])
    unit = x[:, :2] / x[:, :2].std(0)
    for i, place in enumerate(_nearest(x)):
        distances = np.linalg.norm(unit - unit[i], axis=1)
        assert place == np.argsort(distances)[1]


@pytest.mark.parametrize("law", ["normal", "heavy tails"])
def test_noise_is_not_taken_for_a_curve_and_a_curve_is(law):
    """200 tables of noise alone, with sigma_y the spread of y; and a wave with a tenth of its spread as noise."""
    random = np.random.default_rng(0)
    for _ in range(200):
        x = random.normal(size=(60, 2))
        y = random.normal(size=60) if law == "normal" else random.standard_t(2, size=60)
        assert not NeighbourTest.of(x, y).contradicts(y.std())
    for n in (60, 300, 5000):
        x, y = wave(n, noise=0.07)
        test = NeighbourTest.of(x, y)
        assert test.contradicts(y.std())
        assert not test.contradicts(0.07)
        assert 0.05 < test.difference < 0.15


def test_errors_of_x_and_a_steep_curve_can_but_raise_the_difference():
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (400, 1))
    y = 5 * zeta[:, 0] + 0.1 * random.normal(size=400)
    exact, noisy = (NeighbourTest.of(zeta + error * random.normal(size=zeta.shape), y) for error in (0, 0.3))
    assert 0.1 < exact.difference < 0.12
    assert noisy.difference > 1


def test_a_fit_that_misses_the_curve_warns_and_names_what_to_do(monkeypatch):
    monkeypatch.setitem(RECIPES["default"], "epochs", 1)
    x, y = wave()
    words = r"sigma_y came out at 0\.\d+, but labels .* as if it were 0\.0\d+ at most.*network='cosine' or more epochs"
    with pytest.warns(MissedCurveWarning, match=words) as found:
        EiVRegressor(**SMALL).fit(x, y)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EiVRegressor(**SMALL, epochs=1).fit(x, y)  # which was asked for
        EiVRegressor(**SMALL).fit(x, np.random.default_rng(0).normal(size=len(x)))  # there is no curve


def test_of_several_models_and_outputs_the_worst_is_named_once(monkeypatch):
    monkeypatch.setitem(RECIPES["default"], "epochs", 1)
    x, y = wave()
    noise = np.random.default_rng(1).normal(size=len(y))
    outputs = pd.DataFrame({"noise": noise, "wave": y, "less": y + 0.2 * noise})
    with pytest.warns(MissedCurveWarning) as found:
        fit_splits(EiVRegressor(**SMALL), x, outputs, [range(200), range(100, 300)])
    assert len(found) == 1
    assert "sigma_y of wave came out" in str(found[0].message)


def test_known_errors_of_labels_count_as_noise():
    """A sigma_y that is too large for the labels, with them or by itself; and one that is not."""
    x, y = wave(80)
    model = EiVRegressor(0.01, network="cosine", hidden_units=16, y_noise=0.02, random_state=0)
    with pytest.warns(MissedCurveWarning, match="network='paper'"):
        model.fit(x, y, y_err=0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MissedCurveWarning)
        model.fit(x, y, y_err=0.02)
