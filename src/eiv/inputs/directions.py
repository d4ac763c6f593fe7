"""Whether the stated errors of X can be true together: combinations of columns cannot scatter by less than they."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from eiv.inputs.errors import times

__all__ = ["DirectionTest"]

Array = NDArray[np.float64]
_SINGULAR = 1e-8  # an eigenvalue of a correlation matrix below it is rounding: that direction has no error
_SMALLEST = 1e-300  # a probability that underflows is taken as this, which errs on the side of few refusals
_NAMED = 0.05  # share of the largest part of a combination from which on a column is named
_EQUAL = 0.999  # of parts that are as good as equal the first one gives the unit, on every machine
_MOST_NAMED = 5


@dataclass(frozen=True)
class DirectionTest:
    r"""A test of whether some combination of columns scatters by less than its errors alone would make it.

    The direction is searched: it has the smallest variance for its errors,

    .. math:: \lambda = \min_a \frac{a^T S_x a}{a^T \bar C a}, \qquad \bar C = \frac1N \sum_i C_i

    one over the largest eigenvalue of :math:`S_x^{-1} \bar C`. Columns without an error (and
    combinations that have none by a covariance) can be added for nothing. So the others count by their residuals from
    a regression on these q columns, with n = N - 1 - q degrees of freedom.

    In units where :math:`\bar C` is the identity, n S is a Wishart matrix of m columns. Equal errors and no scatter of
    the true values in any direction make it a central one. True values that differ make it noncentral, and can but
    raise its smallest root: its roots are positively associated, and the ratio of the densities rises with each of them
    (Perlman and Olkin 1980, Annals of Statistics 8, 1326). So this bound holds for all true values, those on a plane or
    a curve among them. The density of the roots :math:`l_1 > \dots > l_m` has the factors :math:`l_i - l_m`. With
    :math:`l_i` in their place the other roots are those of a Wishart matrix of m - 1 columns and n + 1 degrees of
    freedom, and the rest is (Chen and Dongarra 2005, SIAM Journal on Matrix Analysis 27, 603)

    .. math::
        P(\lambda \le r) \le \frac{\sqrt\pi\, \Gamma(\frac{n + 1}2)}{\Gamma(\frac m2)\, \Gamma(\frac{n - m}2 + 1)}\,
        P(\chi^2_{n - m + 1} \le n r)

    The factor pays for the search. For m = 1 it is one, and the test is that of `SpreadTest`.

    Where errors differ between rows, :math:`\nu \le n` stands in the place of n, as an approximation. With
    :math:`B_i` the covariances in the units above, it is the smaller one of two: the degrees of freedom of a Wishart
    matrix with the same largest eigenvalue of :math:`E (S - I)^2`, and the least of those of single directions,

    .. math::
        \frac n\nu = \max \left( \frac{1}{m + 1} \left\| M \right\|, \; \max_u \frac1N \sum_i (u^T B_i u)^2 \right),
        \qquad M = \frac1N \sum_i (\mathrm{tr} B_i) B_i + B_i^2

    over the eigenvectors u of M.

    Attributes:
        coefficients: `n_x`, of the columns in the combination. That of the column that contributes most is 1.
        parts: `n_x`, the spreads of the columns times the coefficients, as shares of the largest.
        spread: the standard deviation of the combination.
        error: the root mean square of its errors.
        n_rows: N.
        below: an upper bound of the probability of a ratio as small as this one, or smaller.

    Examples:
        >>> random = np.random.default_rng(0)
        >>> z = random.uniform(-1, 1, (100, 1))
        >>> x = np.hstack([z, z]) + 0.01 * random.standard_normal((100, 2))
        >>> test = DirectionTest.of(x, np.array([[0.3, 0.3]]))
        >>> test.words(["a", "b"]), round(test.spread, 3), round(test.error, 3), test.below < 1e-3
        ('a - b', 0.014, 0.424, True)
        >>> DirectionTest.of(x, np.array([[0.01, 0.01]])).below > 0.05
        True

    """

    coefficients: Array
    parts: Array
    spread: float
    error: float
    n_rows: int
    below: float

    @classmethod
    def of(cls, x: Array, errors: Array) -> DirectionTest | None:
        """The test of values, none of them constant, and errors in a form of `check_x_err`; None for too few rows."""
        n_rows = len(x)
        scaled, scale = _standardised(x)
        errors = times(errors, 1 / scale)
        free, whitened = _bases(_mean_covariance(errors))
        q, m = free.shape[1], whitened.shape[1]
        n = n_rows - 1 - q
        if m == 0 or q + m < 2 or n < m:
            return None
        triangle: Array = np.asarray(np.linalg.qr(scaled @ np.hstack([free, whitened]), mode="r"))
        _, roots, directions = np.linalg.svd(triangle[q:, q:])
        direction, root = directions[-1], float(roots[-1])
        of_free = np.linalg.lstsq(triangle[:q, :q], triangle[:q, q:] @ direction, rcond=_SINGULAR)[0]
        parts = whitened @ direction - free @ of_free
        first = int((np.abs(parts) > _EQUAL * np.abs(parts).max()).argmax())
        unit = float(abs(parts[first]) / scale[first])  # the error of the combination is one over this
        below = _smallest_root_below(root**2 / n, m, n / _inflation(errors, whitened))
        return cls(
            coefficients=parts / scale * (scale[first] / parts[first]),
            parts=parts / parts[first],
            spread=root / math.sqrt(n_rows - 1) / unit,
            error=1 / unit,
            n_rows=n_rows,
            below=below,
        )

    def words(self, labels: Sequence[str]) -> str:
        """The combination, with the columns that contribute most in front."""
        order = sorted(self.columns, key=lambda j: -round(abs(float(self.parts[j])), 3))
        more = len(order) - _MOST_NAMED
        terms = [labels[order[0]]]
        for j in order[1:_MOST_NAMED]:
            size = f"{abs(self.coefficients[j]):.3g}"
            terms += ["-" if self.coefficients[j] < 0 else "+", labels[j] if size == "1" else f"{size} × {labels[j]}"]
        return " ".join(terms) + (f" and {more} more" if more > 0 else "")

    @property
    def columns(self) -> list[int]:
        """The columns that are no small part of the combination."""
        return [int(j) for j in np.flatnonzero(np.abs(self.parts) > _NAMED)]


def _standardised(x: Array) -> tuple[Array, Array]:
    """The values with mean 0 and standard deviation 1, and the standard deviations; squares do not overflow."""
    centred = x - x.mean(0)
    largest = np.abs(centred).max(0)
    spread = largest * np.sqrt(np.mean(np.square(centred / largest), axis=0))
    return centred / spread, spread


def _mean_covariance(errors: Array) -> Array:
    return np.diag(np.mean(np.square(errors), axis=0)) if errors.ndim == 2 else np.asarray(errors.mean(0))


def _bases(covariance: Array) -> tuple[Array, Array]:
    """Combinations without an error, `n_x x q`, and others whose errors have covariance I, `n_x x m`."""
    own = np.sqrt(np.diagonal(covariance))
    noisy = np.flatnonzero(own)
    units = np.eye(len(own))
    correlation = covariance[np.ix_(noisy, noisy)] / np.outer(own[noisy], own[noisy])
    values, vectors = np.linalg.eigh(correlation)
    others = units[:, noisy] @ (vectors / own[noisy, None])
    has_error = values > _SINGULAR * len(own)
    return np.hstack([units[:, own == 0], others[:, ~has_error]]), others[:, has_error] / np.sqrt(values[has_error])


def _inflation(errors: Array, whitened: Array) -> float:
    """By how much errors that differ between rows add to the scatter of S, n over nu."""
    if len(errors) == 1:
        return 1.0
    if errors.ndim == 2:  # the basis consists of columns, with one factor each
        squares = np.square(errors @ np.abs(whitened))
        products = squares.T @ squares / len(errors)
        along = np.diagonal(products)
        largest = float((products.sum(1) + along).max())
    else:
        own = np.einsum("ja,rjk,kb->rab", whitened, errors, whitened, optimize=True)
        traces = np.trace(own, axis1=1, axis2=2)
        values, vectors = np.linalg.eigh(np.mean(traces[:, None, None] * own + own @ own, axis=0))
        along = np.mean(np.square(np.einsum("ju,rjk,ku->ru", vectors, own, vectors, optimize=True)), axis=0)
        largest = float(values[-1])
    return float(max(largest / (whitened.shape[1] + 1), along.max()))


def _smallest_root_below(ratio: float, m: int, freedom: float) -> float:
    """The bound of the probability; 1 where too few degrees of freedom are left."""
    if freedom <= m - 1:
        return 1.0
    half = (freedom - m + 1) / 2
    factor = math.log(math.pi) / 2 + math.lgamma((freedom + 1) / 2) - math.lgamma(m / 2) - math.lgamma(half + 0.5)
    tail = max(float(gammainc(half, freedom * ratio / 2)), _SMALLEST)
    return math.exp(min(0.0, factor + math.log(tail)))
