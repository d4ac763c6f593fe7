"""The distribution of labels about draws of f, in units of y."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri

from eiv.engine import memory

__all__ = ["Labels", "MixtureLabels", "NormalLabels"]

Array = NDArray[np.float64]
_BISECTIONS = 48
_NORMAL_DRAWS = 400  # of f, where its mean and standard deviation stand for its distribution


class Labels(ABC):
    """The distribution of labels about f(zeta) in the rows of a prediction.

    Labels of your own have to define the abstract methods, which answer for draws of f. Answers for f of which only the
    mean and the standard deviation are known (`moment_interval`, `moment_log_density`) follow from them.

    Examples:
        >>> NormalLabels(np.array([3.0])).std
        array([3.])

    """

    @property
    @abstractmethod
    def std(self) -> Array:
        """The standard deviation of a label given f: `rows (x n_y)`."""

    @property
    def covariance(self) -> Array:
        """The covariance of the labels of a row given f, `rows x n_y x n_y`; outputs are independent by default."""
        noise = self.std.reshape(len(self.std), -1)
        return np.asarray(noise[:, :, None] * noise[:, None, :] * np.eye(noise.shape[1]))

    @abstractmethod
    def __getitem__(self, chosen: Any) -> Self:
        """The labels of some rows, or of one output, by NumPy's indexing of `std`."""

    @abstractmethod
    def quantile(self, draws: Array, probabilities: Array) -> Array:
        """Quantiles of labels about equally likely `draws` of f, `n x rows (x n_y)`: `q.shape x rows (x n_y)`."""

    @abstractmethod
    def log_density(self, draws: Array, y: Array) -> Array:
        """The logarithm of the density of labels `y`, `rows (x n_y)`, about equally likely `draws` of f."""

    @abstractmethod
    def sample(self, draws: Array, random: np.random.Generator) -> Array:
        """Draw a label about each of the `draws` of f."""

    def moment_interval(self, mean: Array, std: Array, level: float) -> tuple[Array, Array]:
        """The ends of the central interval of labels about a normal f, `rows (x n_y)` each."""
        ends = np.array([(1 - level) / 2, (1 + level) / 2])
        found = [self[rows].quantile(draws, ends) for rows, draws in normal_draws(mean, std)]
        low, high = np.concatenate(found, axis=1)
        return low, high

    def moment_log_density(self, mean: Array, std: Array, y: Array) -> Array:
        """The logarithm of the density of labels `y` about a normal f, `rows (x n_y)`."""
        return np.concatenate([self[rows].log_density(draws, y[rows]) for rows, draws in normal_draws(mean, std)])


