"""Tables and arrays of other libraries, and labels of rows."""

import numpy as np
import pandas as pd
import pytest
import torch

from eiv import EiVClassifier, EiVRegressor, fit_splits
from eiv.extras import is_installed

FAST = {"hidden_units": 16, "epochs": 5, "n_theta": 10, "random_state": 0, "recipe": "paper", "device": "cpu"}
FAST |= {"dtype": "float64"}  # the layout in memory decides on the last bit
NAMES = ["a", "b"]


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    X, errors = random.normal(size=(30, 2)), random.uniform(0.05, 0.3, (30, 2))
    return X, X @ [2.0, -1.0], errors, random.uniform(0.05, 0.3, 30)


def from_polars(values, names=NAMES):
    polars = pytest.importorskip("polars")
    pytest.importorskip("narwhals")
    return polars.Series(values) if values.ndim == 1 else polars.DataFrame(dict(zip(names, values.T, strict=True)))


def lazy(values, names=NAMES):
    made = from_polars(values, names)
    return made if values.ndim == 1 else made.lazy()


def from_arrow(values, names=NAMES):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("narwhals")
    return (
        pyarrow.chunked_array([values]) if values.ndim == 1 else pyarrow.table(dict(zip(names, values.T, strict=True)))
    )


def nullable(values, names=NAMES):
    return (pd.Series(values) if values.ndim == 1 else pd.DataFrame(values, columns=names)).astype("Float64")


def tensor(values, names=NAMES):
    return torch.tensor(values, requires_grad=True)


def from_xarray(values, names=NAMES):
    xarray = pytest.importorskip("xarray")
    if values.ndim == 1:
        return xarray.DataArray(values)
    return xarray.DataArray(values, dims=("row", "column"), coords={"column": names})


KINDS = [from_polars, lazy, from_arrow, nullable, tensor, from_xarray]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("all_of_them", [True, False])
def test_any_container_holds_the_same_numbers(rows, kind, all_of_them):
    X, y, errors, y_err = rows
    model = EiVRegressor(**FAST).fit(X, y, X_err=errors, y_err=y_err)
    table = kind(X) if all_of_them else pd.DataFrame(X, columns=NAMES)
    labels = kind(y) if all_of_them else y
    other = EiVRegressor(**FAST).fit(table, labels, X_err=kind(errors), y_err=kind(y_err))
    expected = model.predict_distribution(X, X_err=errors, y_err=y_err)
    found = other.predict_distribution(table, X_err=kind(errors), y_err=kind(y_err))
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-9)
    assert other.score(table, labels, X_err=kind(errors)) == pytest.approx(model.score(X, y, X_err=errors), abs=1e-9)
    if kind is not tensor:
        assert list(other.feature_names_in_) == NAMES
        turned = kind(errors[:, ::-1].copy(), ["b", "a"])
        np.testing.assert_allclose(other.predict(table, X_err=turned), model.predict(X, X_err=errors), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_splits_and_classes_take_any_container(rows, kind):
    X, y, errors, _ = rows
    classes = EiVClassifier(**FAST).fit(kind(X), y > 0, X_err=kind(errors))
    plain = EiVClassifier(**FAST).fit(X, y > 0, X_err=errors)
    np.testing.assert_allclose(classes.predict_proba(kind(X), X_err=0.1), plain.predict_proba(X, X_err=0.1), rtol=1e-9)
    if kind in (from_polars, nullable):
        (split,) = fit_splits(EiVRegressor(**FAST), kind(X), kind(y), [range(20)], X_err=kind(errors))
        (same,) = fit_splits(EiVRegressor(**FAST), X, y, [range(20)], X_err=errors)
        np.testing.assert_allclose(split.predict(kind(X), X_err=0.1), same.predict(X, X_err=0.1), rtol=1e-9)


def test_arrays_of_xarray_are_matched_by_their_rows(rows):
    xarray, (X, y, errors, _) = pytest.importorskip("xarray"), rows
    plain = EiVRegressor(**FAST).fit(X, y, X_err=errors)
    without = xarray.DataArray(X)
    np.testing.assert_array_equal(plain.predict(without, X_err=0.1), plain.predict(X, X_err=0.1))
    labelled = from_xarray(X).assign_coords(row=np.arange(30) + 100)
    own = from_xarray(errors).assign_coords(row=labelled.row)
    model = EiVRegressor(**FAST).fit(labelled, y, X_err=own)
    np.testing.assert_allclose(model.predict(labelled, X_err=0.1), plain.predict(X, X_err=0.1), rtol=1e-9)
    with pytest.raises(ValueError, match="X_err must have the row labels of X, but row 0 is 100 in X and 129 in X_err"):
        model.predict(labelled, X_err=own[::-1])
    with pytest.raises(TypeError, match="X must be an array or a table, got the Dataset of xarray: give it as a"):
        model.predict(labelled.to_dataset("column"))


@pytest.mark.skipif(not is_installed("polars"), reason="needs polars")
def test_columns_of_polars_hold_errors(rows):
    polars, (X, y, errors, _) = pytest.importorskip("polars"), rows
    table = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "a_err": errors[:, 0]})
    model = EiVRegressor({"a": "a_err"}, **FAST).fit(table, y)
    apart = EiVRegressor(**FAST).fit(X, y, X_err=errors * [1.0, 0.0])
    np.testing.assert_allclose(model.predict(table), apart.predict(X, X_err=errors * [1.0, 0.0]), rtol=1e-9)


