"""Arrays and tables that carry errors and units: the same numbers as plain arrays, and wrong units a clear error."""

import numpy as np
import pandas as pd
import pytest

from eiv import EiVClassifier, EiVRegressor, ModelFileError
from forging import forged

FAST = {"hidden_units": 16, "epochs": 5, "n_theta": 10, "random_state": 0, "recipe": "paper", "device": "cpu"}
FAST |= {"dtype": "float64"}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(5.0, 1.0, (30, 2))
ERRORS = RANDOM.uniform(0.05, 0.3, (30, 2))
Y, Y_ERR = X @ [2.0, -1.0], RANDOM.uniform(0.05, 0.3, 30)


@pytest.fixture(scope="module")
def expected():
    return total(EiVRegressor(**FAST).fit(X, Y, X_err=ERRORS, y_err=Y_ERR), X, X_err=ERRORS, y_err=Y_ERR)


def total(model, *args, **more):
    return model.predict_distribution(*args, **more).total


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.fixture(scope="module")
def unumpy():
    return pytest.importorskip("uncertainties.unumpy")


@pytest.fixture(scope="module")
def quantity():
    return pytest.importorskip("pint").UnitRegistry().Quantity


@pytest.fixture(scope="module")
def u():
    return pytest.importorskip("astropy.units")


def test_ufloats_are_values_with_errors(unumpy, expected):
    inputs, labels = unumpy.uarray(X, ERRORS), unumpy.uarray(Y, Y_ERR)
    model = EiVRegressor(**FAST).fit(inputs, labels)
    close(total(model, inputs, y_err=Y_ERR), expected)
    close(total(EiVRegressor(**FAST).fit(inputs.tolist(), labels.tolist()), inputs.tolist(), y_err=Y_ERR), expected)
    table = pd.DataFrame({"a": inputs[:, 0], "b": inputs[:, 1]}, index=np.arange(30) + 7)
    by_name = EiVRegressor(**FAST).fit(table, pd.Series(labels, index=table.index))
    close(total(by_name, table, y_err=Y_ERR), expected)
    assert list(by_name.feature_names_in_) == ["a", "b"]
    partly = table.assign(b=X[:, 1])  # a column of plain numbers is exact
    exact = EiVRegressor(**FAST).fit(X, Y, X_err=ERRORS * [1.0, 0.0])
    close(EiVRegressor(**FAST).fit(partly, Y).predict(partly), exact.predict(X, X_err=ERRORS * [1.0, 0.0]))
    assert EiVClassifier(**FAST).fit(inputs, Y.mean() < Y).predict(inputs).shape == (30,)


def test_errors_that_are_given_twice_are_refused(unumpy):
    inputs = unumpy.uarray(X, ERRORS)
    for arguments, name in (({"X_err": 0.1}, "X_err"), ({}, "x_err")):
        with pytest.raises(ValueError, match=f"X carries errors of its own, and {name} gives others"):
            EiVRegressor(None if arguments else 0.1, **FAST).fit(inputs, Y, **arguments)
    with pytest.raises(ValueError, match="y carries errors of its own, and y_err gives others"):
        EiVRegressor(**FAST).fit(X, unumpy.uarray(Y, Y_ERR), y_err=0.1)
    with pytest.raises(ValueError, match="X carries errors of its own, and X_err gives others"):
        EiVRegressor(**FAST).fit(inputs, Y).predict(inputs, X_err=0.1)


def test_quantities_of_pint_are_converted(quantity, unumpy, expected):
    model = EiVRegressor(**FAST).fit(
        quantity(X, "m"), quantity(Y, "kg"), X_err=quantity(100 * ERRORS, "cm"), y_err=quantity(1000 * Y_ERR, "g")
    )
    assert model.model_.names.units == ("m", "m")
    assert model.model_.names.output_units == ("kg",)
    close(total(model, X, X_err=ERRORS, y_err=Y_ERR), expected)
    close(total(model, quantity(X / 1000, "km"), X_err=ERRORS, y_err=quantity(Y_ERR, "kg")), expected)
    assert model.score(X, quantity(1000 * Y, "g"), X_err=0) == pytest.approx(model.score(X, Y, X_err=0))
    both = quantity(unumpy.uarray(100 * X, 100 * ERRORS), "cm")
    close(total(model, both, y_err=Y_ERR), expected)


def test_temperatures_have_zeros_that_differ(quantity, u, expected):
    celsius = EiVRegressor(**FAST).fit(quantity(X, "degC"), Y, X_err=quantity(ERRORS, "delta_degC"), y_err=Y_ERR)
    for scale, errors in (("kelvin", quantity(ERRORS, "kelvin")), ("degF", quantity(1.8 * ERRORS, "delta_degF"))):
        values = quantity(X, "degC").to(scale)
        np.testing.assert_allclose(total(celsius, values, X_err=errors, y_err=Y_ERR), expected, rtol=1e-6)
    other = EiVRegressor(**FAST).fit(X * u.deg_C, Y, X_err=ERRORS * u.K, y_err=Y_ERR)
    np.testing.assert_allclose(total(other, (X + 273.15) * u.K, X_err=ERRORS, y_err=Y_ERR), expected, rtol=1e-6)


