"""Whether the stated errors of X and y can be true: values cannot scatter by less than their errors do."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc

from eiv.inputs.directions import DirectionTest
from eiv.inputs.errors import standard_deviations
from eiv.inputs.mixed import Errors, MixedErrors, missing_cells
from eiv.validation import frames_to_caller

__all__ = ["SpreadTest", "SuspiciousErrorWarning", "check_plausible"]

Array = NDArray[np.float64]
_IMPOSSIBLE = 1e-3  # a column that is nothing but error is refused once in so many tables
_UNCLEAR = 0.05  # a column that is nothing but error passes without a warning once in twenty tables
_UNLIKELY = 0.05  # true values on a plane lead to a warning in fewer than one of twenty tables
# Errors up to the spread in a share of the rows, and none elsewhere, flatten a straight line by that share at most
# (mean squared error over variance of x): below 5 % they hardly matter as they are stated, so others may be missing.
_FEW = 0.05
_MISSING = 3.0  # spreads; a normal prior takes a tenth of such a value, 1 / (1 + 3^2), so that it is as good as missing
_RELATED = 2.0  # standard errors of a rank correlation from which on errors are said to go with x
_SCALED = 1e-6  # rounding of a scaler in float32; the mean of 10^6 measured rows is further from 0 by chance
_MOST_NAMED = 5  # columns or rows in a message


class SuspiciousErrorWarning(UserWarning):
    r"""The stated errors of X or y may be right, but then a column says little or nothing of the true values.

    .. math:: \widehat{\operatorname{Var}}(x_j) - \frac1N \sum_i \sigma_{x,ij}^2 \not> 0

    `fit` warns where the spread of a column is not clearly above its error, where a combination of columns scatters by
    less than its errors, where a constant column has an error, and where errors are zero in all rows but a few. An
    error of X that is clearly above the spread is a ValueError, unless the errors go with x; then, and for y, it is a
    warning too.

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
    :math:`\nu = N - 1`. True values that differ can but raise v, as long as errors have nothing to do with them.

    Errors that were found from x itself may be too large on average: relative errors :math:`s_i = r |x_i|` have
    :math:`E s_i^2 = (1 + r^2)\, r^2 \zeta_i^2`, which is :math:`1 + r^2` times the truth. :math:`s_i^2 = x_i` of
    counts are right on average; those of zero counts that are set to one, or of counts that scatter by less than
    Poisson's, are not. See `errors_go_with`.

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
    x_err: Errors,
    feature_names: Sequence[str] | None = None,
    *,
    classical: bool = True,
    constant_left_out: bool = True,
) -> None:
    r"""Refuse errors that cannot be true, and warn of those that hardly can, with the numbers.

    .. math:: \operatorname{Var}(x_j) = \operatorname{Var}(\zeta_j) + \frac1N \sum_i \sigma_{x,ij}^2

    leaves :math:`\operatorname{Var}(\zeta_j)` below zero where errors are beyond the spread; `SpreadTest` says whether
    that can be chance. It takes errors that have nothing to do with x. Where they go with x (`errors_go_with`: relative
    errors, roots of counts, means in the place of missing values) nothing is certain, and there is a warning only.
    Rows whose error is more than three times the spread are set aside where they are half of all at most: a huge error
    is a way to say that a value is missing.

    Then combinations of columns are looked at by `DirectionTest`, in the rows that have a reading in each column with
    an error: columns may be closer to each other than their errors allow. True values on a plane or a curve are no
    reason for a word, so there is a warning only where a combination scatters by less than its errors. It is no more
    than a warning: a column may follow from others, and errors that these share are often not known.

    Args:
        name: of the argument that holds the errors, for messages.
        x: `rows x n_x`.
        x_err: errors in a form of `eiv.inputs.errors`; cells without a reading are left out.
        feature_names: those of the columns, or None.
        classical: whether x scatters around the true input; else ("berkson") its spread sets no limit.
        constant_left_out: whether constant columns are left out of the model, as standardising does.

    Raises:
        ValueError: where the spread of a column is below its error by more than chance, and errors do not go with x.

    Warns:
        SuspiciousErrorWarning: where it is below and they do, where that of a column is not above by more than chance,
            where that of a combination is hardly as small by chance, where a constant column that is left out has an
            error, and where errors are zero in all rows but a few.

    Examples:
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> check_plausible("x_err", x, np.array([[0.1]]))
        >>> check_plausible("x_err", x, np.array([[10.0]]))
        Traceback (most recent call last):
        ValueError: x_err is beyond the spread of X in column 0 (spread 0.297, error 10, of 50 rows). ...

    """
    stds, missing = standard_deviations(x_err), missing_cells(x_err)
    if missing is not None:  # what has no reading has no error that could be wrong
        stds = np.where(missing, 0.0, stds)
    seen = np.ones_like(x, dtype=bool) if missing is None else ~missing
    labels = _labels(x.shape[1], feature_names)
    noisy = np.flatnonzero(stds.any(0)).tolist()
    plain = np.where(x_err.has_law, 0.0, stds) if isinstance(x_err, MixedErrors) else stds  # a limit concerns its row
    few = [j for j in noisy if np.count_nonzero(stds[:, j]) < _FEW * len(stds) and plain[:, j].any()]
    _warn_where(
        [f"{labels[j]} ({_rows_with_errors(plain[:, j])})" for j in few],
        f"{name} is zero, which says that X is exact, in nearly all rows of {{}}. If errors are missing rather than "
        f"zero, fill them in.",
    )
    constant = [j for j in noisy if constant_left_out and np.ptp(x[seen[:, j], j]) == 0]
    _warn_where(
        [f"{labels[j]} (always {x[0, j]:.6g}, error {_root_mean_square(stds[:, j]):.3g})" for j in constant],
        f"{name} is not zero for {{}}, constant in X: this is left out, and its error with it.",
    )
    if classical:
        columns = {j: np.broadcast_to(stds[:, j], len(x))[seen[:, j]] for j in noisy if j not in constant}
        tests = {j: _tests(x[seen[:, j], j], errors) for j, errors in columns.items() if len(errors) > 1}
        _check_spreads(name, {labels[j]: test for j, test in tests.items()})
        _warn_of_directions(name, x, x_err, seen, tests, labels)


