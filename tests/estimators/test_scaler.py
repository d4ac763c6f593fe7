"""A scaler that carries errors along, and the warning of one that does not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from eiv import EiVRegressor, ErrorScaler, SuspiciousErrorWarning, relative

FAST = {"hidden_units": 16, "epochs": 5, "n_theta": 10, "random_state": 0, "recipe": "paper", "device": "cpu"}
FAST |= {"dtype": "float64"}


@pytest.fixture
def table():
    """Sixty rows in small units: a with its error, b, and y."""
    random = np.random.default_rng(0)
    zeta, errors = random.normal(5.0, 0.01, (60, 2)), random.uniform(0.001, 0.004, 60)
    X = pd.DataFrame({"a": zeta[:, 0] + errors * random.standard_normal(60), "b": zeta[:, 1], "a_err": errors})
    return X, 1000 * zeta[:, 0] + random.standard_normal(60)


@parametrize_with_checks([ErrorScaler()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_tables_of_astropy_become_those_of_pandas(table):
    u, astropy, (X, _) = pytest.importorskip("astropy.units"), pytest.importorskip("astropy.table"), table
    units = {"a": u.m, "b": u.s, "a_err": u.m}
    q = astropy.QTable({name: X[name].to_numpy() * unit for name, unit in units.items()})
    other = astropy.QTable({"a": q["a"].to(u.km), "b": q["b"].to(u.ms), "a_err": q["a_err"].to(u.cm)})
    scaler, expected = ErrorScaler({"a": "a_err"}).fit(other), ErrorScaler({"a": "a_err"}).fit(X)
    np.testing.assert_allclose(scaler.mean_, expected.mean_ / [1000, 0.001, 1])
    for rows in (q, other):
        pd.testing.assert_frame_equal(scaler.transform(rows), expected.transform(X))
    with pytest.raises(ValueError, match="X: column 'b' is in m, which cannot be converted to ms"):
        scaler.transform(astropy.QTable({"a": q["a"], "b": q["a"], "a_err": q["a_err"]}))


def test_rows_of_a_scaled_table_of_astropy_are_cross_validated(table):
    """scikit-learn itself cannot take rows of a QTable."""
    u, astropy, (X, y) = pytest.importorskip("astropy.units"), pytest.importorskip("astropy.table"), table
    q = astropy.QTable({"a": X["a"].to_numpy() * u.m, "a_err": 100 * X["a_err"].to_numpy() * u.cm})
    model = EiVRegressor({"a": "a_err"}, **FAST)
    found = cross_val_predict(model, ErrorScaler({"a": "a_err"}).fit_transform(q), y, cv=3)
    expected = cross_val_predict(model, ErrorScaler({"a": "a_err"}).fit_transform(X[["a", "a_err"]]), y, cv=3)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_errors_in_the_cells_are_refused(table):
    unumpy, (X, _) = pytest.importorskip("uncertainties.unumpy"), table
    carrying = unumpy.uarray(X[["a"]].to_numpy(), X[["a_err"]].to_numpy())
    for call in (ErrorScaler().fit, ErrorScaler().fit(X[["a"]].to_numpy()).transform):
        with pytest.raises(ValueError, match="X carries errors of its own, which a scaled table cannot hold"):
            call(carrying)


def test_errors_are_divided_by_what_their_feature_is(table):
    X, _ = table
    scaler = ErrorScaler({"a": "a_err"}).fit(X)
    found = scaler.transform(X)
    np.testing.assert_allclose(found[["a", "b"]], StandardScaler().fit_transform(X[["a", "b"]]))
    np.testing.assert_allclose(found["a_err"], X["a_err"] / X["a"].std(ddof=0))
    assert list(found) == list(X) == list(scaler.get_feature_names_out())
    pd.testing.assert_frame_equal(scaler.inverse_transform(found), X)
    other = scaler.transform(X.iloc[:3].assign(a_err=0.0))
    assert (other["a_err"] == 0).all()
    assert other.index.tolist() == [0, 1, 2]


def test_a_pipeline_with_it_has_the_predictions_of_none(table):
    X, y = table
    alone = EiVRegressor({"a": "a_err"}, **FAST).fit(X, y).predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = make_pipeline(ErrorScaler({"a": "a_err"}), EiVRegressor({"a": "a_err"}, **FAST)).fit(X, y)
    np.testing.assert_allclose(scaled.predict(X), alone, rtol=1e-9)


@pytest.mark.parametrize(
    ("x_err", "words"),
    [
        ({"a": 0.1}, "x_err must name columns of X that hold errors, got 0.1 for 'a'"),
        ({"a": "a_err", "b": 0.1}, "x_err must name columns of X that hold errors, got 0.1 for 'b'"),
        ({"a": "a_err", "b": "0.4 k=2"}, "x_err must name columns of X that hold errors, got '0.4 k=2' for 'b'"),
        ({"a": "a_err", "b": "a_err"}, "column 'a_err' cannot be scaled with two features"),
        ({"a": "c"}, "'c', for the errors of 'a', is not among the columns of X"),
    ],
)
def test_what_cannot_be_scaled_is_refused(table, x_err, words):
    with pytest.raises(ValueError, match=words):
        ErrorScaler(x_err).fit(table[0])


def test_a_scaler_before_the_estimator_is_warned_about(table):
    X, y = table
    inputs = X[["a", "b"]]
    pipeline = make_pipeline(StandardScaler(), EiVRegressor([0.002, 0.0], **FAST))
    with pytest.warns(SuspiciousErrorWarning, match="X has mean 0 and standard deviation 1 in column 0, as after a"):
        pipeline.fit(inputs, y)
    with pytest.warns(SuspiciousErrorWarning, match="x_err must be in the units that reach the estimator"):
        pipeline.set_params(eivregressor__dtype="float32").fit((inputs - 5).astype("float32"), y)
    with pytest.warns(SuspiciousErrorWarning, match="X_err must be in the units"):
        EiVRegressor(**FAST).fit(StandardScaler().fit_transform(inputs), y, X_err=0.1)


def test_a_scaler_of_the_labels_is_warned_about(table):
    X, y = table
    model = TransformedTargetRegressor(EiVRegressor({"a": "a_err"}, **FAST), transformer=StandardScaler())
    with pytest.warns(SuspiciousErrorWarning, match="y has mean 0 and standard deviation 1 .* y_err must be in the un"):
        model.fit(X, y, y_err=0.5)


@pytest.mark.filterwarnings("error")
def test_what_is_in_its_own_units_is_not_warned_about(table):
    X, y = table
    standardised = StandardScaler().fit_transform(X[["a", "b"]])
    EiVRegressor(0.002, **FAST).fit(X[["a", "b"]], y)
    EiVRegressor(**FAST).fit(standardised, y)
    EiVRegressor(relative(0.1), **FAST).fit(standardised, y)
    EiVRegressor(0.1, **FAST, error_model="berkson").fit(np.tile([[-1.0], [1.0]], (30, 1)), y)
    EiVRegressor(0.1, **FAST, standardise=False).fit(standardised, StandardScaler().fit_transform(y[:, None])[:, 0])