def test_quantities_and_tables_of_astropy_are_converted(u, expected):
    from astropy.table import QTable, Table  # noqa: PLC0415

    table = QTable({"a": X[:, 0] * u.m, "b": X[:, 1] * u.s, "a_err": 100 * ERRORS[:, 0] * u.cm})
    columns = {"a": "a_err"}
    model = EiVRegressor(columns, **FAST).fit(table, Y * u.kg, y_err=1000 * Y_ERR * u.g)
    reference = EiVRegressor(**FAST).fit(X, Y, X_err=ERRORS * [1.0, 0.0], y_err=Y_ERR)
    wanted = total(reference, X, X_err=ERRORS * [1.0, 0.0], y_err=Y_ERR)
    close(total(model, table, y_err=Y_ERR), wanted)
    assert model.model_.names.units == ("m", "s")
    other = QTable({"a": X[:, 0] / 1000 * u.km, "b": X[:, 1] / 60 * u.min, "a_err": ERRORS[:, 0] * u.m})
    close(total(model, other, y_err=Y_ERR * u.kg), wanted)
    plain = Table({"a": X[:, 0], "b": X[:, 1], "a_err": ERRORS[:, 0]})  # no units: those of the fit
    close(total(model, plain, y_err=Y_ERR), wanted)
    errors = QTable({"b": 1000 * ERRORS[:, 1] * u.ms, "a": ERRORS[:, 0] * u.m})
    apart = EiVRegressor(**FAST).fit(table[["a", "b"]], Y, X_err=errors, y_err=Y_ERR)
    close(total(apart, table[["a", "b"]], X_err=errors, y_err=Y_ERR), expected)
    by_name = {"a": 10 * u.cm, "b": 0.2 * u.s}
    close(apart.predict(X_table(table), X_err=by_name), apart.predict(X_table(table), X_err=[0.1, 0.2]))


def X_table(table):  # noqa: N802
    return table[["a", "b"]]


def test_wrong_units_are_a_clear_error(quantity, u):
    model = EiVRegressor(**FAST).fit(quantity(X, "m"), quantity(Y, "kg"), X_err=0.1)
    with pytest.raises(ValueError, match="X: column 0 is in s, which cannot be converted to m: Cannot convert from"):
        model.predict(quantity(X, "s"), X_err=0.1)
    with pytest.raises(ValueError, match="X_err is in kg, which cannot be converted to m"):
        model.predict(X, X_err=quantity(0.1, "kg"))
    with pytest.raises(ValueError, match="y is in m, which cannot be converted to kg"):
        model.score(X, quantity(Y, "m"), X_err=0.1)
    with pytest.raises(ValueError, match="y_err is in m, which cannot be converted to kg"):
        model.predict_distribution(X, X_err=0.1, y_err=quantity(0.1, "m"))
    with pytest.raises(ValueError, match="X_err is in cm, but what it belongs to has no unit"):
        EiVRegressor(**FAST).fit(X, Y, X_err=0.1 * u.cm)
    with pytest.raises(ValueError, match="x_err must be plain numbers, in the units of X; errors with units go to fit"):
        EiVRegressor(0.1 * u.cm, **FAST).fit(X * u.m, Y)
    with pytest.raises(ValueError, match="x_err must be plain numbers"):
        EiVRegressor({"a": quantity(0.1, "cm")}, **FAST).fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    without = EiVRegressor(0.1, **FAST).fit(X, Y)
    with pytest.raises(ValueError, match="X: column 0 is in m, but the model knows no unit of it"):
        without.predict(X * u.m)


def test_masked_columns_are_refused(u):
    from astropy.table import MaskedColumn, Table  # noqa: PLC0415

    table = Table({"a": MaskedColumn(X[:, 0], mask=np.arange(30) == 3), "b": X[:, 1]})
    with pytest.raises(ValueError, match="X: column 'a' must hold a value everywhere, but 1 of its 30 values are"):
        EiVRegressor(0.1, **FAST).fit(table, Y)


def test_a_model_file_keeps_units(u, tmp_path):
    path = tmp_path / "model.eiv"
    model = EiVRegressor(0.1, **FAST).fit(X * u.m, Y * u.kg)
    model.save(path)
    loaded = EiVRegressor.load(path)
    assert loaded.model_.names.units == ("m", "m")
    assert loaded.model_.names.output_units == ("kg",)
    np.testing.assert_array_equal(loaded.predict(X / 1000 * u.km), model.predict(X / 1000 * u.km))
    with pytest.raises(ValueError, match="X: column 0 is in s, which cannot be converted to m"):
        loaded.predict(X * u.s)
    for units in (["m"], ["m", 3], "mm"):
        forge = path.with_name("forged.eiv")
        forge.write_bytes(
            forged(path.read_bytes(), lambda inner, _, units=units: inner["features"].update(units=units))
        )
        with pytest.raises(ModelFileError, match="it must hold 2 units"):
            EiVRegressor.load(forge)