def warn_of_scaled(name: str, values: Array, errors: Array, names: Sequence[str] | None = None) -> None:
    r"""Warn where columns with errors are standardised already, since errors may then be in the units of before.

    .. math:: |\bar x_j| < 10^{-6}, \qquad |s_j - 1| < 10^{-6}

    for all columns that have errors. Measured values are like that only after a scaler. A column of two values, such as
    the levels -1 and 1 of a design, does not count.

    Args:
        name: of the argument that holds the errors; its last letters say whose they are.
        values: `rows x columns`.
        errors: the errors of the columns, of each row or of all, `(1 or rows) x columns`.
        names: those of the columns, or None.

    Warns:
        SuspiciousErrorWarning: where it is so.

    Examples:
        >>> warn_of_scaled("x_err", np.array([[1.0], [2.0], [6.0]]), np.array([[0.1]]))

    """
    labels, whose = _labels(values.shape[1], names), name[0].upper() if name[0] == "x" else name[0]
    noisy = [j for j in np.flatnonzero(errors.any(0)).tolist() if np.ptp(values[:, j]) > 0]
    scaled = [j for j in noisy if _is_standardised(values[:, j])]
    _warn_where(
        [labels[j] for j in scaled] if scaled == noisy else [],
        f"{whose} has mean 0 and standard deviation 1 in {{}}, as after a scaler. {name} must be in the units that "
        f"reach the estimator: errors in the units of before are wrong by the factor of the scaler. No scaler is "
        f"needed, for the estimator standardises {whose} and its errors together; eiv.ErrorScaler is one that carries "
        f"columns with errors along. Where the errors were divided by the same numbers, all is well.",
    )


def _is_standardised(values: Array) -> bool:
    """Whether more than two different values have mean 0 and standard deviation 1."""
    off = max(abs(float(values.mean())), abs(float(values.std()) - 1))
    return off < _SCALED and bool(((values != values.min()) & (values != values.max())).any())


