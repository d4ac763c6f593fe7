"""Extreme deconvolution: Gaussian mixtures of true inputs from rows whose errors are known."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from eiv.inputs.given import explained
from eiv.inputs.mixed import MixedErrors

_STEPS, _TOLERANCE = (300, 60), 1e-5  # on a line, and of several features; an early stop smooths a mixture
_STARTS = 4
_TINY = 1e-6  # a component that none of the rows belongs to goes to the middle
_PRIOR_ROWS = 1.0  # rows that the prior of a component's covariance counts for


class Mixtures(NamedTuple):
    """Mixtures for F choices of rows, and the log density of all rows under each, `F x rows`."""

    weights: Tensor
    means: Tensor
    covariances: Tensor
    log_density: Tensor


class Start(NamedTuple):
    """Where expectation maximisation begins.

    Attributes:
        shares: `(1 or F) x rows x K`, how much of each row belongs to each component.
        means: of zeta given x in each component, `(1 or F) x rows x K x n_x`; the third axis may be 1.
        covariances: the same of its covariance, or variances; None for zero.

    """

    shares: Tensor
    means: Tensor
    covariances: Tensor | None = None

    @classmethod
    def by_centres(cls, x: Tensor, weights: Tensor, n_components: int, random: torch.Generator) -> Start:
        """Each row belongs to the nearest of K centres (k-means), and errors count for nothing."""
        n_starts = min(_STARTS, len(x) // n_components)
        centres = x[torch.randperm(len(x), generator=random)[: n_starts * n_components]].unflatten(0, (n_starts, -1))
        for _ in range(20):
            nearest = torch.nn.functional.one_hot(torch.cdist(x, centres).argmin(-1), centres.shape[1]).to(x)
            own = nearest * weights.unsqueeze(-1)
            counts = own.sum(1).unsqueeze(-1)
            centres = torch.where(counts > 0, own.mT @ x / torch.where(counts > 0, counts, 1.0), centres)
        best = (torch.cdist(x, centres).amin(-1).square() * weights).sum(-1).argmin()
        return cls(nearest[best], x.unsqueeze(-2))

    @classmethod
    def by_mixture(
        cls, x: Tensor, x_err: Tensor | MixedErrors, weights: Tensor, means: Tensor, covariances: Tensor
    ) -> Start:
        """Each row belongs to the components of a mixture as the mixture has it."""
        log_density, b, B = explained(x, x_err, means[None], covariances[None])
        return cls((weights.log() + log_density).softmax(-1), b, B)


def deconvolve(x: Tensor, x_err: Tensor | MixedErrors, used: Tensor, start: Start, full: bool) -> Mixtures:
    """Expectation maximisation for all choices of rows at once.

    Args:
        x: `rows x n_x`, standardised.
        x_err: standard deviations, `rows x n_x`, or covariances, `rows x n_x x n_x`, or laws; rows may be 1.
        used: `F x rows`, how often each row counts for each mixture; 0 for a row that it is not learned from.
        start: where to begin.
        full: whether features may be correlated within a component.

    Returns:
        F mixtures.

    """
    shares, b, B = start.shares * used.unsqueeze(-1), start.means, start.covariances  # F x rows x K
    size = shares.shape[-1] ** (-2 / x.shape[1])  # of a component where K of them share the variance of x
    prior = _PRIOR_ROWS * size * (torch.eye(x.shape[1]).to(x) if full else torch.ones_like(x[0]))
    if B is None:
        B = torch.zeros_like(prior).expand(1, 1, 1, *prior.shape)
    last = x.new_full((), -torch.inf)
    for _ in range(_STEPS[x.shape[1] > 1]):
        if not full and B.ndim == 5:  # errors are correlated where features are not
            B = B.diagonal(dim1=-2, dim2=-1)
        counts = shares.sum(1)  # F x K
        weights = (counts + 1) / (counts + 1).sum(-1, keepdim=True)
        means = torch.einsum("frk,frki->fki", shares, b.expand(*shares.shape, -1)) / (counts + _TINY).unsqueeze(-1)
        gap = b - means.unsqueeze(1)
        weighted = shares.unsqueeze(-1) * gap
        products = torch.einsum("frki,frkj->fkij", weighted, gap) if full else (weighted * gap).sum(1)
        covariances = (products + _summed(shares, B) + prior) / (counts + _PRIOR_ROWS)[(..., *(None,) * prior.ndim)]
        log_density, b, B = explained(x, x_err, means, covariances)
        joint = log_density + weights.log().unsqueeze(1)
        log_density = joint.logsumexp(-1)
        shares = (joint - log_density.unsqueeze(-1)).exp() * used.unsqueeze(-1)
        now = (log_density * used).sum(1) / used.sum(1)
        if bool((now - last).abs().max() < (_TOLERANCE if shares.shape[-1] > 1 else 1e-9)):
            break
        last = now
    return Mixtures(weights, means, covariances, log_density)


def _summed(shares: Tensor, B: Tensor) -> Tensor:
    """Sums over the rows of `F x rows x K` times `F x (1 or rows) x K x ...`."""
    if B.shape[1] == 1:
        return shares.sum(1)[(..., *(None,) * (B.ndim - 3))] * B.squeeze(1)
    return torch.einsum("frk,frk...->fk...", shares, B.expand(len(shares), *B.shape[1:]))