@pytest.mark.parametrize("kind", [from_polars, nullable])
def test_missing_values_in_them_are_refused(rows, kind):
    X, y, errors, y_err = rows
    bad, bad_y_err = errors.copy(), y_err.copy()
    bad[3, 0] = bad_y_err[3] = np.nan
    with pytest.raises(ValueError, match="X_err must be finite, but holds NaN"):
        EiVRegressor(**FAST).fit(X, y, X_err=kind(bad))
    with pytest.raises(ValueError, match="y_err must hold finite standard deviations"):
        EiVRegressor(**FAST).fit(X, y, y_err=kind(bad_y_err))
    with pytest.raises(ValueError, match="contains NaN"):
        EiVRegressor(**FAST).fit(kind(bad), y)


def test_row_labels_that_differ_are_refused(rows):
    X, y, errors, y_err = rows
    table = pd.DataFrame(X, columns=NAMES, index=np.arange(30) + 100)
    turned = pd.DataFrame(errors, columns=NAMES, index=table.index[::-1])
    model = EiVRegressor(**FAST)
    words = r"X_err must have the row labels of X, but row 0 is 100 in X and 129 in X_err. Take X_err.loc\[X.index\]"
    with pytest.raises(ValueError, match=words):
        model.fit(table, y, X_err=turned)
    with pytest.raises(ValueError, match="y_err must have the row labels of X, but row 0 is 100 in X and 0 in y_err"):
        model.fit(table, y, y_err=pd.Series(y_err))
    by_label = EiVRegressor(**FAST).fit(table, y, X_err=turned.loc[table.index])
    by_order = EiVRegressor(**FAST).fit(table, y, X_err=turned.to_numpy()[::-1])
    np.testing.assert_allclose(by_label.predict(table, X_err=0.1), by_order.predict(table, X_err=0.1), rtol=1e-9)
    with pytest.raises(ValueError, match="X_err must have the row labels of X"):
        by_label.predict(table, X_err=turned)
    with pytest.raises(ValueError, match="y_err must have the row labels of X"):
        by_label.predict_distribution(table, X_err=0.1, y_err=pd.Series(y_err))
    with pytest.raises(ValueError, match="X_err must have the row labels of X"):
        EiVClassifier(**FAST).fit(table, y > 0, X_err=turned)
    by_label.predict(table[:2], X_err=pd.Series({"b": 0.1, "a": 0.2}))  # labels of features
