"""Predictions for rows of another population than the training rows, by a prior that is given."""

import numpy as np
import pytest
import torch
from torch import nn

from eiv import EiVRegressor, FlatPrior, LearnedPrior, MixturePrior, NormalPrior

X_ERR = 0.5


def line(n_inputs, n_outputs):
    return nn.Linear(n_inputs, n_outputs)


@pytest.fixture(scope="module")
def model():
    """A straight line, fitted to rows about zero."""
    random = np.random.default_rng(0)
    zeta = random.normal(size=(200, 1))
    X, y = zeta + X_ERR * random.normal(size=zeta.shape), 2 * zeta[:, 0] + 1 + 0.1 * random.normal(size=200)
    return EiVRegressor(X_ERR, module=line, epochs=30, dtype="float64", random_state=0).fit(X, y)


def slope_and_start(model):
    start, end = model.predict([[0.0], [1.0]], X_err=0)
    return end - start, start


def test_a_line_under_a_normal_prior_is_the_line_at_the_mean_of_zeta(model):
    """zeta given x is N(mu + s (x - mu), s sigma_x^2) with s = 1 / (1 + sigma_x^2 / lambda^2)."""
    slope, start = slope_and_start(model)
    x, mu, spread = np.array([-1.0, 0.5, 2.0]), 1.5, 0.8
    s = 1 / (1 + X_ERR**2 / spread**2)
    p = model.predict_distribution(x[:, None], input_prior=NormalPrior(spread, mu))
    np.testing.assert_allclose(p.mean, start + slope * (mu + s * (x - mu)), rtol=1e-9)
    np.testing.assert_allclose(p.aleatoric, abs(slope) * s**0.5 * X_ERR, rtol=1e-9)
    mean, std = model.predict(x[:, None], return_std=True, input_prior=NormalPrior(spread, mu))
    np.testing.assert_array_equal(mean, p.mean)
    np.testing.assert_array_equal(std, p.std)
    of_fit = model.predict(x[:, None])
    assert np.abs(of_fit - p.mean).min() > 0.1, "another prediction than for the training population"


def test_flat_by_name_and_priors_as_objects(model):
    slope, start = slope_and_start(model)
    x = np.array([[-1.0], [2.0]])
    for flat in ("flat", FlatPrior(), NormalPrior(np.inf)):
        np.testing.assert_allclose(model.predict(x, input_prior=flat), start + slope * x[:, 0], rtol=1e-9)
    mixture = MixturePrior([1.0], [[1.5]], [[0.64]])
    expected = model.predict(x, input_prior=NormalPrior(0.8, 1.5))
    np.testing.assert_allclose(model.predict(x, input_prior=mixture), expected, rtol=1e-9)


def test_a_prior_learned_from_the_rows_of_another_room(model):
    """Rows about 2 with a spread of 0.7: the posterior mean of zeta is within a tenth of that of the true prior."""
    random = np.random.default_rng(1)
    zeta = 2 + 0.7 * random.normal(size=(4000, 1))
    x = zeta + X_ERR * random.normal(size=zeta.shape)
    learned = LearnedPrior().fit(torch.tensor(x), torch.tensor([[X_ERR]], dtype=torch.float64))
    rows = np.array([[1.0], [2.0], [3.0]])
    found, expected, of_fit = (
        model.predict(rows, input_prior=prior) for prior in (learned, NormalPrior(0.7, 2.0), None)
    )
    np.testing.assert_allclose(found, expected, atol=0.1)
    assert np.abs(of_fit - expected).max() > 0.3


def test_exact_rows_have_no_prior(model):
    x = [[0.3]]
    found = model.predict(x, X_err=0, input_prior=NormalPrior(0.1, 5.0))
    np.testing.assert_allclose(found, model.predict(x, X_err=0), rtol=1e-12)


def test_the_model_itself_stays_as_it_is(model):
    before, prior = model.predict([[0.3]]), model.input_prior_
    p = model.predict_distribution([[0.3]], input_prior=NormalPrior(0.1, 5.0))
    assert model.input_prior_ is prior
    assert model.predict([[0.3]]) == before
    assert not p.unlike[0], "likeness is to the training rows, whatever the prior"


def test_zetas_can_be_drawn_for_it(model):
    zeta = model.draw_zeta([[1.0]], 4000, random_state=0, input_prior=NormalPrior(0.5, 3.0))  # s = 1/2
    assert zeta.mean() == pytest.approx(2.0, abs=4 * 0.36 / 4000**0.5)
    assert zeta.std() == pytest.approx(0.5**0.5 * X_ERR, rel=0.05)


@pytest.mark.parametrize(
    ("prior", "error", "message"),
    [
        ("mixture", ValueError, r"input_prior: 'mixture' has to be learned before a prediction.*LearnedPrior\(\)\.fit"),
        ("normal", ValueError, "input_prior: 'normal' has to be learned"),
        (LearnedPrior(), ValueError, r"input_prior: LearnedPrior\(.*has to be learned"),
        ("uniform", ValueError, "input_prior must be 'flat', 'normal' or 'mixture', or an input .*, got 'uniform'"),
        (NormalPrior, ValueError, "input_prior must be .*got <class"),
        (0.3, ValueError, "input_prior must be .*got 0.3"),
        (NormalPrior([1.0, 2.0]), ValueError, "NormalPrior: std must be a number or one value per feature"),
    ],
)
def test_other_priors_are_refused(model, prior, error, message):
    for predict in (model.predict, model.predict_distribution):
        with pytest.raises(error, match=message):
            predict([[0.0]], input_prior=prior)


def test_what_was_set_has_no_prior():
    X, y = np.random.default_rng(0).normal(size=(2, 60))
    model = EiVRegressor(0.3, error_model="berkson", module=line, epochs=2).fit(X[:, None], y)
    with pytest.raises(ValueError, match="input_prior has no meaning for error_model='berkson'"):
        model.predict([[0.0]], input_prior="flat")
