"""Predictions in the forms of other packages; MAPIE's intervals on top of ours."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from eiv import EiVRegressor, Prediction
from eiv.likelihoods import NormalLabels

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture
def prediction():
    """Two rows of a normal f, with noise 0.5 of labels."""
    mean, std = np.array([1.0, -2.0]), np.array([0.3, 2.0])
    draws = mean + std * norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None]
    labels = NormalLabels(np.full(2, 0.5))
    return Prediction(mean, std, np.zeros(2), labels.std, draws=draws, index=pd.Index(["a", "b"]), labels=labels)


@pytest.mark.parametrize("of", ["function", "label"])
def test_qp_has_the_distribution_of_each_row(prediction, of):
    pytest.importorskip("qp")
    found = prediction.to_qp(of)
    assert found.npdf == 2
    width = prediction.std if of == "function" else prediction.total
    for q in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(found.ppf([[q]] * 2)[:, 0], prediction.mean + width * norm.ppf(q), atol=0.02)
        np.testing.assert_allclose(found.cdf(prediction.quantile(q, of)[:, None])[:, 0], q, atol=0.01)


def test_quantiles_of_labels_on_a_grid_are_those_of_a_search():
    """Of draws that are far from normal, with noise in some rows and nearly none in another."""
    pytest.importorskip("qp")
    draws = np.random.default_rng(0).exponential(size=(300, 3)) * [1.0, 5.0, 1.0]
    labels = NormalLabels(np.array([0.5, 0.2, 1e-6]))
    p = Prediction(draws.mean(0), draws.std(0), np.zeros(3), labels.std, draws=draws, labels=labels)
    found = p.to_qp("label", n_quantiles=19).objdata["locs"][:, 1:-1]  # qp adds both ends
    exact = p.quantile((np.arange(19) + 0.5) / 19, of="label").T
    np.testing.assert_allclose(found, exact, atol=0.01 * draws.std(0).max())


def test_qp_refuses_what_it_cannot_hold(prediction):
    pytest.importorskip("qp")
    with pytest.raises(ValueError, match="n_quantiles must be a whole number of at least 3, got 2"):
        prediction.to_qp(n_quantiles=2)
    wide = Prediction(*np.zeros((4, 3, 2)), draws=np.zeros((5, 3, 2)))
    with pytest.raises(ValueError, match="one output, got 2"):
        wide.to_qp()
    with pytest.raises(ValueError, match="draws, which were not kept"):
        Prediction(*np.zeros((4, 3))).to_qp()


def test_arviz_has_draws_labels_and_what_was_observed(prediction):
    arviz = pytest.importorskip("arviz")
    found = prediction.to_arviz(y=[1.1, -1.0], random_state=3)
    assert isinstance(found, arviz.InferenceData)
    np.testing.assert_array_equal(found.posterior["f"].values[0], prediction.draws)
    assert found.posterior["f"]["row"].values.tolist() == ["a", "b"]
    np.testing.assert_array_equal(
        found.posterior_predictive["y"].values[0], prediction.samples("label", random_state=3)
    )
    assert found.observed_data["y"].values.tolist() == [1.1, -1.0]
    assert arviz.summary(found, kind="stats")["mean"].tolist() == pytest.approx([1.0, -2.0], abs=1e-3)
    with pytest.raises(ValueError, match=r"y must have the shape of the prediction, \(2,\), got \(3,\)"):
        prediction.to_arviz(y=[1.0, 2.0, 3.0])


def test_arviz_names_several_outputs():
    pytest.importorskip("arviz")
    p = Prediction(*np.zeros((4, 3, 2)), draws=np.zeros((5, 3, 2)), output_names=("u", "v"))
    found = p.to_arviz()
    assert found.groups() == ["posterior"]
    assert found.posterior["f"].dims == ("chain", "draw", "row", "output")
    assert found.posterior["output"].values.tolist() == ["u", "v"]


def test_html_shows_the_first_rows_and_is_harmless(prediction):
    many = Prediction(*np.ones((4, 30)), index=pd.Index([f"<b>{i}" for i in range(30)]))
    shown = many._repr_html_()
    assert shown.count("<tr") == 11
    assert "and 20 more rows" in shown
    assert "<b>0" not in shown
    assert "more rows" not in prediction._repr_html_()


def test_html_of_a_fitted_model_names_inputs_and_errors():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(50, 2)), columns=["a", "<i>b"])
    model = EiVRegressor([0.1, 0.2], epochs=2, hidden_units=8, recipe="paper").fit(X, X["a"].rename("y") + 0.1)
    shown = model.model_._repr_html_()
    assert "&lt;i&gt;b" in shown
    assert "<i>b" not in shown
    assert "<td>0.2</td>" in shown
    assert "BernoulliDropout" in shown


def test_intervals_of_mapie_on_top_of_ours():
    """Split conformal intervals: the prediction and the 0.9 quantile of absolute residuals, (n + 1) 0.9 over n.

    Their coverage given 200 rows of conformalisation is a draw of Beta(181, 20), whose mean is 0.90 and whose standard
    deviation is 0.021. The band is four of these, and four standard errors of a share of 1,000 rows, 0.0095 each.
    """
    mapie = pytest.importorskip("mapie.regression")
    random = np.random.default_rng(0)
    zeta = random.normal(size=(1400, 1))
    X, y = zeta + 0.3 * random.normal(size=(1400, 1)), np.sin(2 * zeta[:, 0]) + 0.1 * random.normal(size=1400)
    model = EiVRegressor(0.3, network="cosine", hidden_units=32, random_state=0).fit(X[:200], y[:200])
    conformal = mapie.SplitConformalRegressor(model, confidence_level=0.9, prefit=True)
    conformal.conformalize(X[200:400], y[200:400])
    mean, intervals = conformal.predict_interval(X[400:])
    np.testing.assert_allclose(mean, model.predict(X[400:]))
    residuals = np.sort(np.abs(y[200:400] - model.predict(X[200:400])))
    width = residuals[int(np.ceil(201 * 0.9)) - 1]
    np.testing.assert_allclose(intervals[:, 1, 0] - mean, width)
    covered = np.mean((intervals[:, 0, 0] <= y[400:]) & (y[400:] <= intervals[:, 1, 0]))
    assert abs(covered - 0.9) < 4 * np.hypot(0.021, 0.0095)


def test_intervals_of_mapie_with_an_error_for_each_row():
    """The errors travel as a column of X, and rows with large ones are predicted as such."""
    mapie = pytest.importorskip("mapie.regression")
    random = np.random.default_rng(0)
    zeta, X_err = random.normal(size=200), random.uniform(0.05, 0.5, 200)
    X = pd.DataFrame({"a": zeta + X_err * random.normal(size=200), "a_err": X_err})
    y = 2 * zeta + 0.1 * random.normal(size=200)
    model = EiVRegressor({"a": "a_err"}, network="cosine", hidden_units=16, random_state=0).fit(X[:100], y[:100])
    conformal = mapie.SplitConformalRegressor(model, confidence_level=0.9, prefit=True).conformalize(X[100:], y[100:])
    mean, intervals = conformal.predict_interval(X[:50])
    np.testing.assert_allclose(mean, model.predict(X[["a"]][:50].assign(a_err=X_err[:50])))
    residuals = np.sort(np.abs(y[100:] - model.predict(X[100:])))
    np.testing.assert_allclose(intervals[:, 1, 0] - mean, residuals[int(np.ceil(101 * 0.9)) - 1])
    assert not np.allclose(mean, model.predict(X[:50].assign(a_err=0.3)))
