"""The split of a prediction's variance, eq. (EiV_uncertainty), from finitely many draws."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eiv.engine.pooling import beside, pooled, pooled_variance

__all__ = ["Moments", "conditional_moments", "literal_moments", "unbiased_moments"]


@dataclass(frozen=True)
class Moments:
    r"""Mean and variance parts of f_theta(zeta), estimates of eq. (EiV_pred_unc) and eq. (EiV_uncertainty).

    .. math:: u^2 = \mathrm{epistemic} + \mathrm{aleatoric}

    An unbiased estimate of a small variance can come out negative; `Prediction` takes such a one as zero.

    Attributes:
        mean: m(x), any shape.
        epistemic: the variance that the weights leave open, averaged over zeta; same shape.
        aleatoric: the variance that the true input leaves open, averaged over theta; same shape.

    Examples:
        >>> Moments(torch.zeros(1), epistemic=torch.ones(1), aleatoric=torch.ones(1)).variance
        tensor([2.])

    """

    mean: Tensor
    epistemic: Tensor
    aleatoric: Tensor

    @property
    def variance(self) -> Tensor:
        """U squared, the sum of both components."""
        return self.epistemic + self.aleatoric


def unbiased_moments(f: Tensor, pool: Tensor | None = None) -> Moments:
    r"""Unbiased estimates of m, of u squared and of both components, by a two-way analysis of variance within blocks.

    In each of G blocks, A weight draws of each network are crossed with L zetas of the block's own. With
    :math:`f = \mu + a_\theta + b_\zeta + c_{\theta\zeta}` (main effects and interaction),

    .. math::
        \mathrm{epistemic} = E_\zeta \mathrm{Var}_\theta f = \sigma_a^2 + \sigma_c^2, \qquad
        \mathrm{aleatoric} = \mathrm{Var}_\zeta E_\theta f = \sigma_b^2.

    Several networks are a mixture of S weight posteriors with shares p. The variance over theta at a fixed zeta, and
    that between the networks' means :math:`m_s`, estimate the first; the means have a Monte Carlo error, which is taken
    off. The variance over zeta of the mean over theta estimates :math:`\sigma_b^2 + \sum_s p_s^2 \sigma_{c,s}^2 / A`;
    the interaction's part is known from the residuals and is taken off too.

    .. math::
        \sum_s p_s (m_s - \bar m)^2 - \frac1A \sum_s p_s (1 - p_s) v_s, \qquad
        v_s = \mathrm{Var}_\theta f \text{ of network } s

    Args:
        f: `S x G x A x L x ...`, draws of f; A >= 2; L >= 2, or L = 1 for inputs known exactly.
        pool: p, `S`, the shares of the networks, which add up to one; None where all are equal.

    Returns:
        Moments of the shape `...`.

    Examples:
        >>> zeta = torch.randn(1, 5000, 1, 5, generator=torch.Generator().manual_seed(0))
        >>> theta = torch.randn(1, 5000, 5, 1, generator=torch.Generator().manual_seed(1))
        >>> moments = unbiased_moments(3 * zeta + 2 * theta)
        >>> moments.aleatoric.round(), moments.epistemic.round()
        (tensor(9.), tensor(4.))

    """
    n_networks, _, n_theta, n_zeta = f.shape[:4]
    within = f.var(dim=2)  # S x G x L
    network_means = f.mean(dim=2)
    if pool is None:
        mean, of_means = f.mean((0, 1, 2, 3)), (n_networks - 1) / n_networks * within.mean(0)
    else:
        mean, of_means = pooled(f.mean((1, 2, 3)), pool), pooled(beside(1 - pool, within) * within, pool)
    between = pooled_variance(network_means, pool) - of_means / n_theta
    epistemic = (pooled(within, pool) + between).mean((0, 1))
    if n_zeta == 1:
        return Moments(mean, epistemic, torch.zeros_like(epistemic))
    residuals = f - f.mean(2, keepdim=True) - f.mean(3, keepdim=True) + f.mean((2, 3), keepdim=True)
    squares, freedom = residuals.square().sum((2, 3)), (n_theta - 1) * (n_zeta - 1)
    if pool is None:
        interaction = squares.mean((0, 1)) / freedom / (n_networks * n_theta)
    else:
        interaction = pooled(squares.mean(1), pool.square()) / freedom / n_theta
    over_zeta = pooled(network_means, pool).var(dim=1).mean(0)
    return Moments(mean, epistemic, over_zeta - interaction)


def conditional_moments(
    mean: Tensor, variance: Tensor, weights: Tensor, weights_of_variance: Tensor, pool: Tensor | None = None
) -> Moments:
    r"""The moments of f where its mean and its variance over theta are known, at Q and at R zetas.

    .. math::
        \mathrm{epistemic} = E_\zeta \mathrm{Var}_\theta f
        = \sum_{r, s} w'_r p_s v_s(\zeta'_r) + \sum_q w_q \mathrm{Var}_s\, m_s(\zeta_q), \qquad
        \mathrm{aleatoric} = \mathrm{Var}_\zeta E_\theta f
        = \sum_q w_q \big(\bar m(\zeta_q) - \bar{\bar m}\big)^2

    Several networks are a mixture of S weight posteriors with shares p, as for `unbiased_moments`: by these shares
    :math:`\mathrm{Var}_s` and :math:`\bar m` are formed.

    Args:
        mean: m, `S x Q x rows x n_y`; Q = 1 for inputs known exactly.
        variance: v, `S x R x rows x n_y`.
        weights: w, `Q x rows`; they add up to one.
        weights_of_variance: w', `R x rows`.
        pool: p, `S`, the shares of the networks, which add up to one; None where all are equal.

    Returns:
        Moments, `rows x n_y`.

    Examples:
        >>> mean, variance = torch.tensor([1.0, 3.0]).view(1, 2, 1, 1), torch.full((1, 1, 1, 1), 5.0)
        >>> conditional_moments(mean, variance, torch.full((2, 1), 0.5), torch.ones(1, 1))
        Moments(mean=tensor([[2.]]), epistemic=tensor([[5.]]), aleatoric=tensor([[1.]]))

    """
    shares, shares_of_variance = weights.unsqueeze(-1), weights_of_variance.unsqueeze(-1)
    of_pool = pooled(mean, pool)  # Q x rows x n_y
    within = (shares_of_variance * pooled(variance, pool)).sum(0)
    between = (shares * pooled_variance(mean, pool)).sum(0)
    centre = (shares * of_pool).sum(0)
    return Moments(centre, within + between, (shares * (of_pool - centre).square()).sum(0))


def literal_moments(f: Tensor, weights: Tensor | None = None) -> Moments:
    r"""Algorithm 2 as printed, but for its misprint: L zetas are shared by all K thetas.

    .. math:: m = \frac{1}{LK} \sum_{l,k} m_{lk}, \qquad u^2 = \frac{1}{LK - 1} \sum_{l,k} (m_{lk} - m)^2

    The paper prints 1 / (LK - 1) outside the root, which eq. (EiV_pred_unc) does not allow. With few zetas u squared
    falls short: of the variance that the input leaves open, it holds about the share (L - 1) / L. The parts are those
    of the law of total variance for the drawn values, and they add up to u squared. Where thetas have weights w_k,

    .. math:: m = \frac1L \sum_{l,k} w_k m_{lk}, \qquad
              u^2 = \frac{\frac1L \sum_{l,k} w_k (m_{lk} - m)^2}{1 - \frac1L \sum_k w_k^2}

    Args:
        f: `K x L x ...`, the values m_lk.
        weights: w, `K`, which add up to one; None where all are equal.

    Returns:
        Moments of the shape `...`.

    Examples:
        >>> f = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> literal_moments(f).variance, f.var()
        (tensor(1.6667), tensor(1.6667))

    """
    if weights is None:
        n_draws = f.shape[0] * f.shape[1]
        mean, correction = f.mean((0, 1)), n_draws / (n_draws - 1)
    else:
        mean, correction = pooled(f, weights).mean(0), 1 / (1 - weights.square().sum().item() / f.shape[1])
    epistemic = pooled_variance(f, weights).mean(0) * correction
    aleatoric = pooled(f, weights).var(dim=0, correction=0) * correction
    return Moments(mean, epistemic, aleatoric)
