"""Where the training rows lie, and whether a new row is unlike them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv, ndtr
from torch import Tensor

from eiv.engine import memory
from eiv.engine.readonly import ReadOnly
from eiv.inputs.errors import standard_deviations
from eiv.inputs.mixed import Errors, as_normal
from eiv.inputs.mixture import MixturePrior

__all__ = ["TrainingCloud"]

Array = NDArray[np.float64]
_TABLES = 10  # of as many rows as the training had; fewer than one of them would hold an unlike row by chance
_LOOKS = 2  # at a row: all columns together, and each by itself
_RARE = 500  # rows: what one of so many does is like the training rows, and not the slip of an instrument
_ROWS_PER_FEATURE, _MOST_CORRELATED = 10, 100  # that a covariance takes, and features whose correlations are kept
_SMALLEST, _LARGEST = 1e-150, 1e150  # spreads whose squares are numbers


@dataclass(frozen=True, eq=False)
class TrainingCloud(ReadOnly):
    r"""Where the training rows lie: a mixture of normal distributions, and the range of each column.

    Two looks at a row x with error covariance S. All columns together, as far as they vary,

    .. math::
        p = \sum_k q_k \, P\Big( \chi^2_d > \frac{D_k^2}{s} \Big), \qquad D_k^2 = (x - m_k)^T (V_k + S)^{-1} (x - m_k)

    with q the weight of each component given x. Each column by itself, where it leaves the range of the training rows,
    here above the greatest value,

    .. math::
        p_j = \frac12 \Big( \frac{2}{N + 1} \Big)^{1 + g_j / h_j} + \Phi\Big( -\frac{g_j}{e_j} \Big), \qquad
        g_j = x_j - \max_j, \quad h_j = \max_j - \mathrm{median}_j

    which is an exponential tail that has 1/2 at the median and 1 / (N + 1) at the greatest of N values, and what the
    error alone makes of it. e is what the error of the row has beyond the usual one, whose effect the range holds. The
    probability of the row is the smaller one of p and :math:`2 n_x \min_j p_j`, and it is unlike the training rows
    where that is below `level`.

    The stretch s is there for clouds that are not normal. Of the training rows, each seen from a cloud that was learned
    without it, the farthest of 500 is to have the probability that its rank says; s is 1 where it has that or more.

    Attributes:
        prior: the distribution of the true inputs, where it was learned from the rows; else that of x, one normal.
        of_zeta: which of the two it is.
        stretch: s.
        n_rows: N.
        quantiles: `5 x n_x`, least value, 5 %, 50 % and 95 % quantile and greatest value of each feature.
        usual: `n_x`, the median error of each feature.

    Examples:
        >>> x = np.random.default_rng(0).normal(size=(500, 2))
        >>> exact, quantiles = np.zeros((1, 2)), np.quantile(x, [0, 0.05, 0.5, 0.95, 1], axis=0)
        >>> cloud = TrainingCloud.of(x, exact, quantiles, usual=np.zeros(2))
        >>> rows = np.array([[0.0, 0.1], [1.0, -9.0]])
        >>> (cloud.likeness(rows, exact) < cloud.level).tolist()
        [False, True]
        >>> cloud.words(rows[1], ["length", "temp"])
        'column temp = -9 beyond -3.77228 to 3.06604'

    """

    prior: MixturePrior
    of_zeta: bool
    stretch: float
    n_rows: int
    quantiles: Array
    usual: Array

    @classmethod
    def of(
        cls, x: Array, x_err: Errors, quantiles: Array, usual: Array, prior: MixturePrior | None = None
    ) -> TrainingCloud:
        """The cloud of `x`, `rows x n_x`.

        `x_err` has a form of `eiv.inputs.errors`, and `prior` is the distribution of the true inputs, where it was
        learned from these rows.
        """
        x, x_err = as_normal(x, x_err)
        cloud = cls(prior or _normal(x), prior is not None, 1.0, len(x), quantiles, usual)
        d = int(cloud._varying.sum())
        if not d:
            return cloud
        rank = math.ceil(len(x) / _RARE)
        farthest = np.sort(cloud._distances_without(x, x_err))[-rank]
        expected = 2 * gammainccinv(d / 2, rank / (len(x) + 1))
        return replace(cloud, stretch=max(1.0, float(np.nan_to_num(farthest / expected))))

    @property
    def level(self) -> float:
        r"""The probability below which a row is unlike the training rows.

        .. math:: \frac{1}{10 \cdot 2 N}

        Of N training-like rows, one is below it by chance in fewer than one of ten tables, as there are two looks.
        """
        return 1 / (_TABLES * _LOOKS * self.n_rows)

    def likeness(self, x: Array, x_err: Errors) -> Array:
        """The probability that a training-like row lies farther out than each of these, `rows`.

        `x` is `rows x n_x`, and `x_err` has a form of `eiv.inputs.errors`. Each row is looked at by itself.
        """
        by_column = self._tails(x, standard_deviations(x_err)).min(1)
        found: Array = np.minimum(self._together(*as_normal(x, x_err)), np.minimum(1.0, 2 * x.shape[1] * by_column))
        return found

    def beyond(self, x: Array, x_err: Errors) -> NDArray[np.bool_]:
        """Which rows are unlike the training rows in columns that vary: a constant one says nothing about others."""
        return self.likeness(np.where(self._varying, x, self.quantiles[2]), x_err) < self.level

    def words(self, x: Array, names: Sequence[str] | None = None) -> str:
        """What sets a row `x`, `n_x`, apart: the column that is farthest beyond its range, if one is."""
        gap, reach = self._beyond_range(x)
        if not (gap > 0).any():
            return "each column within its range, but not all of them together"
        with np.errstate(divide="ignore", invalid="ignore"):
            j = int(np.argmax(np.where(gap > 0, gap / reach, 0.0)))
        low, high = self.quantiles[0, j], self.quantiles[-1, j]
        return f"column {names[j] if names else j} = {x[j]:.6g} beyond {low:.6g} to {high:.6g}"

    def _tails(self, x: Array, errors: Array) -> Array:
        """The probability of values as far beyond the range of their column, `rows x n_x`; 1 inside."""
        gap, reach = self._beyond_range(x)
        with np.errstate(all="ignore"):  # values inside, and columns or errors of zero
            tail = 0.5 * (2 / (self.n_rows + 1)) ** (1 + gap / reach)
            return np.where(gap > 0, tail + ndtr(-gap / self._beyond_usual(errors)), 1.0)

    def _beyond_range(self, x: Array) -> tuple[Array, Array]:
        """How far values lie beyond the range of their column, below zero inside, and that end from the median."""
        low, _, middle, _, high = self.quantiles
        with np.errstate(over="ignore"):
            return np.maximum(x - high, low - x), np.where(x > high, high - middle, middle - low)

    def _together(self, x: Array, x_err: Array) -> Array:
        """The probability of rows whose columns together lie farther out, `rows`."""
        half = int(self._varying.sum()) / 2
        if not half:
            return np.ones(len(x))
        found = [
            (weights * gammaincc(half, squared.sum(-1) / (2 * self.stretch))).sum(-1)
            for weights, squared in self._distances(x, x_err)
        ]
        together: Array = np.nan_to_num(np.concatenate(found))  # no weights where all components are infinitely far
        return together

    def _distances_without(self, x: Array, x_err: Array) -> Array:
        r"""The squared distance of each training row from the cloud that the others would make, `rows`.

        .. math:: D_{-i}^2 = \frac{N_k - 1}{N_k} \cdot \frac{D_i^2}{1 - D_i^2 / N_k}

        by the formula of Sherman and Morrison for a covariance that N_k rows have made, the one of its prior among
        them. Where features are independent it holds for each of them.
        """
        shares = np.asarray(self.prior.weights, dtype=float)
        counts = (shares / shares.sum() * self.n_rows + 1)[:, None]  # K x 1
        found = []
        for weights, squared in self._distances(x, x_err):
            without = squared * (counts - 1) / counts / np.maximum(1 - squared / counts, 1 / counts)
            found.append((weights * without.sum(-1)).sum(-1))
        return np.concatenate(found)

    def _distances(self, x: Array, x_err: Array) -> Iterator[tuple[Array, Array]]:
        """Weights and squared distances of `MixturePrior.distances` for some rows at a time, by columns that vary."""
        chosen = self._varying
        errors = x_err if self.of_zeta else self._beyond_usual(standard_deviations(x_err))
        errors = errors[:, chosen] if errors.ndim == 2 else errors[:, chosen][:, :, chosen]
        prior = self._of_varying
        n_x = int(chosen.sum())
        size = max(1, memory.CLOUD // (np.size(prior.weights) * n_x ** (2 if len(errors) > 1 else 1)))
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            own = errors if len(errors) == 1 else errors[rows]
            found: tuple[Tensor, Tensor] = prior.distances(torch.tensor(x[rows, chosen]), torch.tensor(own))
            yield found[0].numpy(), found[1].numpy()

    def _beyond_usual(self, errors: Array) -> Array:
        """What errors, standard deviations, have beyond the usual ones, which show in the rows of the training."""
        own, usual = (np.minimum(each, _LARGEST) ** 2 for each in (errors, self.usual))
        return np.asarray(np.sqrt(np.maximum(own - usual, 0)))

    @cached_property
    def _varying(self) -> NDArray[np.bool_]:
        return np.asarray(self.quantiles[0] < self.quantiles[-1])

    @cached_property
    def _of_varying(self) -> MixturePrior:
        """The distribution of the columns that vary; of the others the range alone says what is unlike."""
        means, covariances = (np.asarray(part, dtype=float) for part in (self.prior.means, self.prior.covariances))
        chosen = self._varying
        covariances = covariances[:, chosen] if covariances.ndim == 2 else covariances[:, chosen][:, :, chosen]
        return MixturePrior(self.prior.weights, means[:, chosen], covariances)


def _normal(x: Array) -> MixturePrior:
    r"""One normal distribution of `x`, `rows x n_x`, in a form that has a density where columns depend on each other.

    .. math:: V = \frac{1}{N + 1} \Big( \sum_i (x_i - m) (x_i - m)^T + \operatorname{diag} \mathrm{var} \Big)

    A prior that counts as one row, as that of `LearnedPrior` does. Correlations need ten rows for each feature.
    """
    n_rows, n_x = x.shape
    mean, spread = x.mean(0), x.std(0)
    scale = np.where(np.ptp(x, axis=0) > 0, spread, 1.0)
    size = np.clip(scale, _SMALLEST, _LARGEST)
    if n_x > min(_MOST_CORRELATED, n_rows / _ROWS_PER_FEATURE):
        return MixturePrior(np.ones(1), mean[None], (size**2)[None])
    unit = (x - mean) / scale
    correlation = (unit.T @ unit + np.eye(n_x)) / (n_rows + 1)
    return MixturePrior(np.ones(1), mean[None], (correlation * size[:, None] * size)[None])