class MixtureLabels(Labels):
    r"""Labels whose distribution about each draw has a known distribution function: a mixture over the draws.

    .. math:: F(y) = \frac1n \sum_{i=1}^n F(y - f_i) = q

    Its quantiles are found by bisection. Subclasses say how far from a draw they can lie, and which share of them lies
    below a distance.

    Examples:
        >>> isinstance(NormalLabels(np.ones(1)), MixtureLabels)
        True

    """

    @abstractmethod
    def flat(self, shape: tuple[int, ...]) -> Self:
        """The same with its arrays in this shape, flattened."""

    @abstractmethod
    def reach(self, probability: float) -> Array:
        """How far from its draw the quantile of a label can lie: `rows`."""

    @abstractmethod
    def below(self, away: Array, least: Array) -> Array:
        """The share of labels less than `away`, `n x rows`, above their draws; no noise is less than `least`."""

    def quantile(self, draws: Array, probabilities: Array) -> Array:
        """Quantiles of the mixture, by bisection of its distribution function."""
        shape = draws.shape[1:]
        centres, labels = draws.reshape(len(draws), -1), self.flat(shape)
        found = np.empty((probabilities.size, centres.shape[1]))
        for start in range(0, centres.shape[1], step := max(1, memory.LABELS // len(draws))):
            part = slice(start, start + step)
            for row, probability in enumerate(probabilities.reshape(-1)):
                found[row, part] = _mixture_quantile(labels[part], centres[:, part], probability)
        return found.reshape(*probabilities.shape, *shape)


@dataclass(frozen=True)
class NormalLabels(MixtureLabels):
    r"""Normal noise: labels are a mixture of normal distributions about the draws.

    .. math:: F(y) = \frac1n \sum_{i=1}^n \Phi\Big(\frac{y - f_i}{\sigma_y}\Big)

    Attributes:
        noise: sigma_y with the known errors of labels, `rows (x n_y)`.
        correlation: that of the noise of several outputs without known errors, `n_y x n_y`; None for independent ones.
        known: the known errors of labels, which are independent, `rows x n_y`; None for none.

    Examples:
        >>> draws = np.arange(101.0).reshape(101, 1)
        >>> NormalLabels(np.ones(1)).quantile(draws, np.array(0.5)).round(3)
        array([50.])

    """

    noise: Array
    correlation: Array | None = None
    known: Array | None = None

    @property
    def std(self) -> Array:
        """The noise itself."""
        return self.noise

    @property
    def covariance(self) -> Array:
        """The covariance of the labels of a row given f, `rows x n_y x n_y`."""
        if self.correlation is None:
            return super().covariance
        return joint_covariance(self._sigma, self.correlation, self.known)

    def __getitem__(self, chosen: Any) -> NormalLabels:
        """The labels of some rows, or of one output."""
        if isinstance(chosen, tuple) or self.correlation is None:
            return NormalLabels(self.noise[chosen])
        return NormalLabels(self.noise[chosen], self.correlation, None if self.known is None else self.known[chosen])

    def flat(self, shape: tuple[int, ...]) -> NormalLabels:
        """The same noise, flattened."""
        return NormalLabels(np.broadcast_to(self.noise, shape).reshape(-1))

    def reach(self, probability: float) -> Array:
        """Nine times the noise, beyond which no quantile lies."""
        return 9 * self.noise

    def below(self, away: Array, least: Array) -> Array:
        """The normal distribution function."""
        return np.asarray(ndtr(away / np.maximum(self.noise, least)))

    def log_density(self, draws: Array, y: Array) -> Array:
        """The logarithm of the density of the mixture."""
        found = logsumexp(log_normal(y, draws, self.noise), axis=0) - math.log(len(draws))
        return np.asarray(found, dtype=float)

    def sample(self, draws: Array, random: np.random.Generator) -> Array:
        """The draws with normal noise added, the same correlations in each."""
        if self.correlation is None:
            return draws + self.noise * random.standard_normal(draws.shape)
        labels: Array = draws + self._sigma * joint_normal(random, draws.shape, self.correlation)
        return labels if self.known is None else labels + self.known * random.standard_normal(draws.shape)

    @property
    def _sigma(self) -> Array:
        """The noise without known errors, `rows x n_y`."""
        return self.noise if self.known is None else np.sqrt(np.maximum(self.noise**2 - self.known**2, 0))

    def moment_interval(self, mean: Array, std: Array, level: float) -> tuple[Array, Array]:
        """The mean, minus and plus a multiple of the total standard deviation, eq. (total_unc)."""
        width = ndtri((1 + level) / 2) * np.hypot(std, self.noise)
        return mean - width, mean + width

    def moment_log_density(self, mean: Array, std: Array, y: Array) -> Array:
        """The logarithm of the normal density with the total standard deviation."""
        return log_normal(y, mean, np.hypot(std, self.noise))


def normal_draws(mean: Array, std: Array) -> Iterator[tuple[slice, Array]]:
    """Equally likely draws of a normal f, `n x rows (x n_y)`, for one block of rows after the other."""
    base = ndtri((np.arange(_NORMAL_DRAWS) + 0.5) / _NORMAL_DRAWS).reshape(-1, *[1] * mean.ndim)
    base /= base.std()
    size = max(1, memory.LABELS // (_NORMAL_DRAWS * max(1, mean[:1].size)))
    for start in range(0, max(1, len(mean)), size):
        rows = slice(start, start + size)
        yield rows, mean[rows] + std[rows] * base


def joint_covariance(sigma: Array, correlation: Array, known: Array | None) -> Array:
    """The covariance, `rows x n_y x n_y`, of noise with correlations and of known errors, which have none."""
    found: Array = sigma[:, :, None] * sigma[:, None, :] * correlation
    return found if known is None else found + np.square(known)[:, :, None] * np.eye(sigma.shape[1])


def joint_normal(random: np.random.Generator, shape: tuple[int, ...], correlation: Array | None) -> Array:
    """Standard normal numbers of this shape; those along its last axis have a correlation, or are independent."""
    numbers = random.standard_normal(shape)
    return numbers if correlation is None else np.asarray(numbers @ np.linalg.cholesky(correlation).T)


def log_normal(y: Array, mean: Array, std: Array) -> Array:
    return np.asarray(-(((y - mean) / std) ** 2) / 2 - math.log(math.sqrt(2 * math.pi)) - np.log(std), dtype=float)


def _mixture_quantile(labels: MixtureLabels, centres: Array, probability: float) -> Array:
    """The value at which the mean of distribution functions about `centres`, `n x rows`, is `probability`."""
    reach = labels.reach(probability)
    low, high = centres.min(0) - reach, centres.max(0) + reach
    least = 1e-9 * (high - low) + np.finfo(float).tiny  # no noise: a very steep step
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = labels.below(middle - centres, least).mean(0) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2, dtype=float)
