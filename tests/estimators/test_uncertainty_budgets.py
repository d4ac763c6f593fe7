"""Budgets after the GUM, of predictions: a linear model against the closed form, and what they have in common."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import truncnorm
from torch import nn

from eiv import EiVRegressor, uncertainty_budgets
from eiv.inputs import ZetaPosterior
from eiv.io.budgets import budget_to_xml

ERRORS = np.array([0.3, 0.1, 0.0])


@pytest.fixture(scope="module")
def plane():
    """A linear network under a flat prior, on three columns of which the last is exact: the model and its rows."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(200, 3)), columns=["a", "b", "c"])
    y = pd.DataFrame({"mass": X @ [2.0, -1.0, 0.5] + 0.1 * random.normal(size=200)})
    options = {"epochs": 30, "learning_rate": 0.02, "dtype": "float64", "random_state": 0, "n_theta": 50}
    model = EiVRegressor(ERRORS, module=nn.Linear, input_prior="flat", **options)
    return model.fit(X, y), X


def test_a_linear_model_is_the_law_of_propagation(plane):
    """c_i is the slope, u(x_i) the stated error, and nothing but rounding of draws is left over."""
    model, X = plane
    slopes = np.array(
        [(model.predict(X[:1] + np.eye(3)[[i]], X_err=0) - model.predict(X[:1], X_err=0)).item() for i in range(3)]
    )
    for budget, (_, row) in zip(uncertainty_budgets(model, X[:4]), X[:4].iterrows(), strict=True):
        *features, fit = budget.quantities
        assert [each.name for each in features] == ["a", "b", "c"]
        np.testing.assert_allclose([each.value for each in features], row)
        np.testing.assert_allclose([each.std for each in features], ERRORS)
        np.testing.assert_allclose([each.sensitivity for each in features], slopes, rtol=1e-4)
        caused = np.sum((slopes * ERRORS) ** 2)
        assert abs(budget.remainder) < 0.05 * caused  # 50 draws of the weights vary the slopes
        assert budget.std == pytest.approx(np.sqrt(caused + fit.std**2), rel=0.03)
        assert budget.name == "mass"


def test_the_combined_uncertainty_is_that_of_the_prediction(plane):
    model, X = plane
    p = model.predict_distribution(X[:3])
    of_function, of_label = (uncertainty_budgets(model, X[:3], of=of) for of in ("function", "label"))
    np.testing.assert_allclose([budget.std for budget in of_function], p.std[:, 0])
    np.testing.assert_allclose([budget.std for budget in of_label], p.total[:, 0])
    np.testing.assert_allclose([budget.value for budget in of_label], p.mean[:, 0])
    assert of_label[0].quantities[-1].name == "noise"
    again = uncertainty_budgets(model.model_, X[:3])
    assert again == of_function


def test_degrees_of_freedom_widen_the_interval(plane):
    model, X = plane
    (known,), (few,) = (uncertainty_budgets(model, X[:1], dof=dof, level=0.9) for dof in (None, {"a": 3}))
    part = few.quantities[0].contribution
    assert few.dof == pytest.approx(few.std**4 / (part**4 / 3))
    assert few.expanded > known.expanded
    assert known.coverage_factor == pytest.approx(1.6449, abs=1e-4)


def test_a_learned_prior_makes_the_input_more_certain():
    random = np.random.default_rng(0)
    zeta = random.normal(size=(300, 1))
    X, y = zeta + 0.5 * random.normal(size=(300, 1)), zeta[:, 0]
    model = EiVRegressor(0.5, input_prior="normal", epochs=2, random_state=0).fit(X, y)
    (quantity, *_) = uncertainty_budgets(model, [[2.0]])[0].quantities
    spread = X.var() - 0.25  # normal true inputs: the closed form of their mean and variance given x
    assert quantity.std == pytest.approx(np.sqrt(0.25 * spread / X.var()), rel=0.02)
    assert quantity.value == pytest.approx(X.mean() + spread / X.var() * (2.0 - X.mean()), rel=0.02)


def test_errors_may_be_columns_of_the_inputs(plane):
    _, X = plane
    table = X[["a", "b"]].assign(a_err=np.linspace(0.1, 0.4, 200))
    model = EiVRegressor({"a": "a_err"}, epochs=1, hidden_units=4, recipe="paper", input_prior="flat")
    (budget,) = uncertainty_budgets(model.fit(table, X["a"]), table[199:])
    assert [each.name for each in budget.quantities] == ["a", "b", "fit"]
    assert budget.quantities[0].std == pytest.approx(0.4)


