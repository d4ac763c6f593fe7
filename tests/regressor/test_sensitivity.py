"""What would follow if the errors of X were of another size."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import eiv
from eiv import EiVRegressor, NormalPrior, SuspiciousErrorWarning, sensitivity
from eiv.datasets import simulate
from eiv.inputs.mixed import with_law
from eiv.inputs.parts import nearest_parts
from eiv.regressor.sensitivities import Sensitivity, SensitivityRow, _cases, table_for
from eiv.training.fitting import Table

SMALL = {"network": "cosine", "hidden_units": 16, "random_state": 0}
QUICK = {"input_prior": "flat", "epochs": 2, "hidden_units": 8, "n_theta": 10, "random_state": 0}


def test_a_line_with_normal_data_has_the_uncertainties_of_the_closed_form():
    random = np.random.default_rng(0)
    zeta = random.standard_normal(400)
    x, y = zeta + 0.3 * random.standard_normal(400), zeta + 0.8 * random.standard_normal(400)
    model = EiVRegressor(0.3, input_prior="normal", x_err_factor=1, **SMALL).fit(x[:, None], y)
    found = sensitivity(model, x[:, None], y, factors=[0.5, 1.5])
    small, stated, large = found.of("all")
    assert (stated.moved, stated.u_ratio, stated.density_gain) == (0, 1, 0)
    assert max(small.moved, large.moved) < 0.1  # E[b zeta | x] = S_xy / S_xx x, whatever the size
    assert found.words() == ["For the errors of all columns, no conclusion changes between what was tried."]
    assert not found.taken

    def u(size):
        return size / math.sqrt(x.var() - size**2)  # S_xy s / sqrt((S_xx - s^2) S_xx), but for what all share

    assert large.u_ratio == pytest.approx(u(0.45) / u(0.3), rel=0.15)  # f itself is uncertain too
    assert small.u_ratio < 0.85


def test_errors_that_are_clearly_overstated_are_warned_about():
    data = simulate("quadratic", n_rows=300, random_state=0)
    model = EiVRegressor(0.25, x_err_factor=1, **SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousErrorWarning)  # of the fit
        model.fit(data.X, data.y)
    with pytest.warns(SuspiciousErrorWarning, match="seem overstated: labels of rows held out are more probable"):
        found = sensitivity(model, data.X, data.y, factors=[0.4])
    assert found.overstated == ["all"]
    assert any("labels are more probable" in words for words in found.words())


@pytest.fixture(scope="module")
def overstated():
    """Errors stated three times too large, and models that take them as smaller by default or learn their size."""
    data = simulate("quadratic", n_rows=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousErrorWarning)  # of the fit
        models = {
            "pinned": EiVRegressor(0.3, x_err_factor=1, **SMALL).fit(data.X, data.y),
            "default": EiVRegressor(0.3, **SMALL).fit(data.X, data.y),
            "learned": EiVRegressor(eiv.estimated(0.3, dof=8), **SMALL).fit(data.X, data.y),
        }
    return data, models


@pytest.fixture(scope="module")
def of_pinned(overstated):
    """What is found for the model that took the errors as stated."""
    data, models = overstated
    with pytest.warns(SuspiciousErrorWarning, match=r"eiv.estimated\(...\) learns their size"):
        return sensitivity(models["pinned"], data.X, data.y, factors=[0.33, 2.0])


@pytest.mark.parametrize("kind", [pytest.param("default", marks=pytest.mark.slow), "learned"])
def test_as_stated_is_what_the_user_states_whatever_the_fit_took(overstated, of_pinned, kind):
    data, models = overstated
    factor = float(np.ravel(models[kind].model_.factor)[0])
    assert factor < 0.5
    with pytest.warns(SuspiciousErrorWarning, match=f"took the errors as {factor:.3g} times those stated"):
        found = sensitivity(models[kind], data.X, data.y, factors=[0.33, 2.0])
    assert found.overstated == of_pinned.overstated == ["all"]
    assert [row for row in found.rows if not row.as_fitted] == list(of_pinned.rows)
    (own,) = (row for row in found.rows if row.as_fitted)
    assert own.change == f"{factor:.3g}, as fitted"
    assert found.taken == {"x0": factor}
    assert own.density_gain > 0.3
    lines = {line.get_label(): line.get_xdata() for line in found.plot().get_axes()[0].get_lines()}
    assert lines["as fitted"] == [factor, factor]


@pytest.mark.usefixtures("few_zetas")
def test_a_factor_that_was_tried_anyway_is_that_of_the_fit_too():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), random.normal(size=60)
    found = sensitivity(EiVRegressor([0.1, 0.2], x_err_factor=0.5, **QUICK).fit(X, y), X, y, factors=[0.5, 2.0])
    assert [(row.column, row.change) for row in found.rows[1:]] == [
        (column, change) for column in ("all", "x0", "x1") for change in ("0.5, as fitted", "2")
    ]
    assert found.words()[0] == "The fit itself took the errors as 0.5 times those stated."


def test_factors_of_the_fit_that_differ_between_columns_are_said_for_each():
    stated = SensitivityRow("all", 1.0, 0.0, 1.0, 0.95, 0.0, 0.0)
    found = Sensitivity((stated,), n_held_out=100, taken={"a": 0.5, "b": 1.25})
    assert found.words()[0] == (
        "The fit itself took the errors, over those stated, as 0.5 times in column a and 1.25 times in column b."
    )


@pytest.mark.usefixtures("few_zetas")
def test_each_noisy_column_is_changed_alone():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(60, 3)), columns=["a", "b", "c"])
    y = X["a"] + random.normal(size=60)
    model = EiVRegressor({"a": 0.1, "b": 0.2, "c": 0.0}, **QUICK).fit(X, y)
    found = sensitivity(model, X[["c", "b", "a"]], y, factors=[0.5, 1, 2])
    assert found.columns == ["all", "a", "b"]
    assert found.n_held_out == 12
    assert len(found.to_frame()) == 7
    assert [row.factor for row in found.of("b")] == [0.5, 1, 2]
    again = sensitivity(model.model_, X, y, factors=[0.5, 2])
    assert again.rows == found.rows  # common random numbers: the same numbers each time
    assert len(found.plot().get_axes()) == 4


def test_the_factor_at_which_a_conclusion_changes_is_interpolated_on_its_logarithm():
    rows = [
        SensitivityRow("all", 1.0, 0.0, 1.0, 0.95, 0.0, 0.0),
        SensitivityRow("all", 0.25, 3.0, 0.5, 0.80, -0.5, 0.1),
        SensitivityRow("all", 0.5, 1.5, 0.7, 0.94, -0.1, 0.1),
        SensitivityRow("all", 2.0, 0.5, 2.0, 0.99, -0.3, 0.1),
    ]
    chance = 2 * math.sqrt(0.95 * 0.05 / 400)
    below = 0.5 ** (1 + (chance - 0.01) / 0.14)  # coverage falls from 0.94 to 0.80
    assert Sensitivity(tuple(rows), n_held_out=400).words() == [
        f"Errors of all columns below {0.5 ** (1 / 1.5):.2g} times those stated: "
        "predictions move by 1.5 of their uncertainty (at 0.5).",
        f"Errors of all columns below {below:.2g} times those stated: "
        "80 % of the labels lie in their 95 % intervals (at 0.25).",
        f"Errors of all columns above {2 ** (chance / 0.04):.2g} times those stated: "
        "99 % of the labels lie in their 95 % intervals (at 2).",
        f"Errors of all columns below {0.5 ** (1 + 0.5 / 2):.2g} times those stated: "
        "labels are less probable, by 0.5 nats each (at 0.25).",
        f"Errors of all columns above {2 ** (1 / 1.5):.2g} times those stated: "
        "labels are less probable, by 0.3 nats each (at 2).",
        "Factors between those that were tried are interpolated on their logarithm.",
    ]


def test_a_factor_of_zero_has_no_logarithm_and_what_is_wrong_as_stated_may_become_right():
    rows = [
        SensitivityRow("all", 1.0, 0.0, 1.0, 0.80, 0.0, 0.0),
        SensitivityRow("all", 0.0, 1.5, 0.7, 0.80, 0.0, 0.1),
        SensitivityRow("all", 2.0, 0.5, 2.0, 0.94, 0.0, 0.1),
    ]
    above = 2 ** ((0.15 - 2 * math.sqrt(0.95 * 0.05 / 400)) / 0.14)
    assert Sensitivity(tuple(rows), n_held_out=400).words()[:2] == [
        "Errors of all columns times a factor between 0 and 1: predictions move by 1.5 of their uncertainty (at 0).",
        f"Errors of all columns above {above:.2g} times those stated: "
        "94 % of the labels lie in their 95 % intervals, as many as should (at 2).",
    ]


@pytest.mark.usefixtures("few_zetas")
def test_what_cannot_be_measured_is_refused():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), random.normal(size=60)
    model = EiVRegressor(0.1, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="factors must be a number of at least 0, got -1"):
        sensitivity(model, X, y, factors=[-1])
    for nothing in (2.0, "rectangular", [], None):
        with pytest.raises(ValueError, match=r"factors must be a list of numbers .* or of laws, .*, got "):
            sensitivity(model, X, y, factors=nothing)
    with pytest.raises(NotFittedError, match="This EiVRegressor instance is not fitted yet"):
        sensitivity(EiVRegressor(0.1), X, y)
    with pytest.raises(ValueError, match="X must have 50 rows at least, got 20"):
        sensitivity(model, X[:20], y[:20])
    with pytest.raises(ValueError, match="no column of X has an error"):
        sensitivity(model, X, y, X_err=0)
    with pytest.raises(ValueError, match="X must be rows x 2"):
        sensitivity(model, X[:, :1], y)
    with pytest.raises(ValueError, match="y must have 1 outputs"):
        sensitivity(model, X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="finite numbers only"):
        sensitivity(model, X, np.where(y > 1, np.nan, y))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        sensitivity(model, np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="factors must be 'normal', 'rectangular', 'triangular' or 'student_t'"):
        sensitivity(model, X, y, factors=["cauchy"])
    with pytest.raises(TypeError, match="model must be a fitted EiVRegressor"):
        sensitivity(eiv.EiVClassifier(0.1, **QUICK).fit(X, y > 0).model_, X, y)
    named = EiVRegressor(0.1, **QUICK).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    with pytest.raises(ValueError, match="X has no column 'a'"):
        sensitivity(named, pd.DataFrame(X, columns=["c", "b"]), y)


@pytest.mark.slow
def test_another_law_is_what_a_fit_with_it_finds():
    """The stated law and the other one change places."""
    random = np.random.default_rng(0)
    zeta = random.normal(size=55)  # of which 11 are held out: the median of an odd number has a reciprocal
    X, y = (zeta + random.uniform(-0.9, 0.9, 55))[:, None], np.sin(2 * zeta)
    settings = SMALL | {"hidden_units": 4, "x_err_factor": 1.0, "n_theta": 20}
    law = eiv.rectangular(0.9)
    as_normal = EiVRegressor(law.parts(np.zeros(1), "x_err").std[0], **settings).fit(X, y)
    under_law = EiVRegressor(law, **settings).fit(X, y)
    there = sensitivity(as_normal, X, y, factors=["rectangular"]).rows
    back = sensitivity(under_law, X, y, factors=["normal"]).rows
    assert there[1].density_gain == pytest.approx(-back[1].density_gain, abs=1e-6)
    assert there[1].u_ratio == pytest.approx(1 / back[1].u_ratio, rel=1e-6)
    assert there[1].law == "rectangular"


@pytest.mark.usefixtures("few_zetas")
def test_gaps_stay_gaps_under_other_laws():
    random = np.random.default_rng(0)
    zeta = random.normal(size=(50, 2))
    X = np.where(random.random((50, 2)) < 0.1, np.nan, zeta + [0.3, 0.0] * random.normal(size=(50, 2)))
    prior = NormalPrior([1.0, 1.0])
    model = EiVRegressor([0.3, 0.0], missing="integrate", **QUICK | {"input_prior": prior}).fit(X, zeta.sum(1))
    found = sensitivity(model, X, zeta.sum(1), factors=[2.0, "student_t"])
    assert [(row.column, row.change) for row in found.rows] == [
        ("all", "1, as stated"),
        ("all", "2"),
        ("all", "student_t"),
    ]
    assert all(np.isfinite(row.density_gain) for row in found.rows)
    table = table_for(model, X, zeta.sum(1), None, None)[1]
    other = with_law(table.x_err, [0], nearest_parts("student_t", 4.0))
    np.testing.assert_array_equal(other.std, table.x_err.std)
    np.testing.assert_allclose(other.parts[0].std, table.x_err.std[:, 0])


def test_each_column_has_the_law_alone():
    model = (
        EiVRegressor([0.1, 0.2, 0.0], **QUICK)
        .fit(np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0))
        .model_
    )
    table = Table(np.zeros((4, 3)), np.array([[0.1, 0.2, 0.0]]), np.zeros((4, 1)))
    cases = _cases(model, table, [0, 1], [0.5, "rectangular"])
    assert [(case.column, case.factor, case.law) for case in cases] == [
        ("all", 1, "as stated"),
        *[(name, *change) for name in ("all", "x0", "x1") for change in ((0.5, "as stated"), (1, "rectangular"))],
    ]
    laws = [[part is not None for part in case.table.x_err.parts] for case in cases if case.law == "rectangular"]
    assert laws == [[True, True, False], [True, False, False], [False, True, False]]


@pytest.mark.parametrize("least", [0.5, 0.0])
def test_the_figure_has_sizes_and_laws(least):
    def row(factor, gain, law="as stated"):
        return SensitivityRow("all", factor, 0.3, 1.0, 0.95, gain, 0.1, law)

    rows = (row(1.0, 0.0), row(least, -0.2), row(1.0, 0.4, "rectangular"), row(1.0, 0.1, "student_t"))
    panel = Sensitivity(rows, n_held_out=400).plot().get_axes()[3]
    points = [dict(zip(*line.get_data(), strict=True)) for line in panel.get_lines() if line.get_marker() == "o"]
    ticks = dict(zip([label.get_text() for label in panel.get_xticklabels()], panel.get_xticks(), strict=True))
    assert list(ticks) == [f"{least:g}", "1", "rectangular", "student t"]
    assert points[0] == {least: -0.2, 1.0: 0.0}
    assert points[1] == {ticks["rectangular"]: 0.4, ticks["student t"]: 0.1}
    assert 1 < ticks["rectangular"] < ticks["student t"]


def test_words_on_laws_say_what_changes():
    rows = [
        SensitivityRow("all", 1.0, 0.0, 1.0, 0.95, 0.0, 0.0),
        SensitivityRow("all", 1.0, 0.2, 1.0, 0.95, 0.3, 0.1, law="student_t"),
        SensitivityRow("all", 1.0, 0.2, 1.0, 0.95, 0.0, 0.1, law="rectangular"),
    ]
    assert Sensitivity(tuple(rows), n_held_out=400).words() == [
        "With student_t errors of all columns of the stated size, labels are more probable, by 0.3 nats each."
    ]
