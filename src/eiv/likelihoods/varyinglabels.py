"""The distribution of labels about draws of f, whose noise differs from draw to draw, in units of y."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from eiv.likelihoods.labels import MixtureLabels, NormalLabels, joint_covariance, joint_normal, log_normal

__all__ = ["VaryingLabels"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class VaryingLabels(MixtureLabels):
    r"""Normal noise that belongs to the draw: labels are a mixture of normal distributions of many widths.

    .. math:: F(y) = \frac1n \sum_{i=1}^n \Phi\Big(\frac{y - f_i}{s_i}\Big), \qquad s_i^2 = \sigma_i^2 + e^2

    Attributes:
        sigma: the root mean square of the noise of a row, `rows (x n_y)`.
        known: e, the known errors of labels, in the same shape.
        of_draws: sigma_i, `n x rows (x n_y)`, for the draws of f of the same prediction; None where there are none, and
            `sigma` serves for all.
        correlation: that of the noise of several outputs without known errors, `n_y x n_y`; None for independent ones.

    Examples:
        >>> draws, widths = np.zeros((2, 1)), np.array([[1.0], [3.0]])
        >>> VaryingLabels(np.array([5**0.5]), np.zeros(1), widths).quantile(draws, np.array(0.9)).round(3)
        array([2.578])

    """

    sigma: Array
    known: Array
    of_draws: Array | None = None
    correlation: Array | None = None

    @property
    def std(self) -> Array:
        """The root of E sigma^2 + e^2."""
        return np.hypot(self.sigma, self.known)

    @property
    def covariance(self) -> Array:
        r"""The covariance of the labels of a row given f, `rows x n_y x n_y`.

        .. math:: R_{jk} \, \mathrm{noise}_j \, \mathrm{noise}_k
                  \frac{\overline{\sigma_{ij} \sigma_{ik}}}
                       {\sqrt{\overline{\sigma_{ij}^2} \; \overline{\sigma_{ik}^2}}}

        The means are over the draws i; where there are none, the quotient counts as one, which it is at most.
        """
        if self.correlation is None:
            return super().covariance
        found = joint_covariance(self.sigma, self.correlation, None)
        if self.of_draws is not None:
            together = np.einsum("irj,irk->rjk", self.of_draws, self.of_draws)
            sizes = np.sqrt(np.diagonal(together, axis1=1, axis2=2))
            found *= together / (sizes[:, :, None] * sizes[:, None, :])
        return found + np.square(self.known)[:, :, None] * np.eye(found.shape[1])

    def __getitem__(self, chosen: Any) -> VaryingLabels:
        """The labels of some rows, or of one output."""
        is_column = isinstance(chosen, tuple)
        own = (slice(None), *(chosen if is_column else (chosen,)))
        of_draws = None if self.of_draws is None else self.of_draws[own]
        return VaryingLabels(self.sigma[chosen], self.known[chosen], of_draws, None if is_column else self.correlation)

    def flat(self, shape: tuple[int, ...]) -> VaryingLabels:
        """The same, flattened."""
        sigma, known = (np.broadcast_to(each, shape).reshape(-1) for each in (self.sigma, self.known))
        return VaryingLabels(sigma, known, None if self.of_draws is None else self.of_draws.reshape(-1, len(sigma)))

    def reach(self, probability: float) -> Array:
        """Nine times the largest noise of a draw, beyond which no quantile lies."""
        largest = self.sigma if self.of_draws is None else self.of_draws.max(0)
        return np.asarray(9 * np.hypot(largest, self.known))

    def below(self, away: Array, least: Array) -> Array:
        """The normal distribution function of each draw."""
        return np.asarray(ndtr(away / np.maximum(self._widths(len(away)), least)))

    def log_density(self, draws: Array, y: Array) -> Array:
        """The logarithm of the density of the mixture."""
        found = logsumexp(log_normal(y, draws, self._widths(len(draws))), axis=0) - math.log(len(draws))
        return np.asarray(found, dtype=float)

    def sample(self, draws: Array, random: np.random.Generator) -> Array:
        """The draws with normal noise of their own added, the same correlations in each."""
        if self.correlation is None:
            return np.asarray(draws + self._widths(len(draws)) * random.standard_normal(draws.shape))
        labels = draws + self._own(len(draws)) * joint_normal(random, draws.shape, self.correlation)
        return np.asarray(labels + self.known * random.standard_normal(draws.shape))

    def moment_interval(self, mean: Array, std: Array, level: float) -> tuple[Array, Array]:
        """The mean, minus and plus a multiple of the total standard deviation, eq. (total_unc)."""
        return NormalLabels(self.std).moment_interval(mean, std, level)

    def moment_log_density(self, mean: Array, std: Array, y: Array) -> Array:
        """The logarithm of the normal density with the total standard deviation."""
        return NormalLabels(self.std).moment_log_density(mean, std, y)

    def _widths(self, n_draws: int) -> Array:
        """The noise of each of `n_draws` with the known errors."""
        return np.hypot(self._own(n_draws), self.known)

    def _own(self, n_draws: int) -> Array:
        """The noise of each of `n_draws`; that of the row where these are not the draws of the prediction."""
        return self.sigma if self.of_draws is None or len(self.of_draws) != n_draws else self.of_draws
