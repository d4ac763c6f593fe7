"""Methods side by side on a table: what is compared, which is taken, and the words for it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.model_selection import KFold

import eiv
from eiv.baselines import GaussianProcess, Simex
from eiv.comparison import METHODS, Comparison, Fold, Task, chosen_methods, run_fold
from eiv.extras import is_installed
from eiv.metrics import coverage, crps, rmse

QUICK = {"recipe": "paper", "epochs": 2, "hidden_units": 8, "n_theta": 4}
SMALL = eiv.EiVRegressor(**QUICK, random_state=0)
INTEGRATED = clone(SMALL).set_params(missing="integrate", input_prior="normal")
PLANES = ["least_squares", "calibrated_plane", "boosted_trees"]


@pytest.fixture
def table():
    """Two columns with errors by row, as a pandas table: X, y, X_err."""
    random = np.random.default_rng(0)
    zeta, X_err = random.normal(size=(90, 2)), random.uniform(0.1, 0.5, (90, 2))
    X = pd.DataFrame(zeta + X_err * random.normal(size=(90, 2)), columns=["a", "b"])
    return X, zeta @ [1.0, -2.0] + 0.2 * random.normal(size=90), X_err


def made_up(off_by, y=None, **task):
    """A comparison of methods whose predictions are off by these values, `rows` each, with a total of 1."""
    n_rows = len(next(iter(off_by.values())))
    y = np.zeros(n_rows) if y is None else y
    made = replace(Task.of(np.arange(n_rows, dtype=float)[:, None], y, n_folds=2), **task)
    folds = {
        name: [
            Fold(test, y[test] + off[test], np.ones(len(test)), y[test] + off[test] - 2, y[test] + off[test] + 2, 1.0)
            for test in made.folds
        ]
        for name, off in off_by.items()
    }
    return Comparison.of(made, folds, {})


def test_folds_are_those_of_scikit_learn_and_every_row_is_predicted_once(table):
    X, y, X_err = table
    found = eiv.compare(X, y, X_err, methods=["least_squares"], n_folds=4, model=eiv.EiVRegressor(random_state=3))
    expected = [test for _, test in KFold(4, shuffle=True, random_state=3).split(X)]
    assert all(
        np.array_equal(fold.rows, test) for fold, test in zip(found.folds["least_squares"], expected, strict=True)
    )
    assert np.isfinite(found.of_rows("least_squares", "mean")).all()


@pytest.mark.parametrize(("name", "make"), [("gaussian_process", GaussianProcess), ("simex_plane", Simex)])
def test_numbers_are_those_of_a_direct_call(table, name, make):
    X, y, X_err = table
    found = eiv.compare(X, y, X_err, y_err=0.1, methods=[name], n_folds=2)
    mean, total = np.empty(90), np.empty(90)
    for train, test in KFold(2, shuffle=True, random_state=0).split(X):
        model = make(random_state=0).fit(X.iloc[train], y[train], X_err=X_err[train], y_err=0.1)
        p = model.predict_distribution(X.iloc[test], X_err=X_err[test], y_err=0.1)
        mean[test], total[test] = p.mean, p.total
    scores = found.to_frame().loc[name]
    assert scores["rmse"] == rmse(y, mean)
    assert scores["crps"] == pytest.approx(crps(y, mean, total), rel=1e-12)
    assert scores["labels_0.95"] == coverage(y, mean - 1.959964 * total, mean + 1.959964 * total)


def test_ours_is_fitted_with_its_settings(table):
    X, y, X_err = table
    found = eiv.compare(X, y, X_err, methods=["eiv"], n_folds=2, model=eiv.EiVRegressor(**QUICK, random_state=1))
    (train, test), _ = KFold(2, shuffle=True, random_state=1).split(X)
    model = eiv.EiVRegressor(**QUICK, random_state=1).fit(X.iloc[train], y[train], X_err=X_err[train])
    p = model.predict_distribution(X.iloc[test], X_err=X_err[test])
    np.testing.assert_array_equal(found.folds["eiv"][0].mean, p.mean)
    np.testing.assert_array_equal(found.folds["eiv"][0].low, p.interval(of="label")[0])


@pytest.mark.parametrize("X_err", [0.2, [0.2, 0.1], np.array([[[0.04, 0.01], [0.01, 0.04]]]), eiv.relative(0.1)])
def test_errors_in_every_form(table, X_err):
    X, y, _ = table
    found = eiv.compare(X, y, X_err, methods=["calibrated_plane"], n_folds=2)
    (train, _), _ = KFold(2, shuffle=True, random_state=0).split(X)
    errors = X_err.of(X.to_numpy().std(0), None)[0] if isinstance(X_err, eiv.inputs.RelativeError) else X_err
    direct = METHODS["calibrated_plane"].make(0, {}).fit(X.iloc[train], y[train], X_err=errors)
    np.testing.assert_allclose(found.folds["calibrated_plane"][0].mean, direct.predict(X.iloc[found.task.folds[0]]))
    assert found.coverage_by_error("calibrated_plane") is None
    assert not found.to_frame().filter(like="_errors").columns.size


LAWS = {"a": eiv.rectangular(0.6), "b": eiv.split_normal(0.1, 0.4)}


def test_laws_reach_ours_and_the_others_take_their_moments(table):
    """A rectangle of half width w has the standard deviation w / sqrt(3); a split normal has a mean, too."""
    X, y, _ = table
    found = eiv.compare(X, y, LAWS, methods=["eiv", "calibrated_plane"], n_folds=2, model=SMALL)
    assert (found.skipped, found.task.has_laws) == ({}, True)
    (train, test), _ = KFold(2, shuffle=True, random_state=0).split(X)
    ours = eiv.EiVRegressor(random_state=0, **QUICK).fit(X.iloc[train], y[train], X_err=LAWS)
    expected = ours.predict_distribution(X.iloc[test], X_err=LAWS)
    np.testing.assert_array_equal(found.folds["eiv"][0].mean, expected.mean)
    np.testing.assert_array_equal(found.folds["eiv"][0].total, expected.total)
    shift, stds = 0.3 * np.sqrt(2 / np.pi), [0.6 / np.sqrt(3), np.sqrt(0.3**2 * (1 - 2 / np.pi) + 0.4 * 0.1)]
    moved = X + np.array([0.0, shift])
    direct = METHODS["calibrated_plane"].make(0, {}).fit(moved.iloc[train], y[train], X_err=stds)
    np.testing.assert_allclose(found.folds["calibrated_plane"][0].mean, direct.predict(moved.iloc[test]), rtol=2e-3)


def test_readings_below_a_limit_are_compared_on(table):
    """To methods without laws they are the middle of the values below the limit."""
    X, y, _ = table
    limits = np.where(X["a"] < -0.5, 0.4, np.nan)
    found = eiv.compare(X.abs(), y, {"a": eiv.censored(0.1, limits)}, methods=["least_squares"], n_folds=2)
    filled = X.abs().assign(a=np.where(np.isfinite(limits), 0.2, X["a"].abs()))
    direct = eiv.compare(filled, y, methods=["least_squares"], n_folds=2)
    np.testing.assert_allclose(found.of_rows("least_squares", "mean"), direct.of_rows("least_squares", "mean"))


def test_missing_readings_are_for_ours_alone(table):
    X, y, X_err = table
    gaps = X.mask(np.arange(90)[:, None] % [10, 7] == 0)
    found = eiv.compare(gaps, y, X_err, methods=["eiv", "least_squares"], n_folds=2, model=INTEGRATED)
    assert found.skipped == {"least_squares": "it takes no missing readings"}
    assert np.isfinite(found.of_rows("eiv", "total")).all()
    assert found.coverage_by_error("eiv") is not None


def test_the_standard_error_of_a_difference_is_that_of_paired_rows(table):
    X, y, X_err = table
    found = eiv.compare(X, y, X_err, methods=PLANES, n_folds=3)
    for score in ("crps", "squared_error"):
        mean, error = found.difference("boosted_trees", "least_squares", score)
        rows = [found.of_rows(name, score) for name in ("boosted_trees", "least_squares")]
        assert mean / error == pytest.approx(ttest_rel(*rows).statistic)


def test_rows_of_a_group_count_as_one():
    """Every row four times: the standard error is that of the rows once, up to n - 1; without groups it is half."""
    random = np.random.default_rng(0)
    errors = {name: random.normal(size=50) for name in PLANES[:2]}
    alone = made_up(errors).difference(*PLANES[:2])
    fourfold = {name: np.repeat(off, 4) for name, off in errors.items()}
    grouped = made_up(fourfold, groups=np.repeat(np.arange(50), 4)).difference(*PLANES[:2])
    assert grouped == pytest.approx(alone)
    assert made_up(fourfold).difference(*PLANES[:2])[1] == pytest.approx(alone[1] / 2, rel=0.01)


def test_groups_are_held_out_together(table):
    X, y, X_err = table
    groups = np.repeat(np.arange(9), 10)
    task = Task.of(X, y, X_err=X_err, groups=groups, n_folds=3)
    assert all(len(set(groups[test])) == 3 for test in task.folds)


def test_thirds_are_by_the_size_of_the_errors():
    """Rows with large errors are missed: coverage falls from 1 to 0."""
    sizes = np.repeat([0.1, 0.2, 0.3], 10)
    off = np.repeat([0.0, 0.0, 5.0], 10)
    shuffled = np.random.default_rng(0).permutation(30)
    found = made_up({"least_squares": off[shuffled]}, errors=sizes[shuffled][:, None])
    assert found.coverage_by_error("least_squares") == (1.0, 1.0, 0.0)
    assert found.coverage("least_squares") == pytest.approx(2 / 3)


def test_a_clear_winner_is_named_also_where_it_is_not_ours():
    random = np.random.default_rng(0)
    off = random.normal(size=100)
    found = made_up({"eiv": 2 * off, "boosted_trees": off, "least_squares": 3 * off})
    assert (found.best, found.tied) == ("boosted_trees", ("boosted_trees",))
    assert found.sentence.startswith("Take boosted trees (errors as columns): its CRPS, ")
    assert "That of the next, eiv, is higher by" in found.sentence
    assert "eiv is behind by" in found.sentence
    assert list(found.to_frame().index) == ["boosted_trees", "eiv", "least_squares"]


def test_a_tie_is_said_as_a_tie():
    random = np.random.default_rng(0)
    found = made_up({"eiv": random.normal(size=60), "least_squares": random.normal(size=60)})
    assert set(found.tied) == {"eiv", "least_squares"}
    assert "cannot be told apart on these rows" in found.sentence
    assert ("f at exact inputs, which it does not give, is had from eiv" in found.sentence) == (
        "Take the fastest of them, least squares" in found.sentence
    )
    mean, error = found.difference(found.tied[1], found.tied[0])
    assert 0 <= mean <= 2 * error


def test_a_smaller_rmse_elsewhere_is_said():
    """The best CRPS has a tenth of wild rows, which the RMSE minds more: 1.9 against 1.5."""
    off = np.where(np.arange(2000) % 10 == 0, 6.0, 0.01)
    found = made_up({"eiv": off, "least_squares": np.full(2000, 1.5)})
    assert found.best == "eiv"
    assert "least squares (errors ignored) has the smaller RMSE, 1.5 instead of 1.897." in found.sentence
    assert "smaller RMSE" not in made_up({"eiv": off / 6, "least_squares": np.full(2000, 1.5)}).sentence


def test_intervals_that_hold_too_few_are_called_so():
    off = np.r_[np.full(70, 0.0), np.full(30, 5.0)]
    assert "hold 70.0 % of the labels, too few" in made_up({"eiv": off}).sentence
    assert "Only eiv could be run" in made_up({"eiv": off}).sentence
    assert "hold 100.0 % of the labels, more than they should" in made_up({"eiv": np.zeros(100)}).sentence


def test_what_cannot_be_run_is_skipped_by_name(table, monkeypatch):
    X, y, X_err = table
    monkeypatch.setattr("eiv.comparison.methods.is_installed", lambda package: False)
    names, skipped = chosen_methods(None, n_features=1, has_y_err=False)
    assert set(names) == set(METHODS) - {"orthogonal_plane", "york_line"}
    assert skipped["orthogonal_plane"] == 'odrpack is not installed: pip install "eiv[odr]"'
    found = eiv.compare(X, y, X_err, methods=["least_squares", "york_line"], n_folds=2)
    assert list(found.folds) == ["least_squares"]
    with pytest.raises(ValueError, match=r"methods: none can be run\. york_line: odrpack is not installed"):
        eiv.compare(X, y, X_err, methods=["york_line"])


def test_a_method_that_refuses_the_rows_is_skipped_with_its_reason(table, monkeypatch):
    X, y, X_err = table

    def refuse(*_, **__):
        raise ValueError("X: these rows\n are odd.")

    monkeypatch.setattr("eiv.baselines.Simex.fit", refuse)
    found = eiv.compare(X, y, X_err, methods=["least_squares", "simex_plane"], n_folds=2)
    assert found.skipped == {"simex_plane": "X: these rows are odd"}
    with pytest.raises(ValueError, match=r"No method could be run\. simex_plane: X: these rows are odd"):
        eiv.compare(X, y, X_err, methods=["simex_plane"], n_folds=2)


@pytest.mark.skipif(not is_installed("odrpack"), reason="needs odrpack")
def test_yorks_line_runs_on_one_column_with_errors_of_both(table):
    X, y, X_err = table
    fold = run_fold("york_line", Task.of(X[["a"]], y, X_err=X_err[:, :1], y_err=2.0, n_folds=2), 0)
    assert fold.failure == ""
    assert "york_line" in chosen_methods(None, n_features=1, has_y_err=True)[0]


def test_warnings_of_ours_are_notes(table):
    X, y, _ = table
    found = eiv.compare(X, y, 0.9, methods=["eiv"], n_folds=2, model=SMALL)
    assert any("x_err" in note or "X_err" in note for note in found.notes)


def test_wrong_arguments_are_named(table):
    X, y, X_err = table
    with pytest.raises(ValueError, match=r"methods must be among 'eiv', .*; got 'odr'"):
        eiv.compare(X, y, X_err, methods=["odr"])
    with pytest.raises(ValueError, match="n_folds must be a whole number of at least 2 and at most 90, got 100"):
        eiv.compare(X, y, X_err, n_folds=100)
    with pytest.raises(ValueError, match=r"X must have two axes and y one, got shapes \(90,\) and \(90,\)"):
        eiv.compare(X["a"], y)
    with pytest.raises(ValueError, match="same number of rows: X has 90, y has 80"):
        eiv.compare(X, y[:80])
    with pytest.raises(ValueError, match="X_err must be errors of a known size, got EstimatedError"):
        eiv.compare(X, y, eiv.estimated(0.1, dof=4))
    with pytest.raises(TypeError, match="model must be an EiVRegressor, got EiVClassifier"):
        eiv.compare(X, y, X_err, model=eiv.EiVClassifier())
    with pytest.raises(ValueError, match="score must be 'crps' or 'squared_error', got 'rmse'"):
        made_up({"eiv": np.ones(4)}).difference("eiv", "eiv", "rmse")


def test_the_figure_has_a_line_for_each_method(table):
    pytest.importorskip("matplotlib")
    X, y, X_err = table
    left, right = eiv.compare(X, y, X_err, methods=PLANES, n_folds=2).plot().get_axes()
    assert {label.get_text() for label in left.get_yticklabels()} == {METHODS[name].label for name in PLANES}
    assert right.get_xlabel() == "labels inside their 95 % interval"


def from_polars(values, names):
    polars = pytest.importorskip("polars")
    pytest.importorskip("narwhals")
    return polars.DataFrame(dict(zip(names, values.T, strict=True)))


def from_xarray(values, names):
    xarray = pytest.importorskip("xarray")
    return xarray.DataArray(values, dims=("row", "column"), coords={"column": names})


def from_pandas(values, names):
    return pd.DataFrame(values, columns=names)


@pytest.fixture
def unlike_errors():
    """Two columns whose errors differ tenfold, so that the order of the errors matters: arrays X, y, X_err."""
    random = np.random.default_rng(0)
    zeta = random.normal(size=(90, 2))
    X_err = np.column_stack([random.uniform(0.05, 0.1, 90), random.uniform(0.5, 1.0, 90)])
    return zeta + X_err * random.normal(size=(90, 2)), zeta @ [1.0, -2.0], X_err


def scored(X, y, *args, **more):
    return eiv.compare(X, y, *args, methods=["calibrated_plane"], n_folds=2, **more).of_rows("calibrated_plane", "crps")


@pytest.mark.parametrize("kind", [from_pandas, from_polars, from_xarray])
def test_errors_go_with_their_columns_by_name(unlike_errors, kind):
    X, y, X_err = unlike_errors
    expected, wrong = scored(X, y, X_err), scored(X, y, X_err[:, ::-1])
    found = scored(kind(X, ["a", "b"]), y, kind(X_err[:, ::-1], ["b", "a"]))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.abs(wrong - expected).max() > 0.1  # what the order of the columns would have given


def test_errors_of_other_rows_are_refused(table):
    X, y, X_err = table
    turned = pd.DataFrame(X_err, columns=["a", "b"]).iloc[::-1]
    with pytest.raises(ValueError, match="X_err must have the row labels of X, but row 0 is 0 in X and 89 in X_err"):
        eiv.compare(X, y, turned)
    with pytest.raises(ValueError, match="y_err must have the row labels of X"):
        eiv.compare(X, y, X_err, pd.Series(np.full(90, 0.1), index=X.index[::-1]))


def test_errors_and_units_that_came_with_the_numbers_are_used(unlike_errors):
    X, y, X_err = unlike_errors
    expected = scored(X, y, X_err, np.full(90, 0.1))
    unumpy = pytest.importorskip("uncertainties.unumpy")
    np.testing.assert_allclose(scored(unumpy.uarray(X, X_err), unumpy.uarray(y, 0.1)), expected, rtol=1e-9)
    quantity = pytest.importorskip("pint").UnitRegistry().Quantity
    units = quantity(X, "m"), quantity(y, "kg"), quantity(100 * X_err, "cm"), quantity(100.0, "g")
    np.testing.assert_allclose(scored(*units), expected, rtol=1e-9)
    u, table = pytest.importorskip("astropy.units"), pytest.importorskip("astropy.table")
    q = table.QTable({"a": X[:, 0] * u.m, "b": X[:, 1] * u.s})
    q_err = table.QTable({"b": 1000 * X_err[:, 1] * u.ms, "a": 100 * X_err[:, 0] * u.cm})
    np.testing.assert_allclose(scored(q, y, q_err, 0.1), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="X_err is in kg, which cannot be converted to m"):
        scored(X * u.m, y, X_err * u.kg)


def test_masked_readings_are_missing_ones(table):
    X, y, X_err = table
    mask = np.arange(90)[:, None] % [10, 7] == 0
    masked = np.ma.array(np.where(mask, -999.0, X), mask=mask)
    found = eiv.compare(masked, y, X_err, methods=["eiv", "least_squares"], n_folds=2, model=INTEGRATED)
    assert found.skipped == {"least_squares": "it takes no missing readings"}
    gaps = eiv.compare(masked.filled(np.nan), y, X_err, methods=["eiv"], n_folds=2, model=INTEGRATED)
    np.testing.assert_array_equal(found.of_rows("eiv", "total"), gaps.of_rows("eiv", "total"))
    with pytest.raises(ValueError, match=r"No method could be run\. eiv: Input X contains NaN.*missing='integrate'"):
        eiv.compare(masked, y, X_err, methods=["eiv"], n_folds=2, model=SMALL)
    with pytest.raises(ValueError, match="X_err must hold a value everywhere, but 22 of its 180 values are masked"):
        eiv.compare(X, y, np.ma.array(X_err, mask=mask))


@pytest.mark.parametrize("method", ["eiv", "calibrated_plane"])
def test_columns_of_the_table_hold_errors(table, method):
    X, y, X_err = table
    columns, errors = X.assign(a_err=X_err[:, 0]), np.column_stack([X_err[:, 0], np.full(90, 0.2)])
    choice, by_name = {"methods": [method], "n_folds": 2}, clone(SMALL).set_params(x_err={"a": "a_err", "b": 0.2})
    found = eiv.compare(columns[["a_err", "a", "b"]], y, model=by_name, **choice)
    expected = eiv.compare(X, y, errors, model=SMALL, **choice)
    np.testing.assert_array_equal(found.of_rows(method, "total"), expected.of_rows(method, "total"))
    assert found.task.X.shape == (90, 2)
    assert found.coverage_by_error(method) is not None
    with pytest.raises(ValueError, match=r"'a_err' is not an error; .* A column of X that holds errors is named"):
        eiv.compare(columns, y, {"a": "a_err"})
    with pytest.raises(ValueError, match="x_err must be errors of a known size, got EstimatedError"):
        eiv.compare(X, y, model=eiv.EiVRegressor(eiv.estimated(0.1, dof=4)))


def test_seeds_and_methods_that_are_none(table):
    X, y, X_err = table
    with pytest.raises(ValueError, match=r"methods must name one of 'eiv', .*'noisy_input_gp' at least, got \[\]"):
        eiv.compare(X, y, X_err, methods=[])
    with pytest.raises(ValueError, match=r"random_state must be None, a whole number or a numpy\.random\.RandomState"):
        eiv.compare(X, y, X_err, model=eiv.EiVRegressor(random_state=np.random.default_rng(0)))
    found = [
        eiv.compare(
            X, y, X_err, methods=["least_squares"], model=eiv.EiVRegressor(random_state=np.random.RandomState(0))
        ).of_rows("least_squares", "mean")
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*found)
