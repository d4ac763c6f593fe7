"""Distributions of true inputs with draws of zeta given x, from which the limit of a random problem is computed.

Every column of zeta has mean 0 and standard deviation 1, so that an error of x means the same in all columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri

__all__ = ["CutColumns", "NormalMixture", "Zetas", "in_strata"]

Array = NDArray[np.float64]
_CHAINS, _SWEEPS, _FIRST_SWEEPS = 25, 40, 10  # of Gibbs sampling, for cut columns with correlated errors


class Zetas(Protocol):
    r"""A distribution of true inputs.

    .. math:: \zeta \sim \pi, \qquad x \mid \zeta \sim \mathrm{N}(\zeta, C)

    Examples:
        >>> zetas: Zetas = NormalMixture.standardised(np.zeros((1, 2)), np.eye(2), np.ones(1))
        >>> zetas.draw(3, np.random.default_rng(0)).shape
        (3, 2)

    """

    def draw(self, n_rows: int, random: Generator) -> Array:
        """True inputs, `rows x n_x`."""

    def given(self, x: Array, covariance: Array, n_draws: int, random: Generator) -> Array:
        """Draws of zeta given x, `draws x rows x n_x`; `covariance` is `rows x n_x x n_x`, zero in exact columns."""


@dataclass(frozen=True, eq=False)
class NormalMixture:
    r"""A mixture of normals of equal covariance: a correlated normal, two clusters, or many along a curve.

    .. math:: \pi(\zeta) = \sum_c w_c \, \mathrm{N}(\zeta; \mu_c, P)

    Zeta given x has again such a distribution, with the same number of normals, and is drawn without approximation.

    Attributes:
        means: `C x n_x`.
        covariance: `n_x x n_x`, that of each normal.
        weights: `C`, which sum to one.

    Examples:
        >>> clusters = NormalMixture.standardised(np.array([[-1.0], [1.0]]), 0.25 * np.eye(1), np.array([0.6, 0.4]))
        >>> zeta = clusters.draw(10_000, np.random.default_rng(0))
        >>> bool(abs(zeta.std() - 1) < 0.02)
        True

    """

    means: Array
    covariance: Array
    weights: Array

    @classmethod
    def standardised(cls, means: Array, covariance: Array, weights: Array) -> NormalMixture:
        """The mixture, shifted and scaled so that its columns have mean 0 and standard deviation 1."""
        share = weights / weights.sum()
        centred = means - share @ means
        spread = np.sqrt(np.diag(covariance) + share @ centred**2)
        return cls(centred / spread, covariance / np.outer(spread, spread), share)

    def draw(self, n_rows: int, random: Generator) -> Array:
        """True inputs, `rows x n_x`."""
        component = random.choice(len(self.weights), size=n_rows, p=self.weights)
        normal = random.standard_normal((n_rows, self.means.shape[1]))
        return self.means[component] + normal @ np.linalg.cholesky(self.covariance).T

    def given(self, x: Array, covariance: Array, n_draws: int, random: Generator) -> Array:
        """Independent draws of zeta given x, `draws x rows x n_x`, with the components in strata."""
        total = self.covariance + covariance
        shift = x[:, None] - self.means  # rows x C x n_x
        solved = np.linalg.solve(total, shift.transpose(0, 2, 1)).transpose(0, 2, 1)
        log_weight = np.log(self.weights) - 0.5 * (shift * solved).sum(-1)
        weight = np.exp(log_weight - logsumexp(log_weight, axis=1, keepdims=True))
        component = _in_proportion(weight, n_draws, random)  # draws x rows
        rows = np.arange(len(x))
        centre = self.means[component] + solved[rows, component] @ self.covariance
        left = self.covariance - self.covariance @ np.linalg.solve(total, np.broadcast_to(self.covariance, total.shape))
        values, vectors = np.linalg.eigh((left + left.transpose(0, 2, 1)) / 2)
        root = vectors * np.sqrt(np.maximum(values, 0))[:, None]  # zero along exact columns
        return np.asarray(centre + np.einsum("rji,kri->krj", root, random.standard_normal(centre.shape)))


@dataclass(frozen=True)
class CutColumns:
    r"""Independent columns with an exponential density between two ends: uniform, or skewed with an edge.

    .. math:: \pi(\zeta) = \prod_j \pi_1(\zeta_j), \qquad \pi_1(z) \propto e^{-r z}, \quad a \le z \le b

    A column given its x is a normal about :math:`x - r \sigma_x^2`, cut at both ends, and is drawn by inversion. With
    correlated errors the same holds for each column given the others, and Gibbs sampling is used.

    Attributes:
        n_columns: n_x.
        low: a.
        high: b, which may be infinite.
        rate: r.

    Examples:
        >>> uniform, skewed = CutColumns.uniform(2), CutColumns.skewed(2)
        >>> bool(uniform.draw(1000, np.random.default_rng(0)).max() < 3**0.5)
        True

    """

    n_columns: int
    low: float
    high: float
    rate: float

    @classmethod
    def uniform(cls, n_columns: int) -> CutColumns:
        """Columns uniform between the roots of three."""
        return cls(n_columns, -(3**0.5), 3**0.5, 0.0)

    @classmethod
    def skewed(cls, n_columns: int) -> CutColumns:
        """Exponential columns, with a skewness of two."""
        return cls(n_columns, -1.0, np.inf, 1.0)

    def draw(self, n_rows: int, random: Generator) -> Array:
        """True inputs, `rows x n_x`."""
        shape = (n_rows, self.n_columns)
        return self.low + random.exponential(size=shape) if self.rate else random.uniform(self.low, self.high, shape)

    def given(self, x: Array, covariance: Array, n_draws: int, random: Generator) -> Array:
        """Draws of zeta given x, `draws x rows x n_x`: independent, or from Gibbs chains for correlated errors."""
        noisy = np.flatnonzero(np.diagonal(covariance[0]) > 0)
        inverse = np.linalg.inv(covariance[:, noisy[:, None], noisy])
        independent = np.allclose(inverse * (1 - np.eye(len(noisy))), 0)
        n_chains, sweeps = (n_draws, 1) if independent else (_CHAINS, _FIRST_SWEEPS + _SWEEPS)
        zeta = np.broadcast_to(x, (n_chains, *x.shape)).copy()
        zeta[..., noisy] = np.clip(x[:, noisy], self.low, self.high)
        kept = []
        for sweep in range(sweeps):
            for i, column in enumerate(noisy):
                own = inverse[:, i, i]
                pull = np.einsum("krj,rj->kr", (x - zeta)[..., np.delete(noisy, i)], np.delete(inverse[:, i], i, 1))
                levels = in_strata(n_chains, len(x), random)
                zeta[..., column] = self._cut_normal(x[:, column] + pull / own, 1 / np.sqrt(own), levels)
            if sweep >= sweeps - _SWEEPS:
                kept.append(zeta.copy())
        return np.concatenate(kept)

    def _cut_normal(self, centre: Array, std: Array, levels: Array) -> Array:
        """Quantiles of a cut normal, computed in the lower tail, where floats are dense: usable up to 37 sigma."""
        centre = centre - self.rate * std**2
        low, high = (self.low - centre) / std, (self.high - centre) / std
        sign = np.where(low + high > 0, -1.0, 1.0)
        first, last = np.where(sign > 0, low, -high), np.where(sign > 0, high, -low)
        below = ndtr(first)
        found = ndtri(below + levels * (ndtr(last) - below))
        return np.asarray(np.clip(centre + std * sign * np.clip(found, first, last), self.low, self.high))


def in_strata(n_draws: int, n_rows: int, random: Generator) -> Array:
    r"""Stratified uniform numbers: one in each of K equal strata, in a random order :math:`\pi` of its own in each row.

    .. math:: u_k = \frac{\pi(k) + v_k}{K}, \qquad v_k \sim \mathrm{U}(0, 1)

    Args:
        n_draws: K.
        n_rows: the number of rows, which are independent of each other.
        random: the generator of random numbers.

    Returns:
        `draws x rows`.

    Examples:
        >>> np.sort(in_strata(4, 1, np.random.default_rng(0))[:, 0] * 4 // 1)
        array([0., 1., 2., 3.])

    """
    order = random.random((n_draws, n_rows)).argsort(0)
    return (order + random.random((n_draws, n_rows))) / n_draws


def _in_proportion(weight: Array, n_draws: int, random: Generator) -> NDArray[np.intp]:
    """Indices of components, drawn by their weights, `rows x C`, in strata: `draws x rows`."""
    ends = np.cumsum(weight, axis=1)
    levels = (np.arange(n_draws)[:, None] + random.random((n_draws, len(weight)))) / n_draws
    rows = [np.searchsorted(end[:-1], level) for end, level in zip(ends, levels.T, strict=True)]
    return np.stack(rows, axis=1)
