"""Columns of which rounding leaves little are warned about, and no others."""

import warnings

import numpy as np
import pytest

from eiv import EiVClassifier, EiVRegressor, LostPrecisionWarning, fit_splits
from eiv.inputs.rounding import warn_of_rounding
from eiv.scaling import Scaler

FAST = {"hidden_units": 4, "epochs": 1, "n_theta": 4, "random_state": 0, "device": "cpu", "recipe": "paper"}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(200, 2))
Y = X[:, 0] + 0.1 * RANDOM.standard_normal(200)


def with_value(values, value):
    return np.where(np.arange(values.size).reshape(values.shape) == 7, value, values)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (X + 1e15, Y, "X: column 0 reaches from 1e[+]15 to 1e[+]15, so that its values are rounded to steps of 0.12"),
        (
            with_value(X, 1e12),
            Y,
            r"X: column 1 reaches from -3\.\d* to 1e[+]12, .* the middle half of them spans 1\.\d",
        ),
        (X, with_value(Y, 1e12), r"y reaches from -\d\.\d* to 1e[+]12, .* correct or leave out values that are far"),
    ],
)
def test_an_offset_or_a_value_far_off_is_warned_about(x, y, words):
    with pytest.warns(LostPrecisionWarning, match=words) as caught:
        EiVRegressor(**FAST).fit(x, y)
    assert caught[0].filename == __file__
    with pytest.warns(LostPrecisionWarning, match=words):
        fit_splits(EiVRegressor(**FAST), x, y, [range(100)])


def test_classes_are_warned_about_their_inputs():
    with pytest.warns(LostPrecisionWarning, match="X: column 0"):
        EiVClassifier(**FAST).fit(X + 1e15, Y > 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_limit_is_a_hundredth_of_the_spread(dtype):
    """Standardised values m + s z; the step at z = 0.674, below 1, is half of the type's relative precision."""
    x = RANDOM.standard_normal(20001)[:, None]
    span = np.subtract(*np.quantile(x, (0.75, 0.25)))
    limit = 0.01 * np.sqrt(12) * span / 1.349
    precision = np.finfo(dtype).eps / 2
    for factor, warned in ((0.4, False), (2.5, True)):  # the step is a power of two
        scaler = Scaler(np.zeros(1), np.array([1.0]))
        shift = -0.75 / precision * factor * limit  # standardised values about -shift, where steps are that large
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_rounding("X", x, Scaler(np.array([shift]), scaler.scale), dtype)
        assert bool(caught) == warned


@pytest.mark.filterwarnings("error")
def test_usual_columns_pass_in_silence():
    binary = (X[:, :1] > 1).astype(float)
    EiVRegressor(**FAST).fit(np.hstack([X * 1e-12, X + 1e6, binary, np.full((200, 1), 1e15)]), 1e9 + Y)
    EiVRegressor(**FAST).fit(with_value(X, 1e3), with_value(Y, 1e3))
    EiVRegressor(**FAST | {"recipe": "default"}, likelihood="student_t").fit(X, with_value(Y, 1e9))
