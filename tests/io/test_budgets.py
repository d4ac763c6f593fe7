"""Budgets in forms that others read. EIV_DSI_XSD names the schema of the D-SI, SI_Format.xsd, to check the XML with."""

import json
import math
import os
import re
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


def test_the_order_and_forms_of_the_d_si(budget):
    """What its schema asks of a real quantity: the order of the elements, and decimal forms of the numbers."""
    for real in ElementTree.fromstring(budget_to_xml(budget)).findall(".//si:real", SI):
        names = [child.tag.removeprefix(f"{{{NAMESPACE}}}") for child in real]
        assert names == ["label", "value", "unit", "measurementUncertaintyUnivariate"]
        assert re.fullmatch(r"[-+]?(\d*\.\d+|\d+\.?\d*)([eE][-+]?\d+)?", real.find("si:value", SI).text)
        factor = real.find(".//si:coverageFactor", SI)
        assert factor is None or re.fullmatch(r"[1-9]\d*\.\d*", factor.text)


def test_a_factor_below_one_has_no_place_in_the_d_si(budget):
    small = UncertaintyBudget("y", 0.0, (InputQuantity("a", 0.0, 1.0),), level=0.5)
    with pytest.raises(ValueError, match=r"level must give a coverage factor of at least 1 for the D-SI, got 0\.5"):
        budget_to_xml(small)


@pytest.mark.skipif("EIV_DSI_XSD" not in os.environ, reason="EIV_DSI_XSD names no schema of the D-SI")
def test_xml_is_valid_against_the_schema_of_the_d_si(budget):
    xmlschema = pytest.importorskip("xmlschema")
    schema = xmlschema.XMLSchema(os.environ["EIV_DSI_XSD"])
    normal = UncertaintyBudget("y", 0.0, (InputQuantity("a", -math.pi, 1.0),))
    for each in (budget, normal):
        reals = ElementTree.fromstring(budget_to_xml(each)).findall(".//si:real", SI)
        assert len(reals) == 1 + len(each.quantities)
        for real in reals:
            schema.validate(ElementTree.tostring(real, encoding="unicode"))
    real.remove(real.find("si:unit", SI))
    assert not schema.is_valid(ElementTree.tostring(real, encoding="unicode"))
