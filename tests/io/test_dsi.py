"""Units in the notation of the D-SI."""

import pytest

from eiv.io.dsi import dsi_unit


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m", r"\metre"),
        ("kg", r"\kilogram"),
        ("mg", r"\milli\gram"),
        ("hPa", r"\hecto\pascal"),
        ("dam", r"\deca\metre"),
        ("cd", r"\candela"),
        ("min", r"\minute"),
        ("deg_C", r"\degreecelsius"),
        ("°C", r"\degreecelsius"),
        ("µg", r"\micro\gram"),
        ("kΩ", r"\kilo\ohm"),
        ("%", r"\percent"),
        ("", r"\one"),
        ("m / s2", r"\metre\second\tothe{-2}"),
        ("m / s ** 2", r"\metre\second\tothe{-2}"),
        ("m s-1", r"\metre\second\tothe{-1}"),
        ("m²", r"\metre\tothe{2}"),
        ("m⁻²", r"\metre\tothe{-2}"),
        ("kg·m²·s⁻³", r"\kilogram\metre\tothe{2}\second\tothe{-3}"),
        ("W/(m²⋅K)", r"\watt\metre\tothe{-2}\kelvin\tothe{-1}"),
        ("kg / m / s ** 2", r"\kilogram\metre\tothe{-1}\second\tothe{-2}"),
        ("kg / (m s2)", r"\kilogram\metre\tothe{-1}\second\tothe{-2}"),
        ("kg * m ** 2 / s", r"\kilogram\metre\tothe{2}\second\tothe{-1}"),
        ("1 / s", r"\second\tothe{-1}"),
        ("J / (kg / m) K", r"\joule\kilogram\tothe{-1}\metre\kelvin"),
    ],
)
def test_units_of_libraries_have_their_form(name, expected):
    assert dsi_unit(name) == expected


@pytest.mark.parametrize(
    "name",
    ["mag", "ct", "ft", "yd", "Jy", "Δ°C", "0.001 m", "1e-17 erg / s", "m ** 0.5", "m(1/2)", "m)", "(m", "10 m", "kt"],
)
def test_what_has_none_is_not_made_up(name):
    assert dsi_unit(name) is None


def test_units_as_astropy_and_pint_write_them():
    units = pytest.importorskip("astropy.units")
    for text in ("kg m2 / (s3 A)", "W / (m2 K)", "mol / l", "uS / cm", "1 / h"):
        assert dsi_unit(units.Unit(text).to_string()) is not None
    registry = pytest.importorskip("pint").UnitRegistry()
    for text in ("newton/coulomb", "watt/meter**2/kelvin", "micrometer", "degC", "1/second", "percent"):
        assert dsi_unit(f"{registry.Unit(text):~}") is not None
