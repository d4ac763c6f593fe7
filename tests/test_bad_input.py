"""Every error that a user can cause names the argument, what it got and what it takes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from eiv import EiVRegressor
from eiv.inputs.errors import check_x_err

FAST = {"hidden_units": 4, "epochs": 1, "n_theta": 4, "random_state": 0}
X = np.random.default_rng(0).normal(size=(12, 2))
Y = X.sum(1)


def spoiled(array, value):
    array = array.astype(type(value) if isinstance(value, str) else float).copy()
    array.flat[3] = value
    return array


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda m: m.fit(spoiled(X, np.nan), Y), "Input X contains NaN"),
        (lambda m: m.fit(spoiled(X, np.inf), Y), "Input X contains infinity"),
        (lambda m: m.fit(X, spoiled(Y, np.nan)), "Input y contains NaN"),
        (lambda m: m.fit(X, spoiled(Y, -np.inf)), "Input y contains infinity"),
        (lambda m: m.fit(X, Y, X_err=np.nan), "X_err must be finite"),
        (lambda m: m.fit(X, Y, X_err=[0.1, np.inf]), "X_err must be finite"),
        (lambda m: m.fit(X, Y, X_err=-0.1), "X_err must not be negative, got -0.1"),
        (
            lambda m: m.fit(X, Y, X_err=[0.1, 0.1, 0.1]),
            r"X_err must be a number, 2 values .* got shape \(3,\)",
        ),
        (lambda m: m.fit(X, Y, X_err=np.ones((11, 2))), r"shape \(12, 2\) .* got shape \(11, 2\)"),
        (lambda m: m.fit(X, Y, X_err="large"), "X_err.*'large' is not an error; these are"),
        (lambda m: m.set_params(x_err=np.nan).fit(X, Y), "x_err must be finite"),
        (lambda m: m.set_params(x_err=[1.0]).fit(X, Y), r"x_err must be .* got shape \(1,\)"),
        (lambda m: m.set_params(x_err=[0.1, -2]).fit(X, Y), "x_err must not be negative, got -2"),
        (lambda m: m.fit(X, Y[:-1]), "same number of rows: X has 12, y has 11"),
        (lambda m: m.fit(X, np.ones(12)), "y is constant"),
        (lambda m: m.fit(X, np.column_stack([Y, np.ones(12)])), "y is constant in column 1"),
        (lambda m: m.fit(X[:0], Y[:0]), r"X: Found array with 0 sample\(s\)"),
        (lambda m: m.fit(X[:1], Y[:1]), r"X: Found array with 1 sample\(s\)"),
        (lambda m: m.fit(X[:, 0], Y), "X: Expected 2D array, got 1D array"),
        (
            lambda m: m.fit(pd.DataFrame({"a": Y, "city": ["Ulm"] * 12}), Y),
            "X must hold numbers only.*: city",
        ),
        (lambda m: m.fit([*X.astype(object).tolist()[:-1], ["a", 1.0]], Y), "X must hold numbers only"),
        (lambda m: m.fit(X, ["a"] * 12), "y must hold numbers only"),
        (lambda m: m.fit(X, pd.DataFrame({"a": Y, "town": ["Ulm"] * 12})), "y must hold numbers only.*: town"),
        (lambda m: m.fit(pd.DataFrame({"a": Y, "t": pd.date_range("2026-01-01", periods=12)}), Y), "only.*: t"),
        (lambda m: m.fit(X, Y, X_err=True), "X_err must be a number or numbers, got True"),
        (lambda m: m.fit(X, Y, X_err={"a": 0.1}), "X_err has names, but X has none"),
        (lambda m: m.set_params(x_err=np.ones((12, 2))).fit(X, Y), r"x_err must be .* got shape \(12, 2\)"),
        (lambda m: m.set_params(device="meta").fit(X, Y), "device must be"),
        (lambda m: m.set_params(verbose="yes").fit(X, Y), "verbose must be True or False"),
        (
            lambda m: m.set_params(input_prior="uniform").fit(X, Y),
            "input_prior must be 'flat', 'normal' or 'mixture', or an input prior such as .*, got 'uniform'",
        ),
        (
            lambda m: m.set_params(posterior="laplace").fit(X, Y),
            "posterior must be 'bernoulli_dropout'.*got 'laplace'",
        ),
        (lambda m: m.set_params(dtype="half").fit(X, Y), "dtype must be 'float32' or 'float64', got 'half'"),
        (
            lambda m: m.set_params(device="abacus").fit(X, Y),
            "device must be 'auto', 'cpu', 'cuda' or 'cuda:N'",
        ),
        (
            lambda m: m.set_params(n_zeta=0).fit(X, Y),
            "n_zeta must be a whole number of at least 1 and at most 10,000, got 0",
        ),
        (
            lambda m: m.set_params(n_theta=0).fit(X, Y),
            "n_theta must be a whole number of at least 2 and at most 100,000, got 0",
        ),
        (lambda m: m.set_params(n_networks=0).fit(X, Y), "n_networks must be a whole number of at least 1"),
        (
            lambda m: m.set_params(epochs=2.5).fit(X, Y),
            "epochs must be a whole number of at least 1 and at most 1,000,000, got 2.5",
        ),
        (lambda m: m.set_params(batch_size=True).fit(X, Y), "batch_size must be a whole number"),
        (
            lambda m: m.set_params(dropout=1.0).fit(X, Y),
            "dropout must be a number of at least 0 and below 1, got 1.0",
        ),
        (lambda m: m.set_params(learning_rate=0).fit(X, Y), "learning_rate must be a number above 0, got 0"),
        (
            lambda m: m.set_params(weight_penalty=np.nan).fit(X, Y),
            "weight_penalty must be a number of at least 0",
        ),
        (lambda m: m.set_params(standardise="yes").fit(X, Y), "standardise must be True or False, got 'yes'"),
    ],
)
def test_fit(fit, words):
    with pytest.raises(ValueError, match=words):
        fit(EiVRegressor(**FAST, recipe="paper"))


@pytest.fixture(scope="module")
def fitted():
    return EiVRegressor(0.1, **FAST, recipe="paper").fit(X, Y)


@pytest.mark.parametrize(
    ("predict", "words"),
    [
        (lambda m: m.predict(X[:, :1]), "X has 1 features, but EiVRegressor is expecting 2 features"),
        (lambda m: m.predict(X[:0]), r"0 sample\(s\)"),
        (lambda m: m.predict(spoiled(X, np.nan)), "Input X contains NaN"),
        (lambda m: m.predict(X, X_err=-1), "X_err must not be negative"),
        (lambda m: m.predict(X, X_err=np.ones((3, 2))), r"X_err must be .* got shape \(3, 2\)"),
        (
            lambda m: m.predict_distribution(X, method="exact"),
            "method must be 'unbiased' or 'literal', got 'exact'",
        ),
        (lambda m: m.predict(pd.DataFrame({"a": Y, "b": ["x"] * 12})), "X must hold numbers only.*: b"),
    ],
)
def test_predict(fitted, predict, words):
    with pytest.raises(ValueError, match=words):
        predict(fitted)


def test_draw_counts_are_checked_again_at_predict():
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, Y)
    with pytest.raises(ValueError, match="n_theta must be a whole number of at least 2 and at most 100,000, got 1"):
        model.set_params(n_theta=1).predict(X)
    with pytest.raises(ValueError, match="n_zeta must be a whole number of at least 1 and at most 10,000, got 0"):
        model.set_params(n_theta=4, n_zeta=0).predict(X)


def test_predict_before_fit():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        EiVRegressor(recipe="paper").predict(X)


def test_a_prior_without_posterior_is_refused():
    with pytest.raises(ValueError, match="input_prior must be 'flat', 'normal' or 'mixture', or an input prior"):
        EiVRegressor(input_prior=3, **FAST, recipe="paper").fit(X, Y)


@settings(max_examples=25, deadline=None)
@given(
    n_rows=st.integers(2, 20),
    n_features=st.integers(1, 4),
    n_outputs=st.one_of(st.none(), st.integers(1, 3)),
    n_networks=st.integers(1, 2),
    kind=st.sampled_from(["float32", "float64", "int32", "int64", "list", "frame"]),
    x_err=st.sampled_from(["none", "scalar", "feature", "row"]),
    n_theta=st.integers(2, 11),
)
def test_any_shape_and_type_of_table_goes_through(n_rows, n_features, n_outputs, n_networks, kind, x_err, n_theta):
    random = np.random.default_rng(n_rows)
    table = random.normal(size=(n_rows, n_features)) * 10
    target = random.normal(size=n_rows if n_outputs is None else (n_rows, n_outputs))
    data = {"list": table.tolist(), "frame": pd.DataFrame(table).rename(columns=str)}.get(kind)
    data = table.astype(kind) if data is None else data
    errors = {
        "none": None,
        "scalar": 0.2,
        "feature": np.full(n_features, 0.2),
        "row": np.full(table.shape, 0.2),
    }[x_err]
    model = EiVRegressor(**FAST | {"n_theta": n_theta, "n_networks": n_networks}, recipe="paper").fit(
        data, target, X_err=errors
    )
    p = model.predict_distribution(data, X_err=errors)
    assert p.mean.shape == target.shape
    for part in (p.mean, p.epistemic, p.aleatoric, p.noise, p.quantile(0.5), p.quantile(0.5, of="label")):
        assert part.shape == target.shape
        assert part.dtype == np.float64
        assert np.isfinite(part).all()
    # An unbiased estimate from few thetas, which all rows share, may be below zero for all of them.
    literal = model.predict_distribution(data, X_err=errors, method="literal").aleatoric
    assert (p.aleatoric == 0).all() or x_err != "none"
    assert (literal > 0).any() == (x_err != "none") or n_rows < 5


@given(
    n_rows=st.integers(1, 5),
    n_features=st.integers(1, 5),
    shape=st.lists(st.integers(0, 6), max_size=3),
)
def test_errors_of_every_shape_are_taken_or_refused(n_rows, n_features, shape):
    errors = np.ones(shape)
    matrix = (n_features, n_features)
    known = {(), (n_features,), (n_rows, n_features), (1, *matrix), (n_rows, *matrix)}
    if errors.shape in known | ({matrix} if n_features > 1 else set()):
        assert check_x_err("x_err", errors, n_features, n_rows).shape[1] == n_features
    else:
        with pytest.raises(ValueError, match="x_err must be"):
            check_x_err("x_err", errors, n_features, n_rows)
