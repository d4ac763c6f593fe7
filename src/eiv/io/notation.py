"""The notation of data sheets for the error of a column: texts such as ±0.7, read and said back in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["FORMS", "Stated", "is_notation", "read_error", "two_columns"]

FORMS = (
    "0.5 (a standard deviation), 0.4 k=2, 5% (of the reading), 5%sd (of the column's spread), ±0.7 (limits), "
    "±(0.3 + 2%), 0.3 + 2% (of the true value) and +0.5 -0.2; each with dof=8 after it where it is itself an estimate"
)
"""What `read_error` takes."""
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FIXED = rf"(?P<number>{_NUMBER})"
_SUM = rf"(?:{_FIXED}\s*\+\s*(?P<share>{_NUMBER})\s*%|(?P<share2>{_NUMBER})\s*%\s*\+\s*(?P<number2>{_NUMBER}))"
_PATTERNS = {
    "expanded": rf"±?\s*{_FIXED}\s*[,;]?\s*\(?\s*k\s*=\s*(?P<k>[-+]?{_NUMBER})\s*\)?",
    "limits": rf"±\s*{_FIXED}",
    "limits of the reading": rf"±\s*(?P<share>{_NUMBER})\s*%",
    "limits of both": rf"±\s*\(\s*{_SUM}\s*\)",
    "growing": _SUM,
    "sides": rf"(?P<first>[-+]\s*{_NUMBER})\s*[,/]?\s*(?P<second>[-+]\s*{_NUMBER})",
    "spread": r"(?P<share>[^%±]*)%\s*sd",
    "reading": r"(?P<share>[^%±]*)%",
}
_DOF = re.compile(rf"(?<=[^\s,;])[\s,;]+\(?\s*dof\s*=\s*(?P<dof>[-+]?(?:{_NUMBER}|\w+))\s*\)?(?=[\s,;]|$)")
_LEAST_DOF = 1.0
_COMPILED = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}


@dataclass(frozen=True)
class Stated:
    r"""The error of a column as a data sheet states it.

    .. math::
        \sigma = a \;\text{(absolute)}, \quad \sigma_i = s |x_i| \;\text{(reading)}, \quad
        \sigma = s\, \mathrm{sd}(x) \;\text{(spread)}, \quad |x_i - \zeta_i| \le a + s |x_i| \;\text{(limits)}, \quad
        \sigma_i = a + s |\zeta_i| \;\text{(growing)}, \quad \zeta_i = x_i{}^{+p}_{-a} \;\text{(sides)}

    Attributes:
        kind: "absolute", "reading", "spread", "limits", "growing" or "sides".
        number: a, in the unit of the column.
        share: s.
        plus: p.
        k: the coverage factor that a was divided by.
        dof: the degrees of freedom behind the error, where it is itself an estimate; infinity where its size is known.

    Examples:
        >>> read_error("±0.7")
        Stated(kind='limits', number=0.7, share=0.0, plus=0.0, k=1.0, dof=inf)
        >>> str(read_error("0.4 k=2")), str(read_error("0.3 + 2%"))
        ('0.2 (0.4 at k = 2)', '0.3 plus 2 % of the true value')

    """

    kind: str
    number: float = 0.0
    share: float = 0.0
    plus: float = 0.0
    k: float = 1.0
    dof: float = math.inf

    def __str__(self) -> str:
        return with_dof_in_words(self._size_in_words(), self.dof)

    def _size_in_words(self) -> str:
        percent = f"{100 * self.share:g} %"
        if self.kind == "absolute":
            expanded = "" if self.k == 1 else f" ({self.number * self.k:g} at k = {self.k:g})"
            return f"{self.number:g}{expanded}" if self.number else "exact"
        if self.kind == "reading":
            return f"{percent} of the reading"
        if self.kind == "spread":
            return f"{percent} of the column's spread"
        if self.kind == "growing":
            return f"{self.number:g} plus {percent} of the true value"
        if self.kind == "sides":
            return f"true value up to {self.plus:g} above or {self.number:g} below the reading"
        limits = f"{self.number:g}"
        if self.share:
            limits = f"({limits} plus {percent} of the reading)" if self.number else f"{percent} of the reading"
        return f"limits ±{limits}, all between equally likely"


def read_error(text: str) -> Stated | None:
    """Read the text of an error; None for one that is not in this notation, such as a word.

    Args:
        text: one of `FORMS`.

    Returns:
        What it states.

    Raises:
        ValueError: where the notation is that of an error, but its numbers cannot be one.

    Examples:
        >>> read_error("+0.5 -0.2")
        Stated(kind='sides', number=0.2, share=0.0, plus=0.5, k=1.0, dof=inf)
        >>> read_error("length_error") is None
        True

    """
    alone, dof = without_dof(text)
    if alone != text:
        stated = read_error(alone)
        return None if stated is None else replace(stated, dof=dof)
    typed = text.replace("−", "-")  # the minus sign of typeset tables
    plain = _number(typed)
    if plain is not None:
        return Stated("absolute", _checked(plain, text))
    tidy = re.sub(r"\+\s*/?\s*-", "±", typed.strip())
    for kind, pattern in _COMPILED.items():
        if found := pattern.fullmatch(tidy):
            stated = _stated(kind, found.groupdict(), text)
            if stated is not None:
                return stated
    if "±" in tidy or _is_close(tidy):
        raise ValueError(f"{text!r} is not an error; these are: {FORMS}")
    return None


def is_notation(text: str) -> bool:
    """Whether a text states an error, rightly or not, rather than being a name.

    Examples:
        >>> is_notation("0.4 k=2"), is_notation("length_error")
        (True, False)

    """
    try:
        return read_error(text) is not None
    except ValueError:
        return True


def without_dof(text: str) -> tuple[str, float]:
    """The text of an error without the degrees of freedom behind it, and these; infinity where it names none.

    Examples:
        >>> without_dof("0.3 dof=8"), without_dof("±0.7")
        (('0.3', 8.0), ('±0.7', inf))

    """
    found = _DOF.search(text)
    if found is None:
        return text, math.inf
    dof, rest = _number(found["dof"]), text[: found.start()] + text[found.end() :]
    if dof is None or not dof >= _LEAST_DOF or _DOF.search(rest):
        raise ValueError(f"dof must be a number of at least {_LEAST_DOF:g}, got {text!r}")
    return rest, dof


def with_dof_in_words(words: str, dof: float) -> str:
    """An error in words, and that its size is learned where it is itself an estimate."""
    if dof == math.inf:
        return words
    return f"{words}, itself an estimate with {dof:g} degrees of freedom: its size is learned"


def two_columns(text: str, columns: Sequence[str]) -> tuple[str, str] | None:
    """The two columns that `minus,plus` names; names may contain commas. None where a text names no pair.

    Examples:
        >>> two_columns("down,up", ["length", "down", "up"])
        ('down', 'up')

    """
    if text in columns:
        return None
    for place in (i for i, sign in enumerate(text) if sign == ","):
        pair = text[:place].strip(), text[place + 1 :].strip()
        if pair[0] in columns and pair[1] in columns:
            return pair
    return None


def _stated(kind: str, found: dict[str, str | None], text: str) -> Stated | None:
    number, share = (found.get(name) or found.get(f"{name}2") for name in ("number", "share"))
    a, s = float(number or 0), _number(share or "0")
    if s is None:
        return None
    s = _checked(s, text) / 100
    if kind == "expanded":
        k = float(found["k"] or 0)
        if not 0 < k < math.inf:
            raise ValueError(f"k must be above zero, got {text!r}")
        return Stated("absolute", _checked(a, text) / k, k=k)
    if kind == "sides":
        return _sides(found, text)
    if kind == "growing":
        return Stated("growing", _checked(a, text), s)
    if kind.startswith("limits"):
        return Stated("limits", _checked(a, text), s)
    return Stated(kind, share=s)


def _sides(found: dict[str, str | None], text: str) -> Stated:
    values = [float((found[name] or "").replace(" ", "")) for name in ("first", "second")]
    signs = sorted(math.copysign(1, value) for value in values)
    if signs != [-1, 1]:
        raise ValueError(f"of two sides one has the sign + and the other -, as in +0.5 -0.2, got {text!r}")
    return Stated("sides", _checked(-min(values, key=_signed), text), plus=_checked(max(values, key=_signed), text))


def _signed(value: float) -> tuple[float, float]:
    return math.copysign(1, value), value


def _checked(number: float, text: str) -> float:
    if not 0 <= number < math.inf:
        raise ValueError(f"an error must not be negative or infinite, got {text!r}")
    return number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _is_close(text: str) -> bool:
    """Whether a text consists of the signs of this notation alone."""
    return bool(re.fullmatch(r"[-+\d.eE%()=k\s,/]*", text)) and any(sign.isdigit() for sign in text)
