"""Laws of errors as mixtures of a few normal distributions: which few, and how far they are from the law."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtr

__all__ = ["Parts", "divergence", "nearest_parts", "nearest_to", "normal_scores"]

Array = NDArray[np.float64]
N_PARTS = {"rectangular": 5, "triangular": 3, "student_t": 3, "split_normal": 3}
"""How many normal distributions stand for each law; `docs/errors.md` says how far off others would be."""
_POINTS, _WIDEST = 500, 7.5  # of the rule for expectations under a law, in normal scores on either side
_STEP = 0.05  # of the asymmetry of split normal distributions whose parts are found
_EM_STEPS, _NARROWEST = 200, 0.1  # of a search for the nearest parts, and their least width over that at the start
_RATIO = 0.4  # of the logarithms of the scales that the parts of a t distribution start from


class Parts(NamedTuple):
    r"""How the true value lies about the reading: a mixture of normal distributions for each row.

    .. math:: p(x | \zeta) \propto \sum_{j=1}^J w_j\, \mathcal{N}(\zeta | x + s_j, v_j^2)

    Attributes:
        log_weights: log w, `(1 or rows) x J`; minus infinity for a part that is not there.
        shifts: s, the same shape, in units of x.
        stds: v, the same shape.

    Examples:
        >>> pair = Parts(np.log([[0.5, 0.5]]), np.array([[-1.0, 1.0]]), np.array([[0.5, 0.5]]))
        >>> pair.mean, pair.std.round(4)
        (array([0.]), array([1.118]))

    """

    log_weights: Array
    shifts: Array
    stds: Array

    @classmethod
    def normal(cls, stds: Array) -> Parts:
        """One part about the reading itself, `rows` or a single one."""
        column = np.atleast_1d(np.asarray(stds, dtype=float))[:, None]
        return cls(np.zeros_like(column), np.zeros_like(column), column)

    @property
    def mean(self) -> Array:
        """Of the true value less the reading, `1 or rows`."""
        found: Array = (np.exp(self.log_weights) * self.shifts).sum(-1)
        return found

    @property
    def std(self) -> Array:
        """The standard deviation of all parts together, `1 or rows`."""
        squares = self.stds**2 + (self.shifts - self.mean[:, None]) ** 2
        found: Array = np.sqrt((np.exp(self.log_weights) * squares).sum(-1))
        return found

    @property
    def is_normal(self) -> bool:
        """Whether this is nothing but a normal distribution about the reading."""
        return self.shifts.shape[-1] == 1 and not self.shifts.any()

    def times(self, factor: Array | float) -> Self:
        """Errors `factor` times as large; one factor, or one per row."""
        by_row = np.atleast_1d(np.asarray(factor, dtype=float))[:, None]
        log_weights = np.broadcast_to(self.log_weights, np.broadcast_shapes(self.shifts.shape, by_row.shape))
        return self._replace(log_weights=log_weights, shifts=self.shifts * by_row, stds=self.stds * by_row)

    def take(self, rows: NDArray[np.intp] | slice) -> Self:
        """Some of the rows; what all rows share stays as it is."""
        return (
            self
            if len(self.stds) == 1
            else self._replace(**{name: part[rows] for name, part in self._asdict().items()})
        )

    @classmethod
    def stacked(cls, blocks: Sequence[Parts], sizes: Sequence[int]) -> Parts:
        """The parts of several blocks of rows, of these sizes, one behind another."""
        n_parts = max(block.shifts.shape[-1] for block in blocks)
        padded = [block.padded(n_parts) for block in blocks]
        rows = [[np.broadcast_to(part, (n, n_parts)) for part in each] for each, n in zip(padded, sizes, strict=True)]
        return cls(*(np.concatenate(part) for part in zip(*rows, strict=True)))

    def where(self, rows: NDArray[np.bool_], other: Parts) -> Parts:
        """These parts in the `rows`, a truth value for each, and those of another law elsewhere."""
        n_parts = max(self.shifts.shape[-1], other.shifts.shape[-1])
        pairs = zip(self.padded(n_parts), other.padded(n_parts), strict=True)
        return Parts(*(np.where(rows[:, None], mine, theirs) for mine, theirs in pairs))

    def padded(self, n_parts: int) -> Parts:
        """With copies of the first part, of weight zero, up to `n_parts`."""
        more = n_parts - self.shifts.shape[-1]
        first = [np.repeat(part[:, :1], more, axis=1) for part in self]
        return Parts(
            *(np.hstack(pair) for pair in zip(self, (np.full_like(first[0], -np.inf), *first[1:]), strict=True))
        )


@functools.lru_cache(maxsize=256)
def nearest_parts(kind: str, shape: float = 0.0, n_parts: int | None = None) -> Parts:
    r"""The mixture of `n_parts` normal distributions that is nearest to a law of unit size.

    .. math:: \min_{w, s, v} \int p(e) \log \frac{p(e)}{\sum_j w_j\, \mathcal{N}(e | s_j, v_j^2)}\, de

    At the minimum of this Kullback-Leibler divergence the mixture has the mean and the variance of the law. The
    integral is a sum over quantiles of the law, the minimum is found by L-BFGS. A symmetric law keeps its symmetry. The
    parts of a t distribution all have s = 0.

    Args:
        kind: one of `N_PARTS`.
        shape: the degrees of freedom of a t distribution; the asymmetry (plus - minus) / (plus + minus) of a split
            normal one, whose sides have the standard deviations 1 - a and 1 + a. The others have limits at -1 and 1.
        n_parts: J; by default that of `N_PARTS`.

    Returns:
        `1 x J` each.

    Examples:
        >>> parts = nearest_parts("rectangular")
        >>> float(parts.std.round(3)[0])  # of limits -1 and 1: 1 / sqrt(3)
        0.577

    """
    if kind == "split_normal" and shape <= 0:
        mirrored = nearest_parts(kind, -shape, n_parts) if shape else Parts.normal(np.ones(1)).padded(N_PARTS[kind])
        return mirrored._replace(shifts=-mirrored.shifts)
    n_parts = n_parts or N_PARTS[kind]
    errors, weights = _rule(kind, shape)

    def value(flat: Array) -> tuple[float, Array]:
        log_w, s, log_v = flat.reshape(3, n_parts)
        standard = (errors[:, None] - s) / np.exp(log_v)
        logs = log_w - logsumexp(log_w) - log_v - 0.5 * standard**2 - 0.5 * math.log(2 * math.pi)
        total = logsumexp(logs, axis=1)
        shares = weights[:, None] * np.exp(logs - total[:, None])
        of_weights = shares.sum(0) - np.exp(log_w - logsumexp(log_w))
        of_shifts, of_stds = (shares * standard).sum(0) / np.exp(log_v), (shares * (standard**2 - 1)).sum(0)
        return -float(weights @ total), -np.concatenate([of_weights, of_shifts, of_stds])

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(value, _start(kind, errors, weights, n_parts), jac=True, method="L-BFGS-B", options=options).x
    log_w, s, log_v = found.reshape(3, n_parts)[:, np.argsort(found[n_parts : 2 * n_parts], kind="stable")]
    if kind == "student_t":
        s = np.zeros(n_parts)
    elif kind != "split_normal":  # what rounding has done to the symmetry
        log_w, s, log_v = ((part + sign * part[::-1]) / 2 for part, sign in ((log_w, 1), (s, -1), (log_v, 1)))
    return Parts((log_w - logsumexp(log_w))[None], s[None], np.exp(log_v)[None])


def nearest_to(errors: Array, weights: Array, n_parts: int) -> Parts:
    """Normal distributions near a law that is given by a rule: `errors`, and `weights` that add up to one.

    Found by expectation maximisation, each step of which comes nearer by the Kullback-Leibler divergence and keeps the
    mean and the variance of the law.

    Examples:
        >>> errors = np.linspace(-3, 3, 301)
        >>> weights = stats.norm.pdf(errors)
        >>> parts = nearest_to(errors, weights / weights.sum(), 2)
        >>> parts.std.round(6) == np.sqrt((weights / weights.sum()) @ errors**2).round(6)
        array([ True])

    """
    _, s, log_v = _start("", errors, weights, n_parts).reshape(3, n_parts)
    least = math.exp(log_v[0]) * _NARROWEST
    w, v = np.full(n_parts, 1 / n_parts), np.exp(log_v)
    for _ in range(_EM_STEPS):
        logs = np.log(w) + stats.norm.logpdf(errors[:, None], s, v)
        shares = weights[:, None] * np.exp(logs - logsumexp(logs, axis=1)[:, None])
        w = shares.sum(0)
        s = (shares * errors[:, None]).sum(0) / w
        v = np.sqrt(np.maximum((shares * (errors[:, None] - s) ** 2).sum(0) / w, least**2))
    return Parts(np.log(w / w.sum())[None], s[None], v[None])


def normal_scores() -> tuple[Array, Array]:
    """Evenly spaced normal scores above zero, and what they weigh among each other.

    Examples:
        >>> scores, weights = normal_scores()
        >>> round(float(weights @ scores**2), 6)
        1.0

    """
    scores = np.asarray((np.arange(_POINTS) + 0.5) * (_WIDEST / _POINTS), dtype=float)
    half = np.exp(-0.5 * scores**2)
    return scores, np.asarray(half / half.sum())


def divergence(kind: str, shape: float = 0.0, parts: Parts | None = None) -> float:
    r"""How far a mixture is from a law of unit size, by default the nearest one, in nats.

    .. math:: \int p(e) \log \frac{p(e)}{\sum_j w_j\, \mathcal{N}(e | s_j, v_j^2)}\, de

    Examples:
        >>> round(divergence("triangular"), 3), round(divergence("student_t", 4.0), 4)
        (0.005, 0.0007)

    """
    parts = parts or nearest_parts(kind, shape)
    errors, weights = _rule(kind, shape)
    logs = parts.log_weights + stats.norm.logpdf(errors[:, None], parts.shifts, parts.stds)
    return float(weights @ (_log_density(kind, shape, errors) - logsumexp(logs, axis=1)))


def skewed(mean: Array, std: Array, asymmetry: Array) -> Parts:
    """Parts with the shape of split normal laws and any mean and standard deviation, `rows` each.

    Shapes are those of asymmetries in steps of 0.05, the nearest for each row; mean and standard deviation are exact.
    """
    places = np.rint(np.asarray(asymmetry) / _STEP).astype(int)
    known, of_row = np.unique(places, return_inverse=True)
    found = [nearest_parts("split_normal", float(np.clip(place * _STEP, -1, 1))) for place in known]
    log_weights, shifts, stds = (np.vstack([getattr(each, name) for each in found])[of_row] for name in Parts._fields)
    unit = Parts(log_weights, shifts, stds)
    factor = (std / unit.std)[:, None]
    return Parts(log_weights, mean[:, None] + factor * (shifts - unit.mean[:, None]), factor * stds)


def _rule(kind: str, shape: float) -> tuple[Array, Array]:
    """Errors and weights that stand for a law: its quantiles at the levels of evenly spaced normal scores."""
    scores, half = normal_scores()
    tail = ndtr(-scores)  # the probability of more than that
    upper = scores  # of one side of a split normal law
    if kind == "rectangular":
        upper = 1 - 2 * tail
    elif kind == "triangular":
        upper = 1 - np.sqrt(2 * tail)
    elif kind == "student_t":
        upper = stats.t.isf(tail, shape)
    asymmetry = shape if kind == "split_normal" else 0.0
    sides = 1 - asymmetry, 1 + asymmetry  # which are the probabilities of either side, too, but for a half
    return np.concatenate([-sides[0] * upper, sides[1] * upper]), np.concatenate([0.5 * side * half for side in sides])


def _log_density(kind: str, shape: float, errors: Array) -> Array:
    """Of a law of unit size."""
    if kind == "rectangular":
        return np.full_like(errors, -math.log(2))
    if kind == "triangular":
        return np.log1p(-np.abs(errors))
    if kind == "student_t":
        return np.asarray(stats.t.logpdf(errors, shape))
    with np.errstate(divide="ignore", invalid="ignore"):  # a side of zero holds no errors but zero
        standard = np.where(errors == 0, 0.0, errors / np.where(errors < 0, 1 - shape, 1 + shape))
    return np.asarray(-0.5 * standard**2 - 0.5 * math.log(2 * math.pi))


def _start(kind: str, errors: Array, weights: Array, n_parts: int) -> Array:
    """Parts to start from: scales that grow by a ratio about zero, or places at even levels of the law."""
    steps = np.arange(n_parts)
    if kind == "student_t":
        return np.concatenate([-2 * _RATIO * steps, np.zeros(n_parts), _RATIO * steps])
    order = np.argsort(errors, kind="stable")
    places = np.interp((steps + 0.5) / n_parts, np.cumsum(weights[order]), errors[order])
    width = math.sqrt(float(weights @ (errors - weights @ errors) ** 2)) / n_parts
    return np.concatenate([np.zeros(n_parts), places, np.full(n_parts, math.log(width))])
