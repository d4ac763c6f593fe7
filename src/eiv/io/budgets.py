"""Uncertainty budgets in forms that others read: JSON, LaTeX, and XML with quantities of the D-SI."""

from __future__ import annotations

import json
import math
from typing import Any
from xml.etree import ElementTree

from eiv.prediction.gum import InputQuantity, UncertaintyBudget

__all__ = ["budget_from_json", "budget_to_json", "budget_to_latex", "budget_to_xml"]

NAMESPACE = "https://ptb.de/si"
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}


def budget_to_json(budget: UncertaintyBudget) -> str:
    """A budget as JSON: the numbers that it is made of, and those that follow from them.

    Infinite degrees of freedom are null, and so are units that are not known.

    Args:
        budget: the budget.

    Returns:
        A text; `budget_from_json` reads it.

    Examples:
        >>> budget = UncertaintyBudget("mass", 5.0, (InputQuantity("a", 1.0, 3.0, dof=4), InputQuantity("b", 2.0, 4.0)))
        >>> budget_from_json(budget_to_json(budget)) == budget
        True

    """
    low, high = budget.interval
    content = {
        "result": {
            "name": budget.name,
            "value": budget.value,
            "unit": budget.unit,
            "standard_uncertainty": budget.std,
            "degrees_of_freedom": _finite(budget.dof),
            "coverage_probability": budget.level,
            "coverage_factor": budget.coverage_factor,
            "expanded_uncertainty": budget.expanded,
            "interval": [low, high],
        },
        "remainder_variance": budget.remainder,
        "quantities": [
            {
                "name": each.name,
                "value": each.value,
                "unit": each.unit,
                "standard_uncertainty": each.std,
                "degrees_of_freedom": _finite(each.dof),
                "sensitivity_coefficient": each.sensitivity,
                "contribution": each.contribution,
            }
            for each in budget.quantities
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def budget_from_json(text: str) -> UncertaintyBudget:
    """The budget of a text that `budget_to_json` has written; what follows from other numbers is not read.

    Args:
        text: the JSON.

    Returns:
        The budget.

    Raises:
        ValueError: where the text is not such a budget.

    Examples:
        >>> budget_from_json("{}")
        Traceback (most recent call last):
        ...
        ValueError: text must be JSON that budget_to_json has written: 'result' is missing.

    """
    try:
        content = json.loads(text)
        result = content["result"]
        quantities = tuple(
            InputQuantity(
                name=each["name"],
                value=each["value"],
                std=each["standard_uncertainty"],
                sensitivity=each["sensitivity_coefficient"],
                dof=_infinite(each["degrees_of_freedom"]),
                unit=each["unit"],
            )
            for each in content["quantities"]
        )
        return UncertaintyBudget(
            name=result["name"],
            value=result["value"],
            quantities=quantities,
            remainder=content["remainder_variance"],
            level=result["coverage_probability"],
            unit=result["unit"],
        )
    except KeyError as error:
        raise ValueError(f"text must be JSON that budget_to_json has written: {error} is missing.") from error
    except TypeError as error:
        raise ValueError(f"text must be JSON that budget_to_json has written: {error}.") from error


def budget_to_latex(budget: UncertaintyBudget) -> str:
    r"""A budget as a LaTeX table, without packages.

    Args:
        budget: the budget.

    Returns:
        An environment `tabular`.

    Examples:
        >>> budget = UncertaintyBudget("mass_a", 5.0, (InputQuantity("a", 1.0, 3.0, dof=4),))
        >>> print(budget_to_latex(budget).splitlines()[3])
        a & 1 & 3 & 4 & 1 & 3 \\

    """
    lines = [
        r"\begin{tabular}{lrrrrr}",
        r"quantity & value & $u(x_i)$ & $\nu_i$ & $c_i$ & $|c_i|\,u(x_i)$ \\",
        r"\hline",
    ]
    for each in budget.quantities:
        numbers = (each.value, each.std, each.dof, each.sensitivity, each.contribution)
        lines.append(" & ".join([_escaped(each.name), *map(_number, numbers)]) + r" \\")
    if budget.remainder:
        size = math.copysign(math.sqrt(abs(budget.remainder)), budget.remainder)
        lines.append(rf"remainder & & & & & {_number(size)} \\")
    combined = (budget.value, budget.std, budget.dof)
    lines += [
        r"\hline",
        " & ".join([_escaped(budget.name), *map(_number, combined)]) + rf" & & {_number(budget.std)} \\",
        rf"\multicolumn{{6}}{{l}}{{$k = {_number(budget.coverage_factor)}$ for {100 * budget.level:g}\,\%: "
        rf"$U = {_number(budget.expanded)}$, from {_number(budget.interval[0])} to {_number(budget.interval[1])}}} \\",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def budget_to_xml(budget: UncertaintyBudget) -> str:
    r"""A budget as XML, whose quantities are elements `si:real` of the D-SI: the result with its expanded uncertainty.

    The D-SI has no place for sensitivity coefficients and degrees of freedom; they are attributes of the elements
    around. Units must be in its notation; `UncertaintyBudget.with_units` sets others. An element of the D-SI cannot be
    without a unit: where it is not known, `\one` stands for the unit of the table.

    Args:
        budget: the budget; its coverage factor must be 1 at least, as the D-SI asks for.

    Returns:
        The text of a document, in UTF-8.

    Raises:
        ValueError: where the coverage factor is below 1, or a unit is not in the notation of the D-SI.

    Examples:
        >>> budget = UncertaintyBudget("mass", 5.0, (InputQuantity("a", 1.0, 3.0, dof=4),))
        >>> "<si:valueStandardMU>3.0</si:valueStandardMU>" in budget_to_xml(budget)
        True

    """
    if budget.coverage_factor < 1:
        raise ValueError(
            f"level must give a coverage factor of at least 1 for the D-SI, got {budget.level:g} with k = "
            f"{budget.coverage_factor:.3f}."
        )
    for name, unit in [(budget.name, budget.unit), *((each.name, each.unit) for each in budget.quantities)]:
        if unit is not None and not unit.startswith("\\"):
            raise ValueError(
                f"{name}: its unit {unit!r} has no form in the D-SI; give another with with_units, or write "
                "the budget in another form."
            )
    ElementTree.register_namespace("si", NAMESPACE)
    root = ElementTree.Element("uncertaintyBudget")
    result = ElementTree.SubElement(root, "result", _dof(budget.dof))
    real = _real(result, budget.name, budget.value, budget.unit)
    expanded = ElementTree.SubElement(real, _si("expandedMU"))
    shape = "normal" if math.isinf(budget.dof) else "Student t"
    for name, text in (
        ("valueExpandedMU", repr(budget.expanded)),
        ("coverageFactor", f"{budget.coverage_factor:.6f}"),
        ("coverageProbability", f"{budget.level:.10f}".rstrip("0")),
        ("distribution", shape),
    ):
        ElementTree.SubElement(expanded, _si(name)).text = text
    for each in budget.quantities:
        attributes = _dof(each.dof) | {
            "sensitivityCoefficient": repr(each.sensitivity),
            "contribution": repr(each.contribution),
        }
        outer = ElementTree.SubElement(root, "input", attributes)
        standard = ElementTree.SubElement(_real(outer, each.name, each.value, each.unit), _si("standardMU"))
        ElementTree.SubElement(standard, _si("valueStandardMU")).text = repr(each.std)
    if budget.remainder:
        ElementTree.SubElement(root, "remainder", {"variance": repr(budget.remainder)})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _real(parent: ElementTree.Element, label: str, value: float, unit: str | None) -> ElementTree.Element:
    """Add a real quantity, and return the element for its uncertainty."""
    real = ElementTree.SubElement(parent, _si("real"))
    for name, text in (("label", label), ("value", repr(value)), ("unit", unit or r"\one")):
        ElementTree.SubElement(real, _si(name)).text = text
    return ElementTree.SubElement(real, _si("measurementUncertaintyUnivariate"))


def _si(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def _dof(dof: float) -> dict[str, str]:
    return {} if math.isinf(dof) else {"degreesOfFreedom": repr(dof)}


def _finite(dof: float) -> float | None:
    return None if math.isinf(dof) else dof


def _infinite(dof: Any) -> float:
    return math.inf if dof is None else float(dof)


def _number(value: float) -> str:
    if math.isinf(value):
        return r"$\infty$"
    text = f"{value:.4g}"
    if "e" in text:
        digits, exponent = text.split("e")
        return rf"${digits} \cdot 10^{{{int(exponent)}}}$"
    return text.replace("-", "$-$", 1) if text.startswith("-") else text


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(sign, sign) for sign in text)
