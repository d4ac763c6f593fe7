r"""Units in the notation of the D-SI (Digital System of Units), such as `\metre\second\tothe{-2}`."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["dsi_unit"]

_PREFIXES = {
    "Q": "quetta", "R": "ronna", "Y": "yotta", "Z": "zetta", "E": "exa", "P": "peta", "T": "tera", "G": "giga",
    "M": "mega", "k": "kilo", "h": "hecto", "da": "deca", "d": "deci", "c": "centi", "m": "milli", "u": "micro",
    "\u03bc": "micro", "n": "nano", "p": "pico", "f": "femto", "a": "atto", "z": "zepto", "y": "yocto", "r": "ronto",
    "q": "quecto",
}  # fmt: skip
_UNITS = {
    "m": "metre", "g": "gram", "s": "second", "A": "ampere", "K": "kelvin", "mol": "mole", "cd": "candela",
    "rad": "radian", "sr": "steradian", "Hz": "hertz", "N": "newton", "Pa": "pascal", "J": "joule", "W": "watt",
    "C": "coulomb", "V": "volt", "F": "farad", "\u03a9": "ohm", "Ohm": "ohm", "ohm": "ohm", "S": "siemens",
    "Wb": "weber", "T": "tesla", "H": "henry", "lm": "lumen", "lx": "lux", "Bq": "becquerel", "Gy": "gray",
    "Sv": "sievert", "kat": "katal", "eV": "electronvolt", "l": "litre", "L": "litre", "bar": "bar",
}  # fmt: skip
# ct is a count and ft a foot, no hundredth of a tonne and no very small one: these units take no prefix.
_WITHOUT_PREFIX = {
    "kg": "kilogram", "t": "tonne", "°C": "degreecelsius", "deg_C": "degreecelsius", "degC": "degreecelsius",
    "min": "minute", "h": "hour", "d": "day", "deg": "degree", "°": "degree", "arcmin": "arcminute",
    "arcsec": "arcsecond", "ha": "hectare", "Da": "dalton", "AU": "astronomicalunit", "au": "astronomicalunit",
    "Np": "neper", "dB": "decibel", "\u00c5": "angstrom", "Angstrom": "angstrom", "%": "percent", "percent": "percent",
}  # fmt: skip
_SIGNS = str.maketrans({"\u2212": "-", "\u22c5": "·"})  # the minus of superscripts, and the dot of formulas
_TOKEN = re.compile(
    r"(?P<sign>[/*·()]|1(?![\d.]))|(?P<unit>(?:[^\W\d]|[°%])+)(?:\s*(?:\*\*|\^)\s*(?P<power>-?\d+)|(?P<short>-?\d+))?"
)


def dsi_unit(name: str) -> str | None:
    r"""A unit in the notation of the D-SI.

    Args:
        name: as astropy, pint or a table write it, for instance "km / s2", "m s-1", "kg * m ** 2" or "m·s⁻²".

    Returns:
        The same in that notation; None where it has none, as for magnitudes.

    Examples:
        >>> print(dsi_unit("km"), dsi_unit("ug / (m3 s)"), dsi_unit(""))
        \kilo\metre \micro\gram\metre\tothe{-3}\second\tothe{-1} \one
        >>> dsi_unit("mag") is None
        True

    """
    text, found = unicodedata.normalize("NFKC", name).translate(_SIGNS).strip(), ""
    groups, way = [1], 1  # the sign of exponents in the brackets around, and of the next unit in these
    while text:
        token = _TOKEN.match(text)
        if token is None:
            return None
        sign, unit = token["sign"], token["unit"]
        if unit is not None:
            symbol = _symbol(unit)
            if symbol is None:
                return None
            power = groups[-1] * way * int(token["power"] or token["short"] or 1)
            found += symbol if power == 1 else rf"{symbol}\tothe{{{power}}}"
        elif sign == "(":
            groups.append(groups[-1] * way)
        elif sign == ")" and len(groups) > 1:
            groups.pop()
        elif sign == ")":
            return None
        way = -1 if sign == "/" else 1
        text = text[token.end() :].lstrip()
    return None if len(groups) > 1 else found or r"\one"


def _symbol(text: str) -> str | None:
    r"""One unit with its prefix, such as `\kilo\metre` for km; None where it is not known."""
    whole = _WITHOUT_PREFIX.get(text) or _UNITS.get(text)
    if whole is not None:
        return f"\\{whole}"
    for prefix, word in _PREFIXES.items():
        if text.startswith(prefix) and text[len(prefix) :] in _UNITS:
            return rf"\{word}\{_UNITS[text[len(prefix) :]]}"
    return None
