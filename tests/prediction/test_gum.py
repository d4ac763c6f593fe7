"""The uncertainty budget after the GUM: against closed forms, and an example of the GUM itself."""

import math

import pytest
from scipy.stats import norm, t

from eiv import InputQuantity, UncertaintyBudget

# GUM H.1, the calibration of an end gauge, in nm: standard, difference, expansion, temperature difference.
END_GAUGE = (
    InputQuantity("l_S", 0.0, 25.0, dof=18),
    InputQuantity("d", 0.0, 9.7, dof=25.6),
    InputQuantity("alpha", 0.0, 2.9, dof=50),
    InputQuantity("theta", 0.0, 16.6, dof=2),
)


def test_the_end_gauge_of_the_gum():
    """GUM H.1.6 takes 16 degrees of freedom, rounded down from 16.7, hence k = 2.92 for 99 %, and U = 93 nm."""
    budget = UncertaintyBudget("l", 50_000_838.0, END_GAUGE, level=0.99)
    assert budget.std == pytest.approx(32, abs=0.5)
    assert budget.dof == pytest.approx(16.7, abs=0.5)
    assert math.floor(budget.dof) == 16
    assert budget.coverage_factor == pytest.approx(2.92, abs=0.03)
    assert budget.expanded == pytest.approx(93, abs=2)


def test_a_linear_case_in_closed_form():
    budget = UncertaintyBudget(
        "y", 1.0, (InputQuantity("a", 2.0, 0.1, -3.0, dof=5), InputQuantity("b", 4.0, 0.2, 2.0, dof=9)), level=0.9
    )
    variance = 0.3**2 + 0.4**2
    assert budget.std == pytest.approx(math.sqrt(variance))
    dof = variance**2 / (0.3**4 / 5 + 0.4**4 / 9)
    assert budget.dof == pytest.approx(dof)
    assert budget.coverage_factor == pytest.approx(t(dof).ppf(0.95))
    low, high = budget.interval
    assert (low + high) / 2 == pytest.approx(1.0)
    assert high - low == pytest.approx(2 * budget.expanded)
    table = budget.to_frame()
    assert table["share"].tolist() == pytest.approx([0.09 / variance, 0.16 / variance, 1.0])
    assert table["contribution"].tolist() == pytest.approx([0.3, 0.4, math.sqrt(variance)])
    assert table.loc["y", "U"] == budget.expanded


def test_known_uncertainties_have_the_normal_factor():
    budget = UncertaintyBudget("y", 1.0, (InputQuantity("a", 2.0, 0.1),))
    assert budget.dof == math.inf
    assert budget.coverage_factor == pytest.approx(norm.ppf(0.975))


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_degrees_of_freedom_do_not_depend_on_the_unit(scale):
    small = UncertaintyBudget(
        "y", 0.0, (InputQuantity("a", 0.0, 3.0 * scale, dof=4), InputQuantity("b", 0.0, 4.0 * scale))
    )
    assert small.dof == pytest.approx(4 * 5**4 / 3**4)


def test_a_remainder_counts_and_may_be_negative():
    quantities = (InputQuantity("a", 0.0, 3.0), InputQuantity("b", 0.0, 4.0))
    assert UncertaintyBudget("y", 0.0, quantities, remainder=144.0).std == 13.0
    correlated = UncertaintyBudget("y", 0.0, quantities, remainder=-9.0)
    assert correlated.std == 4.0
    assert correlated.to_frame().loc["remainder", "share"] == -9 / 16
    with pytest.raises(ValueError, match="remainder must not outweigh"):
        UncertaintyBudget("y", 0.0, quantities, remainder=-26.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"std": -1.0}, "a: std must be a number of at least 0, got -1.0"),
        ({"std": math.nan}, "a: std must be a number of at least 0"),
        ({"dof": 0}, "a: dof must be above 0, got 0"),
        ({"value": math.inf}, "a: value and sensitivity must be finite"),
    ],
)
def test_what_is_no_quantity_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        InputQuantity(**{"name": "a", "value": 0.0, "std": 1.0} | arguments)


@pytest.mark.parametrize("arguments", [{"value": math.nan}, {"remainder": math.inf}])
def test_a_result_is_finite(arguments):
    with pytest.raises(ValueError, match="y: value and remainder must be finite"):
        UncertaintyBudget(**{"name": "y", "value": 0.0, "quantities": (InputQuantity("a", 0.0, 1.0),)} | arguments)


def test_units_are_not_known_unless_they_are_given():
    budget = UncertaintyBudget("y", 0.0, (InputQuantity("a", 0.0, 3.0), InputQuantity("b", 0.0, 1.0, unit=r"\one")))
    assert (budget.unit, [each.unit for each in budget.quantities]) == (None, [None, r"\one"])


def test_units_are_set_by_name():
    budget = UncertaintyBudget("y", 0.0, (InputQuantity("a", 0.0, 3.0),)).with_units(a=r"\metre", y=r"\kelvin")
    assert (budget.unit, budget.quantities[0].unit) == (r"\kelvin", r"\metre")
    with pytest.raises(ValueError, match="units must be of a, y; got b"):
        budget.with_units(b=r"\metre")
