"""Errors as columns of X, through what scikit-learn does with tables."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import StackingRegressor
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from eiv import EiVClassifier, EiVRegressor, ModelFileError, fit_splits
from forging import forged

FAST = {"hidden_units": 16, "epochs": 5, "n_theta": 10, "random_state": 0, "recipe": "paper", "device": "cpu"}
FAST |= {"dtype": "float64"}
COLUMNS = {"a": "a_err"}


@pytest.fixture
def table():
    """Sixty rows of two features, the first with an error of its own in each row; y; and the errors."""
    random = np.random.default_rng(1)
    zeta, errors = random.uniform(-1, 1, (60, 2)), random.uniform(0.05, 0.4, 60)
    X = pd.DataFrame({"a_err": errors, "a": zeta[:, 0] + errors * random.standard_normal(60), "b": zeta[:, 1]})
    return X, zeta @ [2.0, -1.0] + 0.1 * random.standard_normal(60)


def errors_of(X):
    return np.column_stack([X["a_err"], np.zeros(len(X))])


def test_errors_as_columns_are_errors_given_apart(table):
    X, y = table
    named = EiVRegressor(COLUMNS, **FAST).fit(X, y)
    apart = EiVRegressor(**FAST).fit(X[["a", "b"]], y, X_err=errors_of(X))
    new = X[::-1].assign(a_err=0.3)
    expected = apart.predict_distribution(new[["a", "b"]], X_err=errors_of(new))
    found = named.predict_distribution(new)
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.aleatoric, expected.aleatoric)
    zetas, of_exact = (named.draw_zeta(rows, 3, random_state=0) for rows in (new, new.assign(a_err=0.0)))
    assert zetas.shape == (3, 60, 2)
    np.testing.assert_allclose(of_exact[0], new[["a", "b"]])
    assert not np.allclose(named.predict(X), named.predict(X.assign(a_err=0.3)))
    np.testing.assert_array_equal(named.predict(X, X_err=0), apart.predict(X[["a", "b"]], X_err=0))
    assert named.n_features_in_ == 3
    assert list(named.feature_names_in_) == ["a_err", "a", "b"]
    assert named.model_.names.features == ("a", "b")
    assert named.x_err_ is None


def test_columns_and_numbers_together(table):
    X, y = table
    both = EiVRegressor(COLUMNS | {"b": 0.1}, **FAST).fit(X, y)
    errors = errors_of(X) + np.array([0.0, 0.1])
    apart = EiVRegressor(**FAST).fit(X[["a", "b"]], y, X_err=errors)
    np.testing.assert_array_equal(both.predict(X), apart.predict(X[["a", "b"]], X_err=errors))
    given = EiVRegressor(COLUMNS, **FAST).fit(X, y, X_err=0.2)
    np.testing.assert_array_equal(
        given.predict(X, X_err=0.2), EiVRegressor(0.2, **FAST).fit(X[["a", "b"]], y).predict(X[["a", "b"]])
    )


def test_classes_take_them_too(table):
    X, y = table
    named = EiVClassifier(COLUMNS, **FAST).fit(X, y > 0)
    apart = EiVClassifier(**FAST).fit(X[["a", "b"]], y > 0, X_err=errors_of(X))
    np.testing.assert_array_equal(named.predict_proba(X), apart.predict_proba(X[["a", "b"]], X_err=errors_of(X)))


def test_a_model_file_keeps_them(table, tmp_path):
    X, y = table
    model = EiVRegressor(COLUMNS | {"b": 0.1}, **FAST).fit(X, y)
    model.save(tmp_path / "model.eiv")
    loaded = EiVRegressor.load(tmp_path / "model.eiv")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert list(loaded.feature_names_in_) == list(X)
    assert clone(loaded).x_err == COLUMNS | {"b": 0.1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f["error_columns"]["errors"].update(b=-1), "errors must be names"),
        (lambda f: f["error_columns"]["errors"].update(b="c"), "'c', for the errors of 'b', is not among the columns"),
        (lambda f: f["error_columns"]["columns"].append("c"), "do not go with its features"),
        (lambda f: f["error_columns"].update(columns=[1, 2, 3]), "must hold 3 names"),
    ],
)
def test_forged_columns_are_refused(table, tmp_path, change, words):
    X, y = table
    path = tmp_path / "model.eiv"
    EiVRegressor(COLUMNS, **FAST).fit(X, y).save(path)
    path.write_bytes(forged(path.read_bytes(), lambda header, _: change(header["features"])))
    with pytest.raises(ModelFileError, match=words):
        EiVRegressor.load(tmp_path / "model.eiv")


def test_splits_take_them_along(table):
    X, y = table
    rows = np.arange(0, 60, 2)
    (model,) = fit_splits(EiVRegressor(COLUMNS, **FAST), X, y, [rows])
    alone = EiVRegressor(COLUMNS, **FAST).set_params(random_state=model.random_state).fit(X.iloc[rows], y[rows])
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-9)


def test_scikit_learn_moves_them_with_the_rows(table):
    X, y = table
    model, cv = EiVRegressor(COLUMNS, **FAST), KFold(3)
    by_hand = np.concatenate(
        [
            EiVRegressor(**FAST)
            .fit(X.iloc[train][["a", "b"]], y[train], X_err=errors_of(X.iloc[train]))
            .predict(X.iloc[test][["a", "b"]], X_err=errors_of(X.iloc[test]))
            for train, test in cv.split(X)
        ]
    )
    np.testing.assert_allclose(cross_val_predict(model, X, y, cv=cv), by_hand, rtol=1e-9)
    pipeline = make_pipeline(FunctionTransformer(), model)
    np.testing.assert_allclose(cross_val_predict(pipeline, X, y, cv=cv), by_hand, rtol=1e-9)


def test_a_search_by_a_score_of_scikit_learns_has_scores(table):
    X, y = table
    model = EiVRegressor(COLUMNS, **FAST)
    for scoring in ("neg_mean_absolute_error", "r2"):
        search = GridSearchCV(model, {"epochs": [1, 30]}, scoring=scoring, cv=3, error_score="raise").fit(X, y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_params_ == {"epochs": 30}
        by_hand = cross_val_score(clone(model).set_params(epochs=30), X, y, scoring=scoring, cv=3)
        assert search.best_score_ == pytest.approx(by_hand.mean())


def test_inspection_and_stacking(table):
    X, y = table
    model = EiVRegressor(COLUMNS, **FAST | {"epochs": 100}).fit(X, y)
    found = partial_dependence(model, X, ["a"], grid_resolution=5)
    by_hand = [model.predict(X.assign(a=value)).mean() for value in found["grid_values"][0]]
    np.testing.assert_allclose(found["average"][0], by_hand, rtol=1e-9)
    importances = permutation_importance(model, X, y, n_repeats=3, random_state=0).importances_mean
    assert importances[1] > importances[2] > importances[0]  # the slopes are 2 and -1
    stack = StackingRegressor([("eiv", clone(model)), ("line", LinearRegression())], cv=3).fit(X, y)
    assert stack.score(X, y) > 0.5


@pytest.mark.parametrize(
    ("x_err", "words"),
    [
        ({"a": "a_er"}, r"x_err: 'a_er', for the errors of 'a', is not among the columns of X, \['a_err', 'a', 'b'\]"),
        ({"c": "a_err"}, r"x_err names 'c', but the columns of X are \['a_err', 'a', 'b'\]"),
        ({"a": "a_err", "a_err": "b"}, "x_err: column 'a_err' of X holds errors, so it cannot have errors itself"),
        ({"a": "b", "b": "a", "a_err": "a_err"}, "x_err: column 'a' of X holds errors"),
        ({"a": "a_err", "b": -1}, "x_err of 'b' must not be negative, got -1"),
        ({"a": "b"}, "X: column 'b' holds the errors of 'a' and must not be negative, got -0.9"),
    ],
)
def test_names_that_do_not_fit_are_refused(table, x_err, words):
    with pytest.raises(ValueError, match=words):
        EiVRegressor(x_err, **FAST).fit(*table)


def test_a_table_without_names_or_columns_is_refused(table):
    X, y = table
    with pytest.raises(ValueError, match=r"x_err names columns of X, \['a_err'\], but X has no column names"):
        EiVRegressor(COLUMNS, **FAST).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing:\n- a_err"):
        EiVRegressor(COLUMNS, **FAST).fit(X, y).predict(X[["a", "b"]])
    scaled = make_pipeline(StandardScaler().set_output(transform="pandas"), EiVRegressor(COLUMNS, **FAST))
    with pytest.raises(ValueError, match=r"column 'a_err' holds the errors of 'a' .* take eiv.ErrorScaler"):
        scaled.fit(X, y)


def test_nothing_is_warned_about(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EiVRegressor(COLUMNS, **FAST).fit(*table)
