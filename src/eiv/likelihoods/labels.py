"""The distribution of labels about draws of f, in units of y."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from eiv.engine import memory

__all__ = ["Labels", "NormalLabels"]

Array = NDArray[np.float64]
_BISECTIONS = 48


class Labels(ABC):
    """The distribution of labels about f(zeta) in the rows of a prediction.

    Examples:
        >>> NormalLabels(np.array([3.0])).std
        array([3.])

    """

    @property
    @abstractmethod
    def std(self) -> Array:
        """The standard deviation of a label given f: `rows (x n_y)`."""

    @abstractmethod
    def __getitem__(self, chosen: Any) -> Self:
        """The labels of some rows, or of one output, by NumPy's indexing of `std`."""

    @abstractmethod
    def quantile(self, draws: Array, probabilities: Array) -> Array:
        """Quantiles of labels about equally likely `draws` of f, `n x rows (x n_y)`: `q.shape x rows (x n_y)`."""

    @abstractmethod
    def sample(self, draws: Array, random: np.random.Generator) -> Array:
        """Draw a label about each of the `draws` of f."""


@dataclass(frozen=True)
class NormalLabels(Labels):
    r"""Normal noise: labels are a mixture of normal distributions about the draws.

    .. math:: F(y) = \frac1n \sum_{i=1}^n \Phi\Big(\frac{y - f_i}{\sigma_y}\Big)

    Attributes:
        noise: sigma_y with the known errors of labels, `rows (x n_y)`.

    Examples:
        >>> draws = np.arange(101.0).reshape(101, 1)
        >>> NormalLabels(np.ones(1)).quantile(draws, np.array(0.5)).round(3)
        array([50.])

    """

    noise: Array

    @property
    def std(self) -> Array:
        """The noise itself."""
        return self.noise

    def __getitem__(self, chosen: Any) -> NormalLabels:
        """The labels of some rows, or of one output."""
        return NormalLabels(self.noise[chosen])

    def quantile(self, draws: Array, probabilities: Array) -> Array:
        """Quantiles of the mixture, by bisection of its distribution function."""
        shape = draws.shape[1:]
        flat, noise = draws.reshape(len(draws), -1), np.broadcast_to(self.noise, shape).reshape(-1)
        found = np.empty((probabilities.size, flat.shape[1]))
        for start in range(0, flat.shape[1], step := max(1, memory.LABELS // len(draws))):
            part = slice(start, start + step)
            for row, probability in enumerate(probabilities.reshape(-1)):
                found[row, part] = _mixture_quantile(flat[:, part], noise[part], probability)
        return found.reshape(*probabilities.shape, *shape)

    def sample(self, draws: Array, random: np.random.Generator) -> Array:
        """The draws with normal noise added."""
        return draws + self.noise * random.standard_normal(draws.shape)


def _mixture_quantile(centres: Array, noise: Array, probability: float) -> Array:
    """The value at which the mean of normal distribution functions about `centres`, `n x rows`, is `probability`."""
    low, high = centres.min(0) - 9 * noise, centres.max(0) + 9 * noise
    scale = np.maximum(noise, 1e-9 * (high - low) + np.finfo(float).tiny)  # no noise: a very steep step
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = ndtr((middle - centres) / scale).mean(0) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2, dtype=float)
