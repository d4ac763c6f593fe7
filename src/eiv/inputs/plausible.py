"""Whether the stated errors of X can be true: a column cannot scatter by less than its errors do."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc

from eiv.inputs.errors import standard_deviations

__all__ = ["SpreadTest", "SuspiciousErrorWarning", "check_plausible"]

Array = NDArray[np.float64]
_IMPOSSIBLE = 1e-3  # a column that is nothing but error is refused once in so many tables
_UNCLEAR = 0.05  # a column that is nothing but error passes without a warning once in twenty tables
# Errors up to the spread in a share of the rows, and none elsewhere, flatten a straight line by that share at most
# (mean squared error over variance of x): below 5 % they hardly matter as they are stated, so others may be missing.
_FEW = 0.05
_MISSING = 3.0  # spreads; a normal prior takes a tenth of such a value, 1 / (1 + 3^2), so that it is as good as missing
_MOST_NAMED = 5  # columns or rows in a message


class SuspiciousErrorWarning(UserWarning):
    r"""The stated errors of X may be right, but then a column says little or nothing of the true input.

    .. math:: \widehat{\operatorname{Var}}(x_j) - \frac1N \sum_i \sigma_{x,ij}^2 \not> 0

    `fit` warns where the spread of a column is not clearly above its error, where a constant column has an error, and
    where errors are zero in all rows but a few. An error that is clearly above the spread is a ValueError.

    Examples:
        >>> import warnings
        >>> warnings.simplefilter("ignore", SuspiciousErrorWarning)

    """


@dataclass(frozen=True)
class SpreadTest:
    r"""A test of whether the spread of a column is more, or less, than its errors alone would make.

    If all true values were the same, :math:`x_i \sim \mathcal{N}(\mu, s_i^2)`, and with :math:`M = I - 1 1^T / N`

    .. math::
        v = \frac{x^T M x}{N - 1}, \qquad E v = \bar s^2 = \frac1N \sum_i s_i^2, \qquad
        \operatorname{Var} v = \frac{2 \operatorname{tr} (M S M S)}{(N - 1)^2}, \qquad
        \operatorname{tr} (M S M S) = \Big( 1 - \frac2N \Big) \sum_i s_i^4 + \bar s^4

    where :math:`S = \operatorname{diag}(s_i^2)`. v over its mean is taken as :math:`\chi^2_\nu / \nu` with the same
    variance, :math:`\nu = 2 \bar s^4 / \operatorname{Var} v`. That is exact for equal errors, where
    :math:`\nu = N - 1`. True values that differ can but raise v.

    Attributes:
        spread: the standard deviation of the column, the root of v.
        error: the root mean square of its errors.
        n_rows: N.
        below: the probability of a spread as small as this one, or smaller, from errors alone.
        above: the probability of one as large or larger.

    Examples:
        >>> test = SpreadTest.of(np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, 0.5))
        >>> round(test.spread, 3), test.error, round(test.above, 5)  # 3 v / s^2 = 20, of chi^2 with 3 degrees
        (1.291, 0.5, 0.00017)

    """

    spread: float
    error: float
    n_rows: int
    below: float
    above: float

    @classmethod
    def of(cls, x: Array, errors: Array) -> SpreadTest:
        """The test of values and errors, `rows` each, two rows at least."""
        n_rows = len(x)
        spread, error = _root_mean_square(x, centred=True) * math.sqrt(n_rows / (n_rows - 1)), _root_mean_square(errors)
        if error == 0:
            return cls(spread, error, n_rows, 1.0, 0.0 if spread > 0 else 1.0)
        trace = (1 - 2 / n_rows) * float(np.sum((errors / error) ** 4)) + 1  # tr(M S M S) over the error to the fourth
        half = (n_rows - 1) ** 2 / trace / 2  # nu / 2
        ratio = min(spread / error, 1e100) ** 2
        below, above = (float(tail(half, half * ratio)) for tail in (gammainc, gammaincc))
        return cls(spread, error, n_rows, below, above)


def check_plausible(
    name: str,
    x: Array,
    x_err: Array,
    feature_names: Sequence[str] | None = None,
    *,
    classical: bool = True,
    constant_left_out: bool = True,
) -> None:
    r"""Refuse errors that cannot be true, and warn of those that hardly can, with the numbers.

    .. math:: \operatorname{Var}(x_j) = \operatorname{Var}(\zeta_j) + \frac1N \sum_i \sigma_{x,ij}^2

    leaves :math:`\operatorname{Var}(\zeta_j)` below zero where errors are beyond the spread; `SpreadTest` says whether
    that can be chance. Rows whose error is more than three times the spread are set aside where they are fewer than
    half: a huge error is a way to say that a value is missing. Every column is looked at for itself, of covariances by
    their diagonals; that two columns are closer to each other than independent errors allow is not found.

    Args:
        name: of the argument that holds the errors, for messages.
        x: `rows x n_x`.
        x_err: errors in a form of `eiv.inputs.errors`.
        feature_names: those of the columns, or None.
        classical: whether x scatters around the true input; else ("berkson") its spread sets no limit.
        constant_left_out: whether constant columns are left out of the model, as standardising does.

    Raises:
        ValueError: where the spread of a column is below its error by more than chance.

    Warns:
        SuspiciousErrorWarning: where it is not above by more than chance, where a constant column that is left out has
            an error, and where errors are zero in all rows but a few.

    Examples:
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> check_plausible("x_err", x, np.array([[0.1]]))
        >>> check_plausible("x_err", x, np.array([[10.0]]))
        Traceback (most recent call last):
        ValueError: x_err is beyond the spread of X in column 0 (spread 0.297, error 10, of 50 rows). ...

    """
    stds = standard_deviations(x_err)
    names = range(x.shape[1]) if feature_names is None else map(str, feature_names)
    labels = [f"column {label!r}" for label in names]
    noisy = np.flatnonzero(stds.any(0)).tolist()
    few = [j for j in noisy if np.count_nonzero(stds[:, j]) < _FEW * len(stds)]
    _warn_where(
        [f"{labels[j]} ({_rows_with_errors(stds[:, j])})" for j in few],
        f"{name} is zero, which says that X is exact, in nearly all rows of {{}}. If errors are missing rather than "
        f"zero, fill them in.",
    )
    constant = [j for j in noisy if constant_left_out and np.ptp(x[:, j]) == 0]
    _warn_where(
        [f"{labels[j]} (always {x[0, j]:.6g}, error {_root_mean_square(stds[:, j]):.3g})" for j in constant],
        f"{name} is not zero for {{}}, constant in X: this is left out, and its error with it.",
    )
    if classical:
        tests = {labels[j]: _tests(x[:, j], stds[:, j]) for j in noisy if j not in constant}
        _check_spreads(name, tests)


class _Tests(NamedTuple):
    """The test of all rows, that of most of them, and words for the others."""

    all: SpreadTest
    most: SpreadTest
    aside: str


def _tests(x: Array, errors: Array) -> _Tests:
    errors = np.broadcast_to(errors, x.shape)
    whole = SpreadTest.of(x, errors)
    kept = errors <= _MISSING * whole.spread
    if kept.all() or 2 * kept.sum() <= len(x):
        return _Tests(whole, whole, "")
    aside = f"errors from {errors[~kept].min():.3g} to {errors.max():.3g} in {np.sum(~kept)} of {len(x)} rows"
    return _Tests(whole, SpreadTest.of(x[kept], errors[kept]), aside)


def _check_spreads(name: str, tests: Mapping[str, _Tests]) -> None:
    """Refuse or warn by the tests of the columns."""
    impossible = [_numbers(label, test.most) for label, test in tests.items() if test.most.below < _IMPOSSIBLE]
    if impossible:
        raise ValueError(
            f"{name} is beyond the spread of X in {_listed(impossible)}. Errors alone would scatter the values more "
            f"than that, even if all true values were the same; chance leaves so small a spread in fewer than 1 of "
            f"1000 tables. Errors are in the units of X: check these, give 0 for a column that is exact, drop the "
            f"column, or take error_model='berkson' where X was set and the true input scatters around it."
        )
    _warn_where(
        [_numbers(label, test.most) for label, test in tests.items() if test.most.above > _UNCLEAR],
        f"{name} is about as large as the spread of X in {{}}: the true values could all be the same, and the column "
        f"then says nothing of them. Check the units of the error, or drop the column.",
    )
    _warn_where(
        [
            f"{label} (spread {test.all.spread:.3g}, {test.aside})"
            for label, test in tests.items()
            if test.all.below < _IMPOSSIBLE
        ],
        f"{name} is beyond the spread of X in some rows of {{}}. Such rows count as missing; check the units of their "
        f"errors where that is not meant.",
    )


def _numbers(label: str, test: SpreadTest) -> str:
    return f"{label} (spread {test.spread:.3g}, error {test.error:.3g}, of {test.n_rows} rows)"


def _rows_with_errors(errors: Array) -> str:
    rows = np.flatnonzero(errors)
    which = "row" if len(rows) == 1 else "rows"
    return f"errors in {len(rows)} of {len(errors)} rows: {which} {_listed([str(row) for row in rows])}"


def _root_mean_square(values: Array, centred: bool = False) -> float:
    """Of the values, or of their distances from their mean; squares neither overflow nor vanish."""
    scale = float(np.abs(values).max()) or 1.0
    scaled = values / scale
    return scale * math.sqrt(float(np.mean(np.square(scaled - scaled.mean() if centred else scaled))))


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _MOST_NAMED
    return ", ".join(words[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _warn_where(found: Sequence[str], message: str) -> None:
    """Warn with a message that has a place for what was found, if anything was."""
    if found:
        warnings.warn(
            message.replace("{}", _listed(found)), SuspiciousErrorWarning, stacklevel=6
        )  # where `fit` is called