def check_plausible_labels(y: Array, y_err: Array, output_names: Sequence[str] | None = None) -> None:
    r"""Warn where the known errors of y are beyond its spread, with the numbers.

    .. math:: \operatorname{Var}(y_k) \ge \frac1N \sum_i y_{err,ik}^2

    By the test and for the rows that `check_plausible` takes. Nothing is refused: too large an error of y takes weight
    from labels, but leaves a model that can be fitted.

    Args:
        y: `rows x n_y`.
        y_err: `rows x n_y`.
        output_names: those of the columns, or None.

    Warns:
        SuspiciousErrorWarning: where the spread of an output is below its error by more than chance.

    Examples:
        >>> y = np.linspace(0, 1, 50)[:, None]
        >>> check_plausible_labels(y, np.full((50, 1), 0.1))

    """
    labels = _labels(y.shape[1], output_names)
    tests = [(label, _tests(y[:, k], y_err[:, k])) for k, label in enumerate(labels)]
    _warn_where(
        [_numbers(label, test.most) for label, test in tests if test.impossible],
        "y_err is beyond the spread of y in {}: errors alone would scatter the labels more than that, even if f were "
        "the same everywhere. Errors are in the units of y: check these.",
    )


def errors_go_with(x: Array, errors: Array) -> str:
    r"""Words for what of x the errors go with, "" where they have nothing to do with it.

    .. math:: \rho = \operatorname{corr}(\operatorname{rank} s_i, \operatorname{rank} t_i), \qquad
              E \rho = 0, \quad \operatorname{Var} \rho = \frac{1}{N - 1}

    for any s and t that have nothing to do with each other, as all orders are then equally likely. Three t are tried:

    - x itself: roots of counts, relative errors of positive values;
    - |x|, with rho above zero: relative errors on either side of zero;
    - |x - mean|, with rho below zero: means in the place of missing values, with a large error. Errors that scatter x
      have rho above zero, as large errors carry values far out.

    Two standard errors count, which is as much as five rows in the same order make; of fewer, those count. Errors that
    have nothing to do with x pass for some that do in less than a tenth of tables. Equal errors go with nothing.

    Args:
        x: `rows`.
        errors: `rows`.

    Returns:
        What they go with, and rho.

    Examples:
        >>> counts = np.array([3.0, 9.0, 4.0, 1.0, 6.0, 12.0])
        >>> errors_go_with(counts, np.sqrt(counts))
        'rank correlation 1.00 of errors and X'
        >>> errors_go_with(counts, np.full(6, 2.0))
        ''

    """
    least = min(_RELATED / math.sqrt(len(x) - 1), 1.0) - 1e-9  # rounding
    for what, values, sign in (("X", x, 0), ("|X|", x, 1), ("|X - mean of X|", x - x.mean(), -1)):
        rho = _rank_correlation(errors, np.abs(values) if sign else values)
        if (sign * rho if sign else abs(rho)) >= least:
            return f"rank correlation {rho:.2f} of errors and {what}"
    return ""


def _labels(n_columns: int, names: Sequence[str] | None) -> list[str]:
    return [f"column {name!r}" for name in (range(n_columns) if names is None else map(str, names))]


class _Tests(NamedTuple):
    """The test of all rows, that of most of them, which those are, and words.

    The words are for the other rows, and for what of x the errors go with.
    """

    all: SpreadTest
    most: SpreadTest
    kept: NDArray[np.bool_]
    aside: str
    related: str

    @property
    def impossible(self) -> bool:
        """Whether the errors are beyond the spread."""
        return self.most.below < _IMPOSSIBLE


def _tests(x: Array, errors: Array) -> _Tests:
    errors = np.broadcast_to(errors, x.shape)
    whole = SpreadTest.of(x, errors)
    kept = errors <= _MISSING * whole.spread
    if kept.all() or kept.sum() < max(2, len(x) / 2):
        return _Tests(whole, whole, np.ones_like(kept), "", errors_go_with(x, errors))
    aside = f"errors from {errors[~kept].min():.3g} to {errors.max():.3g} in {np.sum(~kept)} of {len(x)} rows"
    x, errors = x[kept], errors[kept]
    return _Tests(whole, SpreadTest.of(x, errors), kept, aside, errors_go_with(x, errors))


