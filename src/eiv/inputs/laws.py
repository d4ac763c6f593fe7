"""Laws of the errors of a column: how the true value may lie about the reading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eiv.inputs.parts import Parts, nearest_parts, skewed

__all__ = [
    "Censored",
    "ErrorLaw",
    "Growing",
    "MixtureLaw",
    "NormalLaw",
    "Rectangular",
    "SplitNormal",
    "StudentT",
    "Triangular",
    "censored",
    "growing",
    "rectangular",
    "split_normal",
    "student_t",
    "triangular",
]

Array = NDArray[np.float64]
_MOST_SHARE = 0.1  # of the true value; beyond it a reading hardly bounds the true value from above (docs/errors.md)
_FEWEST_DOF = 2.0  # from which on a t distribution has a standard deviation
_NODES = np.linspace(-8, 14, 441)  # of the rule for the moments of errors that grow, in stated errors


class ErrorLaw(ABC):
    r"""The law of the errors of one column, a mixture of a few normal distributions.

    .. math:: p(x | \zeta) \propto \sum_j w_j\, \mathcal{N}(\zeta | x + s_j, v_j^2)

    so that the posterior of zeta stays a mixture of normal distributions. Made by `eiv.rectangular`, `eiv.triangular`,
    `eiv.student_t`, `eiv.split_normal`, `eiv.growing`, `eiv.censored`, `eiv.law_from_pairs` and
    `eiv.law_from_repeats`. `x_err` and `X_err` take a law for all columns, or one per column beside plain numbers.
    Numbers of a law may be arrays with one value per row where the law is given to `X_err`.

    Examples:
        >>> from eiv import EiVRegressor, rectangular
        >>> model = EiVRegressor(x_err={"length": rectangular(0.5), "temperature": 0.2})

    """

    has_berkson: ClassVar[bool] = True  # whether it has a meaning where x was set, and the true value scatters about it

    @property
    def is_shared(self) -> bool:
        """Whether its numbers hold for all rows, so that it can be that of rows to come."""
        return all(np.ndim(getattr(self, field.name)) == 0 for field in fields(self))  # type: ignore[arg-type]

    def readings(self, x: Array) -> Array:
        """Readings `x`, `rows`, as the law takes them: as they are."""
        return x

    @abstractmethod
    def parts(self, x: Array, where: str) -> Parts:
        """The parts for readings `x`, `rows`, in one row where all share them; messages begin with `where`."""

    def _numbers(self, where: str, n_rows: int, **given: Any) -> list[Array]:
        """Numbers of the law as arrays of one value or one per row, checked to be finite and not negative."""
        found = []
        for name, value in given.items():
            try:
                numbers = np.atleast_1d(np.asarray(value, dtype=float))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{where}: {name} must be a number or one per row, got {value!r}.") from error
            if numbers.ndim > 1 or len(numbers) not in (1, n_rows):
                raise ValueError(
                    f"{where}: {name} must be a number or one per row ({n_rows}), got shape {numbers.shape}."
                )
            bad = ~(np.isfinite(numbers) & (numbers >= 0))
            if bad.any():
                raise ValueError(f"{where}: {name} must be finite and not negative, got {numbers[bad][0]:g}.")
            found.append(numbers)
        return found


@dataclass(frozen=True, eq=False)
class NormalLaw(ErrorLaw):
    """A normal error, which a plain number stands for.

    Attributes:
        std: a number, or one per row.
        share: a share of each reading, which comes to it.
        k: the coverage factor that a stated error was divided by.

    Examples:
        >>> NormalLaw(0.1, share=0.05).parts(np.array([2.0, -4.0]), "x_err").std
        array([0.2, 0.3])

    """

    std: ArrayLike
    share: float = 0.0
    k: float = 1.0

    def parts(self, x: Array, where: str) -> Parts:
        """One normal distribution about the reading."""
        std, share, _ = self._numbers(where, len(x), error=self.std, share=self.share, k=self.k)
        return Parts.normal(std + share * np.abs(x) if share.any() else std)

    def __str__(self) -> str:
        expanded = "" if self.k == 1 else f" ({_shown(np.asarray(self.std) * self.k)} at k = {self.k:g})"
        return _with_share(f"{_shown(self.std)}{expanded}", self.std, self.share)


@dataclass(frozen=True, eq=False)
class Rectangular(ErrorLaw):
    """All true values within `half_width` of the reading are equally likely; made by `eiv.rectangular`.

    Attributes:
        half_width: a number, or one per row.
        share: a share of each reading, which comes to it.

    Examples:
        >>> Rectangular(0.7).parts(np.zeros(3), "x_err").std.round(3)  # 0.7 / sqrt(3)
        array([0.404])

    """

    half_width: ArrayLike
    share: float = 0.0

    def parts(self, x: Array, where: str) -> Parts:
        """Five normal distributions."""
        half_width, share = self._numbers(where, len(x), half_width=self.half_width, share=self.share)
        return nearest_parts("rectangular").times(half_width + share * np.abs(x) if share.any() else half_width)

    def __str__(self) -> str:
        size = _with_share(_shown(self.half_width), self.half_width, self.share)
        size = f"({size})" if self.share and np.any(self.half_width) else size
        return f"limits ±{size}, all between equally likely"


@dataclass(frozen=True, eq=False)
class Triangular(ErrorLaw):
    """True values within `half_width` of the reading, the more likely the nearer; made by `eiv.triangular`.

    Attributes:
        half_width: a number, or one per row.

    Examples:
        >>> Triangular(0.7).parts(np.zeros(3), "x_err").std.round(3)  # 0.7 / sqrt(6)
        array([0.286])

    """

    half_width: ArrayLike

    def parts(self, x: Array, where: str) -> Parts:
        """Three normal distributions."""
        (half_width,) = self._numbers(where, len(x), half_width=self.half_width)
        return nearest_parts("triangular").times(half_width)

    def __str__(self) -> str:
        return f"limits ±{_shown(self.half_width)}, the nearer to the reading the likelier"


@dataclass(frozen=True, eq=False)
class StudentT(ErrorLaw):
    """Errors with heavy tails; made by `eiv.student_t`.

    Attributes:
        scale: a number, or one per row.
        dof: degrees of freedom, above 2.

    Examples:
        >>> StudentT(0.5, dof=4).parts(np.zeros(3), "x_err").std.round(3)  # 0.5 sqrt(4 / 2)
        array([0.707])

    """

    scale: ArrayLike
    dof: float

    def parts(self, x: Array, where: str) -> Parts:
        """Three normal distributions about the reading."""
        scale, dof = self._numbers(where, len(x), scale=self.scale, dof=self.dof)
        if len(dof) > 1 or not dof[0] > _FEWEST_DOF:
            raise ValueError(f"{where}: dof must be one number above {_FEWEST_DOF:g}, got {self.dof!r}.")
        return nearest_parts("student_t", float(dof[0])).times(scale)

    def __str__(self) -> str:
        return f"t distribution, scale {_shown(self.scale)}, {float(self.dof):g} degrees of freedom"


@dataclass(frozen=True, eq=False)
class SplitNormal(ErrorLaw):
    """Different errors below and above the reading; made by `eiv.split_normal`.

    Attributes:
        minus: how far the true value lies below the reading, a standard deviation: a number, or one per row.
        plus: the same above.

    Examples:
        >>> SplitNormal(minus=0.2, plus=0.5).parts(np.zeros(3), "x_err").mean.round(3)  # 0.3 sqrt(2 / pi)
        array([0.239])

    """

    minus: ArrayLike
    plus: ArrayLike

    def parts(self, x: Array, where: str) -> Parts:
        r"""Three normal distributions with the mean and the variance of the law.

        .. math:: \sqrt{2 / \pi}\, (\sigma_+ - \sigma_-), \qquad
                  (1 - 2 / \pi) (\sigma_+ - \sigma_-)^2 + \sigma_+ \sigma_-
        """
        minus, plus = np.broadcast_arrays(*self._numbers(where, len(x), minus=self.minus, plus=self.plus))
        gap, both = plus - minus, plus + minus
        std = np.sqrt((1 - 2 / np.pi) * gap**2 + plus * minus)
        return skewed(np.sqrt(2 / np.pi) * gap, std, gap / np.where(both > 0, both, 1.0))

    def __str__(self) -> str:
        plus, minus = _shown(self.plus), _shown(self.minus)
        return f"true value up to {plus} above or {minus} below the reading"


@dataclass(frozen=True, eq=False)
class Growing(ErrorLaw):
    """Errors that grow with the true value; made by `eiv.growing`.

    Attributes:
        constant: the error of a true value of zero, a number, or one per row.
        share: what comes to it as a share of the true value, 0 to 0.1.

    Examples:
        >>> Growing(0.3, 0.02).parts(np.array([0.0, 10.0]), "x_err").std.round(3)
        array([0.313, 0.501])

    """

    constant: ArrayLike
    share: float
    has_berkson: ClassVar[bool] = False

    def parts(self, x: Array, where: str) -> Parts:
        r"""Three normal distributions with the mean and the standard deviation of the likelihood of zeta.

        .. math:: p(x | \zeta) = \mathcal{N}\big(x \,|\, \zeta, \sigma^2(\zeta)\big), \qquad
                  \sigma(\zeta) = c + s |\zeta|

        As a function of zeta this is skewed, because larger values have larger errors. Its moments are sums over nodes
        in units of the error at the reading. Its shape is that of the split normal law with the same skewness.
        """
        constant, share = self._numbers(where, len(x), constant=self.constant, share=self.share)
        if len(share) > 1 or share[0] > _MOST_SHARE:
            raise ValueError(
                f"{where}: share must be one number of at most {_MOST_SHARE:g}, got {self.share!r}. A reading says "
                f"little of the greatest true value where errors grow faster; give them by the reading, as 20% does."
            )
        size = constant + share * np.abs(x)
        zeta = x[:, None] + size[:, None] * _NODES
        sigma = constant[:, None] + share * np.abs(zeta)
        sigma = np.where(sigma > 0, sigma, 1.0)  # a constant of zero, at a true value of zero
        density = np.exp(-0.5 * ((x[:, None] - zeta) / sigma) ** 2) * size[:, None] / sigma
        total = density.sum(1)
        weights = density / np.where(total > 0, total, 1.0)[:, None]  # rows without any error
        mean = weights @ _NODES
        gaps = _NODES - mean[:, None]
        std = np.sqrt((weights * gaps**2).sum(1))
        skewness = (weights * gaps**3).sum(1) / np.where(std > 0, std, 1.0) ** 3
        return skewed(size * mean, size * std, _asymmetry(skewness))

    def __str__(self) -> str:
        return f"{_shown(self.constant)} plus {100 * float(self.share):g} % of the true value"


@dataclass(frozen=True, eq=False)
class MixtureLaw(ErrorLaw):
    """A law as a mixture of normal distributions; made by `eiv.law_from_pairs` and `eiv.law_from_repeats`.

    Attributes:
        weights: `J`, above zero; they need not add up to one.
        shifts: `J`, how far the true value lies above the reading.
        stds: `J`, above zero.

    Examples:
        >>> MixtureLaw([0.9, 0.1], [0.0, 0.0], [0.1, 1.0]).parts(np.zeros(3), "x_err").std.round(3)
        array([0.33])

    """

    weights: ArrayLike
    shifts: ArrayLike
    stds: ArrayLike

    @property
    def is_shared(self) -> bool:
        """Its parts hold for all rows."""
        return True

    def parts(self, x: Array, where: str) -> Parts:
        """Those that it has."""
        weights, shifts, stds = (np.asarray(part, dtype=float) for part in (self.weights, self.shifts, self.stds))
        if weights.ndim != 1 or not len(weights) or not weights.shape == shifts.shape == stds.shape:
            raise ValueError(
                f"{where}: weights, shifts and stds must be as many numbers each, got shapes {weights.shape}, "
                f"{shifts.shape} and {stds.shape}."
            )
        if not ((weights > 0) & (stds > 0) & np.isfinite(weights + shifts + stds)).all():
            raise ValueError(f"{where}: weights and stds must be above zero and all numbers finite.")
        return Parts(np.log(weights / weights.sum())[None], shifts[None], stds[None])

    def __str__(self) -> str:
        parts = self.parts(np.zeros(1), "law")
        return (
            f"{np.size(self.stds)} normal distributions, mean of the true value less the reading {parts.mean[0]:.4g}, "
            f"standard deviation {parts.std[0]:.4g}"
        )


@dataclass(frozen=True, eq=False)
class Censored(ErrorLaw):
    """Readings of which some say no more than that the true value is below a limit; made by `eiv.censored`.

    Attributes:
        error: that of the other readings: a standard deviation, one per row, or a law.
        below: the limit of each row where there is one, else NaN.
        low: the least value that the true value can have.

    Examples:
        >>> law = Censored(0.1, below=np.array([np.nan, 0.5]))
        >>> x = law.readings(np.array([2.0, np.nan]))  # a reading, and less than 0.5
        >>> x, law.parts(x, "X_err").std.round(3)
        (array([2.  , 0.25]), array([0.1  , 0.144]))

    """

    error: Any
    below: ArrayLike
    low: ArrayLike = 0.0
    has_berkson: ClassVar[bool] = False

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Which readings are below their limit, `rows`."""
        return np.asarray(np.isfinite(np.asarray(self.below, dtype=float)))

    def readings(self, x: Array) -> Array:
        """Readings `x`, with the middle of what is left open in the place of those below a limit."""
        hidden, limit = self.hidden, np.asarray(self.below, dtype=float)
        if hidden.shape != x.shape:
            return x
        return np.where(hidden, (np.where(hidden, limit, 0.0) + np.asarray(self.low, dtype=float)) / 2, x)

    def parts(self, x: Array, where: str) -> Parts:
        """Those of the error, and about the middle of `low` and the limit those of a rectangular law."""
        hidden = self.hidden
        if hidden.shape != x.shape:
            raise ValueError(f"{where}: below must be one limit per row ({len(x)}), NaN for none, got {hidden.shape}.")
        limit, low = np.asarray(self.below, dtype=float), np.broadcast_to(np.asarray(self.low, dtype=float), x.shape)
        wrong = np.flatnonzero(hidden & ~(limit > low))
        if len(wrong):
            raise ValueError(
                f"{where}: limits in the wrong order in row {wrong[0]}: below = {limit[wrong[0]]:g} must be above "
                f"low = {low[wrong[0]]:g}."
            )
        inside = nearest_parts("rectangular").times(np.where(hidden, limit - low, 1.0) / 2)
        if isinstance(self.error, ErrorLaw):
            others = self.error.parts(x, where)
        else:
            others = Parts.normal(self._numbers(where, len(x), error=self.error)[0])
        return inside.where(hidden, others)

    def __str__(self) -> str:
        n = int(self.hidden.sum())
        return f"{self.error}; {n:,} readings below a limit, anywhere from {_shown(self.low)} to it"