@dataclass(frozen=True)
class CutOff(ZetaPosterior):
    """A normal distribution without its negative part; `mean` and `std` are those of the whole."""

    def draw(self, noise):
        mean, std = self.mean.unsqueeze(-2), self.std.unsqueeze(-2)
        return mean - std * torch.special.ndtri(torch.special.ndtr(mean / std) * torch.special.ndtr(-noise))


class Positive:
    """A flat prior of positive inputs."""

    def posterior(self, x, x_err):
        return CutOff(x, x_err.expand_as(x))


def test_moments_of_a_posterior_of_one_s_own_are_those_of_its_draws():
    """Against those of the normal distribution that is cut off at zero, in closed form."""
    X = np.random.default_rng(0).uniform(0, 1, (60, 1))
    options = {"epochs": 1, "hidden_units": 4, "recipe": "paper", "input_prior": Positive(), "random_state": 0}
    model = EiVRegressor(0.2, **options).fit(X, X[:, 0])
    x = np.array([0.01, 0.3])
    found = [budget.quantities[0] for budget in uncertainty_budgets(model, x[:, None])]
    expected = truncnorm(-x / 0.2, np.inf, loc=x, scale=0.2)
    np.testing.assert_allclose([each.value for each in found], expected.mean(), rtol=2e-3)
    np.testing.assert_allclose([each.std for each in found], expected.std(), rtol=1e-2)


FITTED = {"epochs": 1, "hidden_units": 4, "recipe": "paper", "input_prior": "flat", "random_state": 0}


def test_inputs_with_units_and_errors_are_those_of_predict():
    u, table = pytest.importorskip("astropy.units"), pytest.importorskip("astropy.table").QTable
    x = np.random.default_rng(0).uniform(1, 2, 40)
    model = EiVRegressor(0.1, **FITTED).fit(table({"length": x * u.m}), x * u.kg / u.s)
    (plain,), (small,) = (
        uncertainty_budgets(model, X, y_err=y_err, of="label")
        for X, y_err in (([[1.5]], 0.2), (table({"length": [0.0015] * u.km}), 200 * u.g / u.s))
    )
    assert small.value == pytest.approx(plain.value)
    assert small.std == pytest.approx(plain.std)
    assert [each.unit for each in plain.quantities] == [r"\metre", *[r"\kilogram\second\tothe{-1}"] * 2]
    assert plain.unit == plain.quantities[-1].unit
    with pytest.raises(ValueError, match="X is in s, which cannot be converted to m"):
        uncertainty_budgets(model, table({"length": [1.5] * u.s}))
    odd = EiVRegressor(0.1, **FITTED).fit(table({"length": x * u.m}), x * u.mag)
    (budget,) = uncertainty_budgets(odd, [[1.5]])
    assert budget.unit == "mag"
    with pytest.raises(ValueError, match="y: its unit 'mag' has no form in the D-SI"):
        budget_to_xml(budget)


def test_inputs_that_carry_their_errors_are_taken_with_these():
    unumpy = pytest.importorskip("uncertainties.unumpy")
    x = np.random.default_rng(0).uniform(1, 2, (40, 1))
    model = EiVRegressor(**FITTED).fit(x, x[:, 0], X_err=0.1)
    found, expected = uncertainty_budgets(model, unumpy.uarray(x[:1], 0.3)), uncertainty_budgets(model, x[:1], 0.3)
    assert found == expected
    assert found[0].quantities[0].std == pytest.approx(0.3)


def test_wrong_arguments_are_named(plane):
    model, X = plane
    with pytest.raises(ValueError, match="dof must be of a, b, c, fit, noise; got d"):
        uncertainty_budgets(model, X[:1], dof={"d": 3})
    with pytest.raises(ValueError, match="X must have the columns a, b, c, got b, a, c"):
        uncertainty_budgets(model, X[["b", "a", "c"]])
    with pytest.raises(ValueError, match=r"X must have shape \(rows, 3\), got \(1, 2\)"):
        uncertainty_budgets(model, X.iloc[:1, :2].to_numpy())
    with pytest.raises(ValueError, match="X must hold numbers only"):
        uncertainty_budgets(model, [["a", "b", "c"]])
    with pytest.raises(ValueError, match="of must be 'function' or 'label'"):
        uncertainty_budgets(model, X[:1], of="all")
    two = EiVRegressor(0.1, epochs=1, hidden_units=4, recipe="paper").fit(X, np.ones((200, 2)) * X[["a"]].to_numpy())
    with pytest.raises(ValueError, match="model must have one output, got 2"):
        uncertainty_budgets(two, X[:1])