def _check_spreads(name: str, tests: Mapping[str, _Tests]) -> None:
    """Refuse or warn by the tests of the columns."""
    impossible = {label: test for label, test in tests.items() if test.impossible}
    certain = [_numbers(label, test.most) for label, test in impossible.items() if not test.related]
    if certain:
        raise ValueError(
            f"{name} is beyond the spread of X in {_listed(certain)}. Errors alone would scatter the values more "
            f"than that, even if all true values were the same; a spread this small occurs by chance in fewer than "
            f"1 of 1000 tables. Errors are in the units of X: check the units, give 0 for a column that is exact, drop "
            f"the column, or use error_model='berkson' where X was set and the true input scatters around it."
        )
    _warn_where(
        [_numbers(label, test.most, test.related) for label, test in impossible.items()],
        f"{name} is beyond the spread of X in {{}}. Errors depend on X there, as relative errors, roots of counts and "
        f"errors of filled-in values do, and may be too large on average: the column says little about its true "
        f"values. Check the errors, or drop the column.",
    )
    others = {label: test for label, test in tests.items() if not test.impossible}
    _warn_where(
        [_numbers(label, test.most) for label, test in others.items() if test.most.above > _UNCLEAR],
        f"{name} is about as large as the spread of X in {{}}: the true values could all be the same, and the column "
        f"then says nothing of them. Check the units of the error, or drop the column.",
    )
    _warn_where(
        [
            f"{label} (spread {test.all.spread:.3g}, {test.aside})"
            for label, test in others.items()
            if test.all.below < _IMPOSSIBLE
        ],
        f"{name} is beyond the spread of X in some rows of {{}}. Such rows count as missing; check the units of their "
        f"errors where that is not meant.",
    )


def _warn_of_directions(
    name: str,
    x: Array,
    x_err: Errors,
    seen: NDArray[np.bool_],
    tests: Mapping[int, _Tests],
    labels: Sequence[str],
) -> None:
    """Warn by the test of combinations of columns; one whose error is beyond its own spread is left out."""
    errors = x_err if isinstance(x_err, np.ndarray) else x_err.std
    noisy: NDArray[np.bool_] = np.any(standard_deviations(errors) * seen, axis=0)
    rows: NDArray[np.bool_] = np.all(seen, axis=1)
    for j, test in tests.items():
        rows[seen[:, j]] &= test.kept
    possible = [j for j in range(x.shape[1]) if not noisy[j] or (j in tests and not tests[j].impossible)]
    used = [j for j in possible if rows.any() and np.ptp(x[rows, j]) > 0]
    if not noisy[used].any():
        return
    errors = (errors if len(errors) == 1 else errors[rows])[:, used]
    together = DirectionTest.of(x[rows][:, used], errors if errors.ndim == 2 else errors[:, :, used])
    if together is None or together.below >= _UNLIKELY:
        return
    found = _numbers(together.words([labels[j] for j in used]), together)
    related = [labels[used[j]] for j in together.columns if used[j] in tests and tests[used[j]].related]
    why = "Errors alone would scatter it more than that, wherever the true values lie"
    advice = (
        "A column that is computed from others, or measured together with them, shares its error with them: give the "
        "covariance of the errors, or drop one of these columns. Check the units too."
    )
    but = f", but the errors of {_listed(related)} depend on X and may be too large on average" if related else ""
    _warn_where([found], f"{name} is beyond the spread of X in the direction {{}}. {why}{but}. {advice}")


def _numbers(label: str, test: SpreadTest | DirectionTest, *more: str) -> str:
    numbers = (f"spread {test.spread:.3g}", f"error {test.error:.3g}", f"of {test.n_rows} rows", *more)
    return f"{label} ({', '.join(numbers)})"


def _rank_correlation(a: Array, b: Array) -> float:
    """Spearman's, equal values having their mean rank; 0 where all are equal."""
    from scipy.stats import rankdata  # noqa: PLC0415  (slow to import)

    ranks = np.stack([rankdata(a), rankdata(b)]) - (len(a) + 1) / 2
    squares = np.square(ranks).sum(1)
    return float(ranks[0] @ ranks[1] / math.sqrt(squares.prod())) if squares.all() else 0.0


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
    """Warn the caller of the package with a message that has a place for what was found, if anything was."""
    if found:
        warnings.warn(message.replace("{}", _listed(found)), SuspiciousErrorWarning, stacklevel=frames_to_caller())