def rectangular(half_width: ArrayLike) -> Rectangular:
    r"""Limits: the true value lies within `half_width` of the reading, and is equally likely everywhere there.

    .. math:: p(x | \zeta) = \frac{1}{2 a} \quad \text{for } |x - \zeta| \le a, \qquad \sigma_x = a / \sqrt 3

    Args:
        half_width: a, in units of the column: a number, or one per row for `X_err`.

    Returns:
        What `x_err` and `X_err` take for a column, or for all.

    Examples:
        >>> from eiv import EiVRegressor, rectangular
        >>> model = EiVRegressor(x_err=rectangular(0.7))  # the same as x_err="±0.7"

    """
    return Rectangular(half_width)


def triangular(half_width: ArrayLike) -> Triangular:
    r"""Limits as of `rectangular`, within which values are the more likely the nearer they are to the reading.

    .. math:: p(x | \zeta) = \frac{a - |x - \zeta|}{a^2} \quad \text{for } |x - \zeta| \le a, \qquad
              \sigma_x = a / \sqrt 6

    Args:
        half_width: a, in units of the column: a number, or one per row for `X_err`.

    Returns:
        What `x_err` and `X_err` take for a column, or for all.

    Examples:
        >>> from eiv import EiVRegressor, triangular
        >>> model = EiVRegressor(x_err=triangular(0.7))

    """
    return Triangular(half_width)


