"""`true_inputs` of the estimators: forms of the arguments, every family and likelihood, pools, chunks."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from eiv import EiVClassifier, EiVRegressor, FlatPrior, LabelErrorWarning, NormalPrior, TrueInputs
from eiv.engine import memory
from eiv.inputs import ZetaPosterior
from eiv.posteriors import FAMILIES

QUICK = {"epochs": 3, "hidden_units": 8, "n_theta": 10, "recipe": "paper", "random_state": 0}


def rows(n=60, n_x=2, seed=0):
    random = np.random.default_rng(seed)
    zeta = random.normal(size=(n, n_x))
    return zeta, zeta + 0.3 * random.normal(size=zeta.shape), zeta.sum(1) + 0.1 * random.normal(size=n)


@pytest.fixture(scope="module")
def line():
    """A straight line with a known noise."""
    _, X, y = rows(n_x=1)
    arguments = {
        "module": nn.Linear,
        "epochs": 50,
        "n_theta": 10,
        "random_state": 0,
        "posterior": "last_layer_laplace",
        "y_noise": 0.1,
        "learning_rate": 1e-2,
        "weight_penalty": 1e-3,
        "zeta_draws": "interpolated",
        "n_zeta": 16,
        "dtype": "float64",
    }
    return EiVRegressor(0.3, input_prior=NormalPrior(1.0), recipe="paper", **arguments).fit(X, y)


@pytest.fixture(scope="module")
def plane():
    _, X, y = rows()
    return EiVRegressor(0.3, **QUICK).fit(X, y)


def test_the_weights_are_integrated_over(line):
    r"""p(y | zeta) = N(y | mean of f, sigma_y^2 + its variance over theta), on a grid of zeta.

    A thousand thetas: their mean is right to 1 / sqrt(1000) of a standard deviation, or three times that.
    """
    model, x, y = line.model_, 0.5, 0.8
    grid = np.linspace(-2, 2.1, 4001)
    p = line.predict_distribution(grid[:, None], X_err=0)
    shrinkage = 1 / (1 + 0.3**2)
    of_x = -0.5 * (grid - shrinkage * x) ** 2 / (shrinkage * 0.3**2)
    variance = p.epistemic**2 + 0.1**2
    weights = np.exp(of_x - 0.5 * (y - p.mean) ** 2 / variance - 0.5 * np.log(variance))
    weights /= weights.sum()
    mean = weights @ grid
    std = (weights @ (grid - mean) ** 2) ** 0.5
    line.set_params(n_theta=1000)
    found = line.true_inputs([[x]], [y])
    line.set_params(n_theta=10)
    assert model.posterior.in_closed_form
    assert abs(found.mean.item() - mean) < 3 * std / 1000**0.5
    assert abs(found.std.item() / std - 1) < 3 / 2000**0.5 + 0.01


def test_a_label_narrows_the_true_input_down(line):
    zeta, X, y = rows(200, 1, seed=1)
    alone, together = line.true_inputs(X), line.true_inputs(X, y)
    np.testing.assert_allclose(alone.std, 0.3 / (1 + 0.3**2) ** 0.5)
    assert (together.std < 0.6 * alone.std).all()
    errors = [np.sqrt(((found.mean - zeta) ** 2).mean()) for found in (alone, together)]
    assert errors[1] < 0.6 * errors[0]
    assert repr(together) == "TrueInputs(rows=200, features=1, draws=500)"
    assert isinstance(together, TrueInputs)
    np.testing.assert_allclose(together.std[:, 0] ** 2, together.covariance[:, 0, 0])


def test_rows_alone_and_together_and_in_chunks_are_the_same(plane, monkeypatch):
    _, X, y = rows(9)
    errors = np.full((9, 2), 0.3)
    errors[3, 1], errors[5] = 0, 0
    labels = np.where(np.arange(9) == 7, np.nan, y)
    whole = plane.true_inputs(X, labels, X_err=errors)
    monkeypatch.setitem(memory.DRAWS, "cpu", 2**15)
    parts = plane.true_inputs(X, labels, X_err=errors)
    for row in range(9):
        single = plane.true_inputs(X[[row]], labels[[row]], X_err=errors[[row]])
        for found in (single.draws[:, 0], parts.draws[:, row]):
            np.testing.assert_allclose(found, whole.draws[:, row], atol=1e-6)
        np.testing.assert_allclose(single.std[0], whole.std[row], atol=1e-8)
        np.testing.assert_allclose(single.ess[0], whole.ess[row], rtol=1e-6)
    np.testing.assert_array_equal(whole.mean[5], X[5])
    np.testing.assert_array_equal(whole.mean[3, 1], X[3, 1])
    assert not whole.std[5].any()
    assert whole.std[3, 1] == 0 < whole.std[3, 0]
    np.testing.assert_array_equal(whole.mean[7], plane.true_inputs(X[[7]]).mean[0])
    again = plane.true_inputs(X, labels, X_err=errors)
    np.testing.assert_array_equal(again.draws, parts.draws)


@pytest.mark.parametrize("posterior", FAMILIES)
def test_every_family(posterior):
    _, X, y = rows()
    model = EiVRegressor(0.3, posterior=posterior, n_networks=2, **QUICK).fit(X, y)
    found = model.true_inputs(X[:3], y[:3])
    assert np.isfinite(found.draws).all()
    assert (found.std > 0).all()
    assert (found.ess >= 1).all()
    assert (found.ess <= 100.001).all(), "two networks, ten thetas each, five lines"
    assert np.abs(found.mean - model.true_inputs(X[:3]).mean).min() > 0


@pytest.mark.parametrize("likelihood", ["student_t", "varying"])
@pytest.mark.parametrize("n_x", [1, 2])
@pytest.mark.usefixtures("any_head")
def test_every_likelihood(likelihood, n_x):
    _, X, y = rows(n_x=n_x)
    arguments = QUICK | {"y_noise": "likelihood", "epochs": 20}
    model = EiVRegressor(0.3, likelihood=likelihood, **arguments).fit(X, y)
    alone, found = model.true_inputs(X[:3]), model.true_inputs(X[:3], y[:3])
    assert np.isfinite(found.draws).all()
    assert np.abs(found.mean - alone.mean).max() > 1e-3
    wide = model.set_params(n_theta=100).true_inputs(X[:3], y[:3], y_err=1e3)
    np.testing.assert_allclose(wide.mean, alone.mean, atol=2 * 0.3 / 100**0.5)  # a hundred lines, not matched


def test_several_outputs():
    _, X, y = rows(80)
    model = EiVRegressor(0.3, **QUICK | {"epochs": 20, "dtype": "float64"})
    model.fit(X, np.stack([y, X[:, 0] - X[:, 1]], axis=1))
    found = model.true_inputs(X[:4], np.stack([y, X[:, 0] - X[:, 1]], axis=1)[:4])
    assert found.covariance.shape == (4, 2, 2)
    assert np.linalg.eigvalsh(found.covariance).min() > 0


def test_a_class_says_on_which_side_zeta_lies():
    zeta, X, _ = rows(300, 1)
    model = EiVClassifier(0.3, random_state=0, epochs=30, n_theta=20).fit(X, np.where(zeta[:, 0] > 0, "high", "low"))
    x = np.zeros((2, 1))
    found = model.true_inputs(x, ["high", "low"])
    assert found.mean[0] > 0.1 > -0.1 > found.mean[1]
    assert (found.std < model.true_inputs(x).std).all()
    with pytest.raises(ValueError, match="'middle' is a class that the fit has not seen"):
        model.true_inputs(x, ["high", "middle"])
    with pytest.raises(ValueError, match="y_err: classes have no error bars"):
        model.true_inputs(x, ["high", "low"], y_err=0.1)


class Uniform(ZetaPosterior):
    """Between mean - std and mean + std."""

    def draw(self, noise):
        return self.mean.unsqueeze(-2) + self.std.unsqueeze(-2) * (2 * torch.special.ndtr(noise) - 1)


class UniformPrior:
    def posterior(self, x, x_err):
        return Uniform(x, x_err.expand_as(x))


def test_a_posterior_of_the_users_own(line):
    """Uniform within 0.3 of x; a label at the upper end moves zeta there, and not beyond."""
    end, start = line.predict([[1.0], [0.0]], X_err=0)
    alone = line.true_inputs([[0.0]], input_prior=UniformPrior())
    assert alone.std.item() == pytest.approx(0.3 / 3**0.5, rel=0.01)
    found = line.true_inputs([[0.0]], [start + 0.5 * (end - start)], input_prior=UniformPrior())
    assert 0.2 < found.mean.item() < 0.3
    assert found.draws.max() < 0.3


def test_tables_by_name_another_prior_and_a_constant_column():
    _, X, y = rows(n_x=2)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": 7.0}, index=[f"r{i}" for i in range(60)])
    model = EiVRegressor({"a": 0.3, "b": 0.0, "c": 0.0}, **QUICK).fit(table, pd.Series(y))
    found = model.true_inputs(table[:5], y[:5], input_prior=NormalPrior(0.01, mean=5.0))
    np.testing.assert_allclose(found.mean[:, 0], 5.0, atol=0.03)
    frame = found.to_frame()
    parts = ("", "_true", "_true_std", "_true_low", "_true_high")
    assert list(frame) == [f"{name}{part}" for name in "abc" for part in parts] + ["ess"]
    assert list(frame.index) == ["r0", "r1", "r2", "r3", "r4"]
    np.testing.assert_array_equal(frame[["b", "c"]], frame[["b_true", "c_true"]])
    np.testing.assert_array_equal(frame["c_true_low"], 7.0)
    assert (frame["a_true_low"] < frame["a_true"]).all()
    flat = model.true_inputs(table[:5], input_prior=FlatPrior())
    np.testing.assert_allclose(flat.mean, table[:5])


def test_draws_need_not_be_kept(plane):
    _, X, y = rows(4)
    kept, not_kept = (plane.true_inputs(X, y, keep_draws=keep, n_draws=50) for keep in (True, False))
    assert kept.draws.shape == (50, 4, 2)
    assert not_kept.draws is None is not_kept.covariance
    np.testing.assert_array_equal(kept.std, not_kept.std)
    with pytest.raises(ValueError, match="keep_draws=True"):
        not_kept.interval()
    low, high = not_kept.interval(method="moment")
    np.testing.assert_allclose(high - low, 2 * 1.959964 * kept.std)
    np.testing.assert_array_equal(not_kept.to_frame()["x0_true_low"], low[:, 0])


def test_a_file_has_the_same_answers(plane, tmp_path):
    _, X, y = rows(3)
    plane.save(tmp_path / "model.eiv")
    loaded = EiVRegressor.load(tmp_path / "model.eiv")
    np.testing.assert_array_equal(loaded.true_inputs(X, y).draws, plane.true_inputs(X, y).draws)


def test_bad_arguments(plane):
    _, X, y = rows(4)
    for arguments, words in [
        ({"y": y[:3]}, "same number of rows: X has 4, y has 3"),
        ({"y": np.stack([y, y], axis=1)}, r"y must have shape \(rows\), as in the fit, got \(4, 2\)"),
        ({"y": [1.0, 2.0, np.inf, 3.0]}, "finite numbers, or NaN for all outputs"),
        ({"y": ["a"] * 4}, "y must hold numbers only"),
        ({"y_err": 0.1}, "y_err is the error of labels, but y is None"),
        ({"y": y, "y_err": -1.0}, "y_err must hold finite standard deviations"),
        ({"n_draws": 1}, "n_draws must be an integer of at least 2, got 1"),
        ({"n_draws": 2.5}, "n_draws must be an integer of at least 2, got 2.5"),
        ({"input_prior": "normal"}, "has to be learned before a prediction"),
    ]:
        with pytest.raises(ValueError, match=words):
            plane.true_inputs(X, **arguments)
    found = plane.true_inputs(X)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        found.interval(1.5)
    with pytest.raises(ValueError, match="'quantile' or 'moment'"):
        found.interval(method="mode")
    with pytest.raises(ValueError, match="q must lie between 0 and 1"):
        found.quantile(2.0)


def test_known_errors_of_labels_are_missed_where_the_fit_had_some():
    _, X, y = rows()
    model = EiVRegressor(0.3, **QUICK).fit(X, y, y_err=0.1)
    with pytest.warns(LabelErrorWarning, match="y_err"):
        model.true_inputs(X[:2], y[:2])
    model.true_inputs(X[:2], y[:2], y_err=0.1)
    model.true_inputs(X[:2])
