"""The distribution of labels with heavy tails about draws of f, in units of y."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri, stdtr, stdtrit

from eiv.engine import memory
from eiv.likelihoods.labels import MixtureLabels, normal_draws
from eiv.likelihoods.tails import MIXTURE_NODES, mixture, tail

__all__ = ["StudentTLabels"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StudentTLabels(MixtureLabels):
    r"""Student's t about the draws, with a known normal error on top.

    .. math:: F(y) = \frac1n \sum_{i=1}^n P(s \, t_\nu + e \, z \le y - f_i)

    Attributes:
        scale: s, `rows (x n_y)`.
        nu: the degrees of freedom, above 2, in the same shape.
        known: e, the known errors of labels, in the same shape; 0 where there is none.

    Examples:
        >>> labels = StudentTLabels(np.ones(1), np.full(1, 4.0), np.zeros(1))
        >>> labels.quantile(np.zeros((3, 1)), np.array(0.975)).round(3)
        array([2.776])

    """

    scale: Array
    nu: Array
    known: Array

    @property
    def std(self) -> Array:
        """The root of s^2 nu / (nu - 2) + e^2."""
        return np.hypot(self.scale * np.sqrt(self.nu / (self.nu - 2)), self.known)

    def __getitem__(self, chosen: Any) -> StudentTLabels:
        """The labels of some rows, or of one output."""
        return StudentTLabels(self.scale[chosen], self.nu[chosen], self.known[chosen])

    def flat(self, shape: tuple[int, ...]) -> StudentTLabels:
        """The same, flattened."""
        return StudentTLabels(*(np.broadcast_to(each, shape).reshape(-1) for each in self._parts))

    def reach(self, probability: float) -> Array:
        """The sum of the distances beyond which the t and the error lie, each with half of the probability left."""
        left = min(probability, 1 - probability) / 2
        return np.asarray(self.scale * -stdtrit(self.nu, left) + self.known * -ndtri(left), dtype=float)

    def below(self, away: Array, least: Array) -> Array:
        """The distribution function of t, and with known errors that of the mixture of normals."""
        scale = np.maximum(self.scale, least)
        if not self.known.any():
            return np.asarray(stdtr(self.nu, away / scale))
        variance, log_weights = _mixture(scale, self.nu, self.known)
        found = np.zeros(away.shape)
        for k in range(variance.shape[-1]):  # in the memory of one
            found += np.exp(log_weights[..., k]) * ndtr(away / np.sqrt(variance[..., k]))
        return found

    def log_density(self, draws: Array, y: Array) -> Array:
        """The logarithm of the density of the mixture, for as many rows at once as fit in a fixed memory."""
        found, labels = np.empty(y.shape), StudentTLabels(*(np.broadcast_to(part, y.shape) for part in self._parts))
        values = draws[:, :1].size * (MIXTURE_NODES if self.known.any() else 1)
        size = max(1, memory.LABELS // values)
        for start in range(0, len(y), size):
            rows = slice(start, start + size)
            densities = labels[rows]._log_density(y[rows] - draws[:, rows])  # noqa: SLF001
            found[rows] = logsumexp(densities, axis=0) - math.log(len(draws))
        return found

    def sample(self, draws: Array, random: np.random.Generator) -> Array:
        """The draws with noise and error added."""
        noise = self.scale * random.standard_t(np.broadcast_to(self.nu, draws.shape))
        return np.asarray(draws + noise + self.known * random.standard_normal(draws.shape), dtype=float)

    def moment_interval(self, mean: Array, std: Array, level: float) -> tuple[Array, Array]:
        """The ends of the central interval about a normal f, whose variance takes up that of the known errors."""
        ends, without = np.array([(1 - level) / 2, (1 + level) / 2]), self._without_errors()
        found = [without[rows].quantile(draws, ends) for rows, draws in normal_draws(mean, np.hypot(std, self.known))]
        low, high = np.concatenate(found, axis=1)
        return low, high

    def moment_log_density(self, mean: Array, std: Array, y: Array) -> Array:
        """The logarithm of the density about a normal f: a normal error of the standard deviation of both."""
        labels = StudentTLabels(self.scale, self.nu, np.hypot(std, self.known))
        return labels._log_density(y - mean)

    def _without_errors(self) -> StudentTLabels:
        return StudentTLabels(self.scale, self.nu, np.zeros_like(self.known))

    def _log_density(self, residuals: Array) -> Array:
        known = torch.tensor(self.known) if self.known.any() else None
        scale, nu = torch.tensor(self.scale), torch.tensor(self.nu)
        found: Array = tail(torch.tensor(residuals), scale, nu, known).log_density.numpy()
        return found

    @property
    def _parts(self) -> tuple[Array, Array, Array]:
        return self.scale, self.nu, self.known


def _mixture(scale: Array, nu: Array, known: Array) -> tuple[Array, Array]:
    """The variances and the log weights of the normals that make up a t with a known error."""
    variance, log_weights = mixture(*(torch.tensor(each) for each in (scale, nu, known)))
    return variance.numpy(), log_weights.numpy()