def student_t(scale: ArrayLike, dof: float) -> StudentT:
    r"""Errors with heavy tails: most are of the size of `scale`, a few are much larger.

    .. math:: p(x | \zeta) \propto \Big( 1 + \frac{(x - \zeta)^2}{\nu s^2} \Big)^{-(\nu + 1) / 2}, \qquad
              \sigma_x = s \sqrt{\nu / (\nu - 2)}

    Args:
        scale: s, in units of the column: a number, or one per row for `X_err`.
        dof: nu, above 2.

    Returns:
        What `x_err` and `X_err` take for a column, or for all.

    Examples:
        >>> from eiv import EiVRegressor, student_t
        >>> model = EiVRegressor(x_err=student_t(0.2, dof=4))

    """
    return StudentT(scale, dof)


def split_normal(minus: ArrayLike, plus: ArrayLike) -> SplitNormal:
    r"""Errors that differ below and above the reading, as in :math:`x^{+0.5}_{-0.2}`.

    .. math:: p(x | \zeta) \propto \exp\Big( -\frac{(\zeta - x)^2}{2 \sigma_\pm^2} \Big), \qquad
              \sigma_\pm = \sigma_- \text{ for } \zeta < x, \quad \sigma_+ \text{ above}

    Args:
        minus: how far the true value lies below the reading, as a standard deviation: a number, or one per row.
        plus: the same above.

    Returns:
        What `x_err` and `X_err` take for a column, or for all.

    Examples:
        >>> from eiv import EiVRegressor, split_normal
        >>> model = EiVRegressor(x_err=split_normal(minus=0.2, plus=0.5))  # the same as x_err="+0.5 -0.2"

    """
    return SplitNormal(minus, plus)


