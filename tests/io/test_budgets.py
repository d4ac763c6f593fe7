"""Budgets in forms that others read.

`schemas/` holds a schema of the XML that was written for these tests. EIV_DSI_XSD names the schema of the D-SI itself,
SI_Format.xsd, to check the XML with.
"""

import json
import math
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eiv import InputQuantity, UncertaintyBudget
from eiv.io.budgets import NAMESPACE, budget_from_json, budget_to_json, budget_to_latex, budget_to_xml

SI = {"si": NAMESPACE}


@pytest.fixture
def budget():
    quantities = (
        InputQuantity("t_1 & 50%", -2.5e-7, 1e-9, -3.0, dof=5.5, unit=r"\degreecelsius"),
        InputQuantity("b", 4.0e8, 0.0, 2.0),
        InputQuantity("fit", 0.0, 4e-9),
    )
    return UncertaintyBudget("mass <x>", 1.5, quantities, remainder=-1e-18, unit=r"\kilogram")


def test_json_goes_both_ways(budget):
    text = budget_to_json(budget)
    assert budget_from_json(text) == budget
    content = json.loads(text)
    assert content["result"]["coverage_factor"] == budget.coverage_factor
    assert content["quantities"][1]["degrees_of_freedom"] is None
    with pytest.raises(ValueError, match="'quantities' is missing"):
        budget_from_json('{"result": {}}')
    with pytest.raises(ValueError, match="text must be JSON that budget_to_json has written"):
        budget_from_json("[]")


