"""Laws of errors, texts of data sheets and missing readings at the front door."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import eiv
from eiv import EiVClassifier, EiVRegressor, fit_splits
from eiv.inputs import Growing, MixedErrors, Rectangular, SplitNormal
from eiv.inputs.errors import standard_deviations
from eiv.inputs.stated import Readings, laws_of
from eiv.io.modelfile.encoding import decode
from eiv.io.notation import read_error
from eiv.posteriors import FAMILIES

SMALL = {"hidden_units": 8, "n_hidden": 1, "epochs": 2, "n_zeta": 4, "n_theta": 10, "random_state": 0}
QUICK = SMALL | {"input_prior": "normal", "posterior": "bernoulli_dropout"}


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    zeta = random.normal(size=(80, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    X = pd.DataFrame(zeta + 0.2 * random.standard_normal((80, 2)), columns=["a", "b"])
    return X, np.sin(zeta[:, 0]) + zeta[:, 1]


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("±0.6", eiv.rectangular(0.6)),
        ("0.3 + 2%", eiv.growing(0.3, 0.02)),
        ("+0.5 -0.2", eiv.split_normal(minus=0.2, plus=0.5)),
        ("0.4 k=2", 0.2),
        ("0.3", 0.3),
        ("30%sd", eiv.relative(0.3)),
    ],
)
def test_texts_laws_lists_and_mappings_say_the_same(table, text, law):
    x, names = table[0].to_numpy(), ["a", "b"]
    forms = (text, [text, law], {"b": text, "a": law}, law, [law, law], {"a": law, "b": law})
    found = [Readings.of("X_err", form, x, names, by_row=True).errors for form in forms]
    for each in found[1:]:
        np.testing.assert_array_equal(*(np.broadcast_to(standard_deviations(e), x.shape) for e in (each, found[0])))
        assert isinstance(each, MixedErrors) == isinstance(found[0], MixedErrors)
        if isinstance(each, MixedErrors):
            assert each.tobytes() == found[0].tobytes()


def test_texts_are_said_back_as_the_page_on_errors_says(table):
    """The rows of the first table of docs/errors.md whose Python is a text."""
    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    table_of_forms = page.split("## In one table")[1].split("All of them hold")[0]
    rows = [line.strip("| ").split(" | ") for line in table_of_forms.splitlines() if " | " in line]
    texts = {text.strip('`"'): words for _, python, words in rows for text in python.split(" or ") if '`"' in text}
    assert {"0.4 k=2", "±0.7", "0.3 dof=8"} < texts.keys()
    for text, words in texts.items():
        assert str(read_error(text)) == words
        if "dof" not in text and "sd" not in text:  # what is learned in the fit, or found from its rows
            (law,) = laws_of("x_err", [text], np.ones(1))
            assert str(law) == words


def test_model_files_without_the_coverage_factor_of_a_normal_law_load():
    law = decode({"type": "normal_law", "std": 0.2, "share": 0.0}, {})
    assert (law.std, law.k) == (0.2, 1.0)
    with pytest.raises(ValueError, match="normal_law does not have the parts"):
        decode({"type": "normal_law", "share": 0.0}, {})


def test_one_part_is_the_normal_law_to_the_last_bit(table):
    X, y = table
    plain = EiVRegressor(x_err=[0.1, 0.2], **SMALL).fit(X, y)
    law = EiVRegressor(x_err=["0.1", 0.2], **SMALL).fit(X, y)
    for name in ("mean", "epistemic", "aleatoric", "noise"):
        mine, theirs = (getattr(model.predict_distribution(X), name) for model in (law, plain))
        np.testing.assert_array_equal(mine, theirs)


def test_shares_of_the_reading_and_values_per_row_are_taken_by_column(table):
    X, y = table
    rows = np.linspace(0.1, 0.3, 80)
    model = EiVRegressor(**QUICK).fit(X, y, X_err={"a": rows, "b": "5%"})
    array = EiVRegressor(**QUICK).fit(X, y, X_err=np.column_stack([rows, 0.05 * X["b"].abs()]))
    given = {"a": 0.2, "b": "5%"}
    wanted = np.column_stack([np.full(80, 0.2), 0.05 * X["b"].abs()])
    np.testing.assert_array_equal(model.predict(X, X_err=given), array.predict(X, X_err=wanted))


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "ensemble"])
def test_every_weight_family_takes_laws(table, family):
    X, y = table
    model = EiVRegressor(x_err={"a": "±0.5", "b": eiv.student_t(0.2, dof=4)}, **QUICK | {"posterior": family}).fit(X, y)
    np.testing.assert_allclose(model.predict(X.iloc[[7]])[0], model.predict(X)[7], rtol=1e-5)
    assert (model.predict_distribution(X).aleatoric > 0).all()


def test_columns_of_x_hold_errors_beside_texts(table):
    """One column, two for the errors below and above, and a text; what a mapping leaves out is exact."""
    X, y = table
    down, up = np.linspace(0.1, 0.2, 80), np.full(80, 0.3)
    wide = X.assign(down=down, up=up)
    named = EiVRegressor(x_err={"a": "down,up", "b": "±0.2"}, **QUICK).fit(wide, y)
    apart = EiVRegressor(**QUICK).fit(X, y, X_err={"a": (down, up), "b": "±0.2"})
    np.testing.assert_array_equal(named.predict(wide), apart.predict(X, X_err={"a": (down, up), "b": "±0.2"}))
    single = EiVRegressor(x_err={"a": "up"}, missing="integrate", **QUICK).fit(wide.drop(columns="down"), y)
    gaps = wide.drop(columns="down").assign(b=np.nan)
    assert (single.predict_distribution(gaps).aleatoric > 0).all()
    with pytest.raises(ValueError, match="column 'up' holds the errors of 'a' and must be finite"):
        single.predict(wide.drop(columns="down").assign(up=np.nan))
    with pytest.raises(ValueError, match="got a law for 'b'"):
        EiVRegressor(x_err={"a": "up", "b": eiv.rectangular(0.1)}, **QUICK).fit(wide, y)


def test_networks_of_cosines_take_laws(table):
    X, y = table
    model = EiVRegressor(x_err={"a": "±0.5", "b": "0.1 + 5%"}, network="cosine", hidden_units=32, random_state=0)
    model = model.fit(X[:30], y[:30])
    p = model.predict_distribution(X, budget=True)
    assert model.model_.laws[0].half_width == 0.5
    assert model.x_err_.shape == (2,)
    assert np.isfinite(p.mean).all()
    assert (p.budget()[["a", "b"]] > 0).all(axis=None)


@pytest.mark.parametrize(
    "x_err",
    [
        {"a": Rectangular(0.5), "b": SplitNormal(0.1, 0.3)},
        {"a": Growing(0.1, 0.05), "b": 0.1},
        {"a": "0.4 k=2", "b": "±0.2"},
        {"a": eiv.triangular(0.4), "b": eiv.student_t(0.2, 5)},
        {"a": eiv.inputs.laws.MixtureLaw([1.0, 2.0], [0.1, -0.1], [0.2, 0.3]), "b": "±(0.1 + 2%)"},
    ],
)
def test_model_files_hold_laws(table, x_err, tmp_path):
    X, y = table
    model = EiVRegressor(x_err=x_err, **QUICK).fit(X, y)
    model.save(tmp_path / "m.eiv")
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert [str(law) for law in loaded.model_.laws] == [str(law) for law in model.model_.laws]
    model.export(tmp_path / "m.onnx", "onnx")


def test_a_factor_scales_every_part_of_a_law(table):
    X, y = table
    half = EiVRegressor(x_err=eiv.rectangular(0.6), x_err_factor=0.5, **QUICK).fit(X, y)
    whole = EiVRegressor(x_err=eiv.rectangular(0.3), **QUICK).fit(X, y)
    np.testing.assert_allclose(half.predict(X), whole.predict(X), rtol=1e-6)
    none = EiVRegressor(x_err=eiv.rectangular(0.6), x_err_factor=0, **QUICK).fit(X, y)
    assert not none.predict_distribution(X).aleatoric.any()


def test_berkson_errors_scatter_true_values_about_what_was_set(table):
    X, y = table
    model = EiVRegressor(x_err=eiv.split_normal(0.1, 0.5), error_model="berkson", **SMALL).fit(X, y)
    drawn = model.draw_zeta(X[:1], 20_000, random_state=0)[:, 0] - X.to_numpy()[0]
    # five standard errors of the mean of 20,000 draws, 0.34 / sqrt(20,000) each
    np.testing.assert_allclose(drawn.mean(0), 0.4 * (2 / np.pi) ** 0.5, atol=0.012)
    for law in ("0.1 + 2%", {"a": eiv.growing(0.1, 0.02), "b": 0.0}):
        with pytest.raises(ValueError, match=r"0\.1 plus 2 % of the true value says .* no meaning for error_model"):
            EiVRegressor(x_err=law, error_model="berkson", **SMALL).fit(X, y)


def test_splits_come_out_as_if_fitted_alone_with_laws_and_missing_readings(table):
    X, y = table
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    splits = [np.arange(50), np.arange(30, 80)]
    settings = QUICK | {"missing": "integrate"}
    for x_err, X_err in ((["±0.5", "0.1 + 2%"], None), (None, [eiv.rectangular(np.linspace(0.2, 0.5, 80)), 0.1])):
        models = fit_splits(EiVRegressor(x_err=x_err, **settings), X, y, splits, X_err=X_err)
        for model, rows in zip(models, splits, strict=True):
            own = None if X_err is None else [eiv.rectangular(np.linspace(0.2, 0.5, 80)[rows]), 0.1]
            settings["random_state"] = model.random_state
            alone = EiVRegressor(x_err=x_err, **settings).fit(X.iloc[rows], y[rows], X_err=own)
            given = None if X_err is None else [0.3, 0.1]
            np.testing.assert_allclose(model.predict(X, X_err=given), alone.predict(X, X_err=given), rtol=1e-5)


def test_readings_below_a_limit_lie_between_it_and_zero(table):
    X, y = table
    X = X + 3
    below = np.where(X["a"] < 2.2, 2.2, np.nan)
    hidden = X.assign(a=X["a"].mask(np.isfinite(below)))  # whatever X holds there
    settings = QUICK | {"input_prior": "flat"}
    model = EiVRegressor(**settings).fit(hidden, y, X_err=[eiv.censored(0.1, below), 0.1])
    one = pd.DataFrame({"a": [np.nan, 2.5], "b": [3.0, 3.0]})
    law = eiv.censored(0.1, [2.0, np.nan], low=1.0)
    drawn = model.draw_zeta(one, 20_000, X_err=[law, 0.1], random_state=0)[..., 0]
    # five standard errors: of a rectangular law from 1 to 2, 0.29 / sqrt(20,000) each
    assert drawn[:, 0].mean() == pytest.approx(1.5, abs=0.01)
    assert drawn[:, 0].std() == pytest.approx(1 / 12**0.5, abs=0.01)
    assert np.mean((drawn[:, 0] > 1) & (drawn[:, 0] < 2)) > 0.95
    assert drawn[:, 1].std() == pytest.approx(0.1, abs=0.005)
    with pytest.raises(ValueError, match="NaN, first in column 'a', row 1: missing='integrate'"):
        model.predict(pd.DataFrame({"a": [np.nan, np.nan], "b": [3.0, 3.0]}), X_err=[law, 0.1])


def test_a_missing_reading_needs_no_error(table):
    """An error that is missing with its reading is as good as any, by row and as a column; alone it is refused."""
    X, y = table
    X, errors, settings = X.copy(), pd.DataFrame(0.2, X.index, ["a", "b"]), QUICK | {"missing": "integrate"}
    X.loc[X.index[[3, 9]], "b"] = np.nan
    open_errors = errors.where(X.notna())
    found = [EiVRegressor(**settings).fit(X, y, X_err=each).predict(X, X_err=each) for each in (errors, open_errors)]
    np.testing.assert_array_equal(*found)
    columns = {"a": "a_err", "b": "b_err"}
    wide = X.join(open_errors.add_suffix("_err"))
    np.testing.assert_allclose(EiVRegressor(columns, **settings).fit(wide, y).predict(wide), found[0], rtol=1e-6)
    open_errors.iloc[0, 0] = np.nan
    with pytest.raises(ValueError, match="X_err must be finite"):
        EiVRegressor(**settings).fit(X, y, X_err=open_errors)


def test_missing_readings_are_integrated_over_the_prior_given_the_others(table):
    X, y = table
    gaps = X.mask(np.random.default_rng(1).random(X.shape) < 0.1)
    model = EiVRegressor(x_err=0.2, missing="integrate", **QUICK).fit(gaps, y)
    prior = model.input_prior_
    rows = pd.DataFrame({"a": [1.0, np.nan, np.nan], "b": [np.nan, 1.0, np.nan]})
    drawn = model.draw_zeta(rows, 40_000, random_state=0)
    mean, V = np.asarray(prior.means[0]), np.asarray(prior.covariances[0])
    V = np.diag(V) if V.ndim == 1 else V
    slope = V[1, 0] / (V[0, 0] + 0.04)  # of the true b on the reading of a
    std = (V[1, 1] - V[1, 0] * slope) ** 0.5
    # five standard errors of 40,000 draws
    assert drawn[:, 0, 1].mean() == pytest.approx(mean[1] + slope * (1 - mean[0]), abs=5 * std / 200)
    assert drawn[:, 0, 1].std() == pytest.approx(std, rel=5 / 80_000**0.5)
    assert drawn[:, 2, 0].std() == pytest.approx(V[0, 0] ** 0.5, rel=5 / 80_000**0.5)
    np.testing.assert_allclose(model.predict(rows)[1], model.predict(rows.iloc[[1]])[0], rtol=1e-5)
    p = model.predict_distribution(rows, budget=True)
    assert (p.aleatoric[2] > p.aleatoric[:2]).all()
    assert model.x_err_.tolist() == [0.2, 0.2]
    exact = model.predict_distribution(rows, X_err=0).aleatoric
    assert (exact > 0).all()


def test_missing_readings_stay_missing_where_errors_are_ignored_and_where_there_are_none(table):
    X, y = table
    for settings in ({"x_err": 0.2, "x_err_factor": 0}, {"x_err": None}):
        model = EiVRegressor(missing="integrate", **settings, **QUICK).fit(X, y)
        p = model.predict_distribution(pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 1.0]}))
        assert p.aleatoric[0] < 1e-9  # rounding
        assert p.aleatoric[1] > 0.01


def test_classes_take_laws_and_missing_readings(table):
    X, y = table
    gaps = X.mask(np.random.default_rng(1).random(X.shape) < 0.1)
    model = EiVClassifier(x_err=["±0.4", 0.1], missing="integrate", **QUICK).fit(gaps, y > 0)
    np.testing.assert_allclose(model.predict_proba(gaps).sum(1), 1)


def test_rows_with_missing_readings_are_like_the_others(table):
    X, y = table
    model = EiVRegressor(x_err=0.2, missing="integrate", **QUICK).fit(X, y)
    p = model.predict_distribution(X.assign(a=np.nan))
    assert not p.unlike.any()
    with pytest.warns(eiv.UnlikeRowsWarning):
        assert model.predict_distribution(X.assign(a=np.nan, b=50.0)[:5]).unlike.all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"x_err": {"a": "±", "b": 0.1}}, r"x_err\['a'\]: '±' is not an error; these are: 0\.5"),
        (
            {"x_err": {"a": "wide", "b": 0.1}},
            "'wide', .* is not among the columns .* and not an error; these are",
        ),
        ({"x_err": {"a": "+0.5 +0.2", "b": 0.1}}, r"x_err\['a'\]: of two sides one has the sign \+"),
        ({"x_err": {"a": "0.1 + 20%", "b": 0.1}}, r"x_err\['a'\]: share must be .* at most 0\.1, got 0\.2"),
        ({"x_err": {"a": eiv.rectangular(-1), "b": 0.1}}, r"x_err\['a'\]: half_width .* got -1"),
        ({"x_err": {"c": "±1"}}, r"x_err names \['c'\], but the features of X are"),
        ({"x_err": ["±1"]}, "an error for each of 2 features, got 1"),
        ({"x_err": ["±1", -2.0]}, r"x_err\['b'\]: error must be finite and not negative, got -2"),
        ({"x_err": eiv.rectangular(np.ones(80))}, "give laws with one value per row as X_err"),
        ({"x_err": "±1", "missing": "perhaps"}, "missing must be 'refuse' or 'integrate'"),
        ({"x_err": 0.1, "missing": "integrate", "input_prior": "flat"}, "'flat' says nothing of them"),
        ({"x_err": 0.1, "missing": "integrate", "error_model": "berkson"}, "error_model='berkson' has none"),
    ],
)
def test_what_cannot_be_is_named(table, settings, message):
    X, y = table
    with pytest.raises(ValueError, match=message):
        EiVRegressor(**SMALL | settings).fit(X, y)


def test_missing_readings_are_refused_unless_asked_for(table):
    X, y = table
    gaps = X.copy()
    gaps.loc[3, "b"] = np.nan
    with pytest.raises(ValueError, match="NaN, first in column 'b', row 3: missing='integrate'"):
        EiVRegressor(x_err=0.1, **SMALL).fit(gaps, y)
    with pytest.raises(ValueError, match="column 'b' holds nothing but NaN"):
        EiVRegressor(x_err=0.1, missing="integrate", **SMALL).fit(gaps.assign(b=np.nan), y)
    with pytest.raises(ValueError, match="infinity"):
        EiVRegressor(x_err=0.1, missing="integrate", **SMALL).fit(gaps.assign(b=np.inf), y)
    covariance = np.array([[[0.04, 0.01], [0.01, 0.04]]])
    with pytest.raises(ValueError, match="errors without correlations"):
        EiVRegressor(missing="integrate", **SMALL).fit(gaps, y, X_err=covariance)
    model = EiVRegressor(x_err=0.1, **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="NaN, first in column 'b'"):
        model.predict(gaps)
    model = EiVRegressor(x_err=0.1, missing="integrate", **QUICK).fit(gaps, y)
    with pytest.raises(ValueError, match="'flat' says nothing"):
        model.predict(gaps, input_prior="flat")


def test_errors_that_are_not_plain_have_the_length_and_parts_of_arrays():
    errors = MixedErrors.of([eiv.rectangular(np.array([0.1, 0.2])).parts(np.zeros(2), "x_err")])
    assert len(errors) == 2
    assert len(errors[np.array([1])]) == 1
    assert errors.tobytes() != errors.times(2.0).tobytes()