def growing(constant: ArrayLike, share: float) -> Growing:
    r"""Errors that grow with the true value, as "0.3 + 2 %".

    .. math:: p(x | \zeta) = \mathcal{N}\big(x \,|\, \zeta, (c + s |\zeta|)^2\big)

    A share of the reading instead (`x_err="2%"`) takes a reading that came out small for a precise one.

    Args:
        constant: c, in units of the column: a number, or one per row for `X_err`.
        share: s, 0 to 0.1.

    Returns:
        What `x_err` and `X_err` take for a column, or for all.

    Examples:
        >>> from eiv import EiVRegressor, growing
        >>> model = EiVRegressor(x_err=growing(0.3, 0.02))  # the same as x_err="0.3 + 2%"

    """
    return Growing(constant, share)


def censored(error: Any, below: ArrayLike, low: ArrayLike = 0.0) -> Censored:
    r"""Readings below a limit of detection, as "<0.05", among others that are numbers.

    .. math:: p(x | \zeta) \propto 1 \quad \text{for } \mathrm{low} \le \zeta \le \mathrm{below}

    in the rows that have a limit, whatever X holds there, NaN included. What is likely between the two is left to the
    prior of the true inputs.

    Args:
        error: that of the other readings: a standard deviation, one per row, or a law.
        below: `rows`, the limit where the reading is below it, else NaN.
        low: the least value that the true value can have, a number or one per row.

    Returns:
        What `X_err` takes for a column.

    Examples:
        >>> from eiv import censored
        >>> X = [[0.31], [np.nan]]  # the second one was reported as <0.05
        >>> X_err = [censored(0.02, below=[np.nan, 0.05])]

    """
    return Censored(error, below, low)


def _asymmetry(skewness: Array) -> Array:
    r"""Of the split normal law with this skewness, by interpolation; that of one side alone where no law has it.

    .. math:: \sqrt{2 / \pi}\, d\, \frac{(4 / \pi - 1)\, d^2 + p}{((1 - 2 / \pi)\, d^2 + p)^{3/2}}, \qquad
              d = 2 a, \quad p = 1 - a^2
    """
    a = np.linspace(-1, 1, 401)
    gap, product = 2 * a, 1 - a**2
    third = np.sqrt(2 / np.pi) * gap * ((4 / np.pi - 1) * gap**2 + product)
    return np.interp(skewness, third / ((1 - 2 / np.pi) * gap**2 + product) ** 1.5, a)


def _with_share(words: str, number: ArrayLike, share: float) -> str:
    """The words of a number, and of what comes to it as a share of the reading."""
    if not share:
        return words
    return f"{words} plus {100 * share:g} % of the reading" if np.any(number) else f"{100 * share:g} % of the reading"


def _shown(numbers: ArrayLike) -> str:
    """A number, or the range of several."""
    values = np.asarray(numbers, dtype=float)
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