def test_latex_is_a_table_whose_names_are_escaped(budget):
    lines = budget_to_latex(budget).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrr}"
    assert lines[-1] == r"\end{tabular}"
    cells = [line for line in lines if line.endswith(r"\\") and "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in cells} == {5}
    assert r"t\_1 \& 50\% & $-2.5 \cdot 10^{-7}$ & $1 \cdot 10^{-9}$ & 5.5 & $-$3" in lines[3]
    assert r"$\infty$" in lines[4]
    assert "remainder" in lines[6]


def test_xml_holds_the_numbers(budget):
    root = ElementTree.fromstring(budget_to_xml(budget))
    result, *inputs = root.findall(".//si:real", SI)
    assert result.find("si:label", SI).text == "mass <x>"
    assert result.find("si:unit", SI).text == r"\kilogram"
    expanded = result.find(".//si:expandedMU", SI)
    assert float(expanded.find("si:valueExpandedMU", SI).text) == budget.expanded
    assert float(expanded.find("si:coverageFactor", SI).text) == pytest.approx(budget.coverage_factor, abs=1e-6)
    assert expanded.find("si:coverageProbability", SI).text == "0.95"
    for element, quantity in zip(inputs, budget.quantities, strict=True):
        assert float(element.find("si:value", SI).text) == quantity.value
        assert float(element.find(".//si:valueStandardMU", SI).text) == quantity.std
    assert [float(each.get("sensitivityCoefficient")) for each in root.findall("input")] == [-3.0, 2.0, 1.0]
    assert root.find("input").get("degreesOfFreedom") == "5.5"
    assert root.findall("input")[1].get("degreesOfFreedom") is None
    assert float(root.find("remainder").get("variance")) == budget.remainder


@pytest.fixture(scope="module")
def schema():
    """Of the whole document, written for these tests; `si_real.xsd` beside it has the elements of the D-SI."""
    xmlschema = pytest.importorskip("xmlschema")
    return xmlschema.XMLSchema(Path(__file__).parent / "schemas" / "uncertainty_budget.xsd")


def test_xml_is_valid_against_the_shipped_schema(budget, schema):
    for each in (budget, *OTHERS):
        schema.validate(budget_to_xml(each))


OTHERS = (
    UncertaintyBudget("y", 0.0, (InputQuantity("a", -math.pi, 1.0),)),
    UncertaintyBudget("y", -0.0, (InputQuantity("a", 1e-300, 1e-120, dof=1.01),), level=1 - 1e-12),
    UncertaintyBudget("µ", 1e120, (InputQuantity("a", 3.0, 1e100), InputQuantity("b", 1.0, 0.0)), remainder=1e190),
    UncertaintyBudget("y", 1.0, (InputQuantity("a", 0.0, 0.0),), level=0.6827),
)

DAMAGED = {
    "no unit": ("<si:unit>\\kilogram</si:unit>", ""),
    "an empty unit": ("<si:unit>\\kilogram</si:unit>", "<si:unit/>"),
    "no value": ("<si:value>1.5</si:value>", ""),
    "a value that is no number": ("<si:value>1.5<", "<si:value>1,5<"),
    "an infinite value": ("<si:value>1.5<", "<si:value>inf<"),
    "value before label": (
        "<si:label>fit</si:label>\n      <si:value>0.0</si:value>",
        "<si:value>0.0</si:value><si:label>fit</si:label>",
    ),
    "a negative uncertainty": ("MU>4e-09<", "MU>-4e-09<"),
    "a factor below 1": ("Factor>2.", "Factor>0."),
    "a factor with an exponent": ("Factor>2.", "Factor>2e0"),
    "a probability above 1": ("Probability>0.95", "Probability>1.95"),
    "the name of an older version": ("expandedMU>", "expandedUnc>"),
    "another namespace": (NAMESPACE, "https://example.org/si"),
    "no sensitivity coefficient": (' sensitivityCoefficient="-3.0"', ""),
    "no degrees of freedom left": ('degreesOfFreedom="5.5"', 'degreesOfFreedom="0.0"'),
    "two results": ("<input ", "<result ", "</input>", "</result>"),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_the_shipped_schema_refuses(budget, schema, damage):
    text = budget_to_xml(budget)
    for before, after in zip(damage[::2], damage[1::2], strict=True):
        assert before in text
        text = text.replace(before, after)
    ElementTree.fromstring(text)  # still XML: it is the schema that refuses it
    assert not schema.is_valid(text)


def test_a_factor_below_one_has_no_place_in_the_d_si(budget):
    small = UncertaintyBudget("y", 0.0, (InputQuantity("a", 0.0, 1.0),), level=0.5)
    with pytest.raises(ValueError, match=r"level must give a coverage factor of at least 1 for the D-SI, got 0\.5"):
        budget_to_xml(small)


@pytest.mark.skipif("EIV_DSI_XSD" not in os.environ, reason="EIV_DSI_XSD names no schema of the D-SI")
def test_xml_is_valid_against_the_schema_of_the_d_si(budget):
    xmlschema = pytest.importorskip("xmlschema")
    schema = xmlschema.XMLSchema(os.environ["EIV_DSI_XSD"])
    for each in (budget, *OTHERS):
        reals = ElementTree.fromstring(budget_to_xml(each)).findall(".//si:real", SI)
        assert len(reals) == 1 + len(each.quantities)
        for real in reals:
            schema.validate(ElementTree.tostring(real, encoding="unicode"))
    real.remove(real.find("si:unit", SI))
    assert not schema.is_valid(ElementTree.tostring(real, encoding="unicode"))


def test_units_that_are_not_known_are_left_open_but_for_the_d_si_which_asks_for_one():
    budget = UncertaintyBudget("mass", 1.5, (InputQuantity("a", 1.0, 0.1), InputQuantity("b", 1.0, 0.1, unit=r"\one")))
    content = json.loads(budget_to_json(budget))
    assert [content["result"]["unit"], *(each["unit"] for each in content["quantities"])] == [None, None, r"\one"]
    assert budget_from_json(budget_to_json(budget)) == budget
    root = ElementTree.fromstring(budget_to_xml(budget).encode())
    assert [each.text for each in root.iterfind(".//si:unit", SI)] == [r"\one"] * 3
