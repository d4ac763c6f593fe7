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
from eiv.likelihoods.labels import MixtureLabels, joint_covariance, joint_normal, normal_draws
from eiv.likelihoods.tails import MIXTURE_NODES, mixture, tail

__all__ = ["StudentTLabels"]

Array = NDArray[np.float64]
_TERMS = 60  # of the series of a covariance: at nu = 2.5 the last is 1.5^-60 of the first
_WIDEST, _STEP = 24.0, 0.05  # of the sum over normal numbers behind a coefficient


@dataclass(frozen=True)
class StudentTLabels(MixtureLabels):
    r"""Student's t about the draws, with a known normal error on top.

    .. math:: F(y) = \frac1n \sum_{i=1}^n P(s \, t_\nu + e \, z \le y - f_i)

    Attributes:
        scale: s, `rows (x n_y)`.
        nu: the degrees of freedom, above 2, in the same shape.
        known: e, the known errors of labels, in the same shape; 0 where there is none.
        correlation: that of the normal scores of the noise of several outputs, `n_y x n_y`; None for independent ones.

    Examples:
        >>> labels = StudentTLabels(np.ones(1), np.full(1, 4.0), np.zeros(1))
        >>> labels.quantile(np.zeros((3, 1)), np.array(0.975)).round(3)
        array([2.776])

    """

    scale: Array
    nu: Array
    known: Array
    correlation: Array | None = None

    @property
    def std(self) -> Array:
        """The root of s^2 nu / (nu - 2) + e^2."""
        return np.hypot(self.scale * np.sqrt(self.nu / (self.nu - 2)), self.known)

    @property
    def covariance(self) -> Array:
        """The covariance of the labels of a row given f, `rows x n_y x n_y`; see `correlation_of_t`."""
        if self.correlation is None:
            return super().covariance
        of_nu, which = np.unique(self.nu, axis=0, return_inverse=True)
        found = np.array([correlation_of_t(nu, self.correlation) for nu in of_nu]).reshape(-1, *self.correlation.shape)
        sigma = self.scale * np.sqrt(self.nu / (self.nu - 2))
        return joint_covariance(sigma, found[which.reshape(-1)], self.known)

    def __getitem__(self, chosen: Any) -> StudentTLabels:
        """The labels of some rows, or of one output."""
        correlation = None if isinstance(chosen, tuple) else self.correlation
        return StudentTLabels(self.scale[chosen], self.nu[chosen], self.known[chosen], correlation)

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
        """The draws with noise, of several outputs jointly, and error added."""
        if self.correlation is None:
            noise = self.scale * random.standard_t(np.broadcast_to(self.nu, draws.shape))
        else:
            noise = self.scale * _t_of(joint_normal(random, draws.shape, self.correlation), self.nu)
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


def correlation_of_t(nu: Array, correlation: Array) -> Array:
    r"""The correlations of t distributed numbers whose normal scores have the correlations R.

    .. math:: \mathrm{corr}_{jk} = \sum_{n \text{ odd}} c_n(\nu_j) \, c_n(\nu_k) \, R_{jk}^n, \qquad
              c_n(\nu) = E\big[t_\nu(z) \, h_n(z)\big] \Big/ \sqrt{\tfrac{\nu}{\nu - 2}}

    with normal z, the t of the same probability, and Hermite polynomials h_n of norm one (Mehler's formula). For
    heavy tails it is a little below R.

    Args:
        nu: above 2, `n_y`.
        correlation: R, `n_y x n_y`.

    Returns:
        `n_y x n_y`.

    Examples:
        >>> correlation_of_t(np.array([2.5, 2.5]), np.array([[1.0, 0.8], [0.8, 1.0]])).round(3)
        array([[1.   , 0.659],
               [0.659, 1.   ]])

    """
    z = np.arange(-_WIDEST, _WIDEST + _STEP / 2, _STEP)
    weighted = _t_of(z[:, None], nu) * (_STEP * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))[:, None]
    before, now, found = np.zeros_like(z), np.ones_like(z), np.zeros_like(correlation)
    for n in range(1, _TERMS):
        before, now = now, (z * now - math.sqrt(n - 1) * before) / math.sqrt(n)
        c = now @ weighted / np.sqrt(nu / (nu - 2))
        found += np.outer(c, c) * correlation**n
    return np.asarray(found - np.diag(np.diag(found)) + np.eye(len(nu)))


def _t_of(z: Array, nu: Array) -> Array:
    """Numbers of Student's t with the probabilities of normal ones."""
    return np.asarray(-np.sign(z) * stdtrit(nu, ndtr(-np.abs(z))))


def _mixture(scale: Array, nu: Array, known: Array) -> tuple[Array, Array]:
    """The variances and the log weights of the normals that make up a t with a known error."""
    variance, log_weights = mixture(*(torch.tensor(each) for each in (scale, nu, known)))
    return variance.numpy(), log_weights.numpy()
