"""The uncertainty budget of one result after the GUM (JCGM 100:2008)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eiv.validation import check_level

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InputQuantity", "UncertaintyBudget"]


@dataclass(frozen=True)
class InputQuantity:
    r"""An input quantity of a measurement, with what it contributes to the uncertainty of the result.

    .. math:: u_i(y) = |c_i| \, u(x_i)

    Attributes:
        name: its name.
        value: the estimate x_i.
        std: u(x_i), its standard uncertainty, in the unit of the value.
        sensitivity: c_i, the sensitivity coefficient.
        dof: the degrees of freedom of u(x_i); infinite where it is taken as known.
        unit: the unit of the value, in the notation of the D-SI, such as `\degreecelsius`, and `\one` for a number
            without dimension; where it has none, the name of the unit. None where the unit is not known.

    Examples:
        >>> InputQuantity("length", 2.0, std=0.1, sensitivity=-3.0).contribution
        0.30000000000000004

    """

    name: str
    value: float
    std: float
    sensitivity: float = 1.0
    dof: float = math.inf
    unit: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no standard uncertainty, and what are no degrees of freedom."""
        if not (math.isfinite(self.value) and math.isfinite(self.sensitivity)):
            raise ValueError(f"{self.name}: value and sensitivity must be finite numbers.")
        if not (math.isfinite(self.std) and self.std >= 0):
            raise ValueError(f"{self.name}: std must be a number of at least 0, got {self.std!r}.")
        if not self.dof > 0:
            raise ValueError(f"{self.name}: dof must be above 0, got {self.dof!r}.")

    @property
    def contribution(self) -> float:
        """u_i(y), in the unit of the result."""
        return abs(self.sensitivity) * self.std


@dataclass(frozen=True)
class UncertaintyBudget:
    r"""A result with its combined standard uncertainty, and what it is made of.

    .. math:: u_c^2(y) = \sum_i u_i^2(y) + r, \qquad \nu_\mathrm{eff} = \frac{u_c^4(y)}{\sum_i u_i^4(y) / \nu_i}, \qquad
              U = t_{(1 + \mathrm{level}) / 2}(\nu_\mathrm{eff}) \, u_c(y)

    The effective degrees of freedom are those of Welch and Satterthwaite (GUM, G.4), not rounded. The formula is for
    input quantities that are independent of each other.

    Attributes:
        name: the name of the result.
        value: y.
        quantities: the input quantities.
        remainder: r, the variance that no single input quantity causes: curvature of f, and correlations, which can be
            negative.
        level: the coverage probability.
        unit: the unit of the result, in the same way.

    Examples:
        >>> budget = UncertaintyBudget("mass", 5.0, (InputQuantity("a", 1.0, 3.0, dof=4), InputQuantity("b", 2.0, 4.0)))
        >>> budget.std, round(budget.dof, 1), round(budget.coverage_factor, 2)
        (5.0, 30.9, 2.04)
        >>> [round(end, 1) for end in budget.interval]
        [-5.2, 15.2]
        >>> float(budget.to_frame().loc["a", "share"])
        0.36

    """

    name: str
    value: float
    quantities: tuple[InputQuantity, ...]
    remainder: float = 0.0
    level: float = 0.95
    unit: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is not finite, a level that is no probability, and a variance that is negative."""
        check_level("level", self.level)
        if not (math.isfinite(self.value) and math.isfinite(self.remainder)):
            raise ValueError(f"{self.name}: value and remainder must be finite numbers.")
        if self._variance < 0:
            raise ValueError(f"remainder must not outweigh the input quantities, got {self.remainder!r}.")

    @property
    def _variance(self) -> float:
        return sum(quantity.contribution**2 for quantity in self.quantities) + self.remainder

    @property
    def std(self) -> float:
        """u_c(y), the combined standard uncertainty."""
        return math.sqrt(self._variance)

    @property
    def dof(self) -> float:
        """The effective degrees of freedom."""
        if self.std == 0:
            return math.inf
        # Shares first: fourth powers of contributions in small or large units would leave the range of a float.
        weight = sum((quantity.contribution / self.std) ** 4 / quantity.dof for quantity in self.quantities)
        return 1 / weight if weight > 0 else math.inf

    @property
    def coverage_factor(self) -> float:
        """k, so that y plus or minus k u_c(y) holds the true value with probability `level`."""
        from scipy.stats import t as student_t  # noqa: PLC0415  (slow to import)

        return float(student_t.ppf((1 + self.level) / 2, self.dof))

    @property
    def expanded(self) -> float:
        """U, the expanded uncertainty."""
        return self.coverage_factor * self.std

    @property
    def interval(self) -> tuple[float, float]:
        """The coverage interval."""
        return self.value - self.expanded, self.value + self.expanded

    def with_units(self, **units: str) -> UncertaintyBudget:
        r"""The same with units in the notation of the D-SI, by the names of quantities and result.

        Examples:
            >>> UncertaintyBudget("mass", 5.0, (InputQuantity("a", 1.0, 3.0),)).with_units(mass=r"\kilogram").unit
            '\\kilogram'

        """
        names = {self.name, *(quantity.name for quantity in self.quantities)}
        unknown = [name for name in units if name not in names]
        if unknown:
            raise ValueError(f"units must be of {', '.join(sorted(names))}; got {', '.join(unknown)}.")
        quantities = tuple(replace(each, unit=units.get(each.name, each.unit)) for each in self.quantities)
        return replace(self, quantities=quantities, unit=units.get(self.name, self.unit))

    def to_frame(self) -> pd.DataFrame:
        """The budget as a table: one row per input quantity, the remainder where there is one, and the result last.

        `share` is that of the variance. In the row of the result, `sensitivity` is missing, and k and U are beside.
        """
        import pandas as pd  # noqa: PLC0415  (slow to import)

        rows = [
            {
                "quantity": each.name,
                "value": each.value,
                "std": each.std,
                "dof": each.dof,
                "sensitivity": each.sensitivity,
                "contribution": each.contribution,
                "share": each.contribution**2 / self._variance if self._variance else math.nan,
            }
            for each in self.quantities
        ]
        if self.remainder:
            rows.append({"quantity": "remainder", "share": self.remainder / self._variance})
        result = {
            "quantity": self.name,
            "value": self.value,
            "std": self.std,
            "dof": self.dof,
            "contribution": self.std,
        }
        low, high = self.interval
        more = {"share": 1.0, "k": self.coverage_factor, "U": self.expanded, "low": low, "high": high}
        return pd.DataFrame([*rows, result | more]).set_index("quantity")
