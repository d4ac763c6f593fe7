"""A Gaussian mixture as prior of the true input."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from eiv.engine.readonly import ReadOnly, tensor_of
from eiv.inputs.zeta import ZetaMixture, square_root

__all__ = ["MixturePrior", "component_posteriors", "squared_distances"]


@dataclass(frozen=True)
class MixturePrior(ReadOnly):
    r"""A Gaussian mixture as prior of the true input; one component is a normal prior with correlated features.

    .. math::
        \pi(\zeta) = \sum_k \alpha_k\, \mathcal{N}(\zeta | m_k, V_k), \qquad
        \pi(\zeta | x, S) = \sum_k q_k\, \mathcal{N}(\zeta | b_k, B_k), \qquad
        q_k \propto \alpha_k\, \mathcal{N}(x | m_k, V_k + S)

    S is the covariance of the error of x; b and B are in `component_posteriors`. `eiv.LearnedPrior` finds such a prior
    from rows that have errors.

    Attributes:
        weights: alpha, `K`, above zero; they need not add up to one.
        means: m, `K x n_x`, in units of X.
        covariances: V, `K x n_x x n_x`, positive definite, or `K x n_x` for the variances of independent features.

    Examples:
        >>> prior = MixturePrior(weights=[1, 1], means=[[-1.0], [1.0]], covariances=[[0.1], [0.1]])
        >>> zeta = prior.posterior(torch.tensor([[0.5]]), torch.tensor([[0.3]]))
        >>> zeta.log_weights.exp()
        tensor([[0.0052, 0.9948]])

    """

    weights: ArrayLike
    means: ArrayLike
    covariances: ArrayLike

    def posterior(self, x: Tensor, x_err: Tensor) -> ZetaMixture:
        """The posterior for `x`, `rows x n_x`, with standard deviations or covariances `x_err` (rows may be 1)."""
        weights, means, covariances = self.components(x)
        log_density, mean, covariance = component_posteriors(x, x_err, means, covariances)
        scales = covariance.sqrt() if covariance.ndim == mean.ndim else square_root(covariance)
        return ZetaMixture.of(weights.log() + log_density, mean, scales)

    def log_density(self, x: Tensor, x_err: Tensor) -> Tensor:
        r"""The logarithm of the density of `x`, `rows`, which scatters by the prior and by its errors.

        .. math:: \log \sum_k \alpha_k\, \mathcal{N}(x | m_k, V_k + S) - \log \sum_k \alpha_k
        """
        weights, means, covariances = self.components(x)
        log_density, _, _ = component_posteriors(x, x_err, means, covariances)
        return (weights.log().log_softmax(0) + log_density).logsumexp(-1)

    def distances(self, x: Tensor, x_err: Tensor) -> tuple[Tensor, Tensor]:
        """The weights q of the components given `x`, `rows x K`, and how far x lies from each: `squared_distances`."""
        weights, means, covariances = self.components(x)
        log_density, squared = squared_distances(x, x_err, means, covariances)
        return (weights.log() + log_density).softmax(-1), squared

    def components(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights, means and covariances as tensors like `x`, `rows x n_x`, checked."""
        weights, means, covariances = (
            tensor_of(value, x.dtype, x.device) for value in (self.weights, self.means, self.covariances)
        )
        shape = (len(weights) if weights.ndim == 1 else 0, x.shape[-1])
        if weights.ndim != 1 or means.shape != shape or covariances.shape not in (shape, (*shape, shape[1])):
            raise ValueError(
                f"MixturePrior: for {x.shape[-1]} features, weights must have shape (K,), means (K, {x.shape[-1]}) and "
                f"covariances ({', '.join(['K'] + [str(x.shape[-1])] * 2)}) or (K, {x.shape[-1]}), got "
                f"{tuple(weights.shape)}, {tuple(means.shape)} and {tuple(covariances.shape)}."
            )
        definite = covariances > 0 if covariances.ndim == 2 else torch.linalg.cholesky_ex(covariances)[1] == 0
        if not bool((weights > 0).all()) or not bool(definite.all()):
            raise ValueError("MixturePrior: weights must be above zero and covariances positive definite.")
        return weights, means, covariances


def component_posteriors(x: Tensor, x_err: Tensor, means: Tensor, covariances: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""What each component makes of each row: the density of x, and the mean and covariance of zeta given x.

    .. math::
        \mathcal{N}(x | m, T), \qquad b = x - G (x - m), \qquad B = (I - G) S (I - G)^T + G V G^T, \qquad
        T = V + S, \quad G = S T^{-1}

    In this form an exact feature (a zero row of S) stays exact to the last digit, and B cannot turn negative.

    Args:
        x: `rows x n_x`.
        x_err: standard deviations, `rows x n_x`, or covariances S, `rows x n_x x n_x`; rows may be 1.
        means: m, `... x K x n_x`.
        covariances: V, `... x K x n_x` for variances of independent features, or `... x K x n_x x n_x`.

    Returns:
        `... x rows x K`, `... x rows x K x n_x`, and `... x (1 or rows) x K x n_x (x n_x)`; variances where both S and
        V are diagonal.

    Examples:
        >>> one = torch.ones(1, 1)
        >>> [part.item() for part in component_posteriors(2 * one, one, 0 * one, one)[1:]]
        [1.0, 0.5]

    """
    gap = x.unsqueeze(-2) - means.unsqueeze(-3)  # ... x rows x K x n_x
    constant = 0.5 * x.shape[-1] * math.log(2 * math.pi)
    if x_err.ndim == 2 and covariances.ndim == means.ndim:
        noise, of_component = x_err.square().unsqueeze(-2), covariances.unsqueeze(-3)
        total = noise + of_component
        share = noise / total
        log_density = -0.5 * (gap.square() / total + total.log()).sum(-1) - constant
        return log_density, x.unsqueeze(-2) - share * gap, share * of_component
    if covariances.ndim == means.ndim:
        covariances = covariances.diag_embed()
    noise = (x_err.square().diag_embed() if x_err.ndim == 2 else x_err).unsqueeze(-3)  # rows x 1 x n_x x n_x
    of_component = covariances.unsqueeze(-4)
    root = torch.linalg.cholesky(noise + of_component)
    share = torch.cholesky_solve(noise.expand_as(root), root).mT  # G
    rest = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device) - share
    posterior = rest @ noise @ rest.mT + share @ of_component @ share.mT
    whitened = _times(torch.linalg.inv(root), gap)
    log_density = -0.5 * whitened.square().sum(-1) - root.diagonal(dim1=-2, dim2=-1).log().sum(-1) - constant
    return log_density, x.unsqueeze(-2) - _times(share, gap), posterior


def squared_distances(x: Tensor, x_err: Tensor, means: Tensor, covariances: Tensor) -> tuple[Tensor, Tensor]:
    r"""How far each row lies from each component, in standard deviations of x given the component.

    .. math:: D^2 = (x - m)^T T^{-1} (x - m), \qquad T = V + S

    Args:
        x: `rows x n_x`.
        x_err: standard deviations, `rows x n_x`, or covariances S, `rows x n_x x n_x`; rows may be 1.
        means: m, `K x n_x`.
        covariances: V, `K x n_x` for variances of independent features, or `K x n_x x n_x`.

    Returns:
        The logarithm of the density of x but for a constant, `rows x K`; and the squared distances, `rows x K x n_x`
        with one for each feature where both S and V are diagonal, else `rows x K x 1`.

    Examples:
        >>> one = torch.ones(1, 1)
        >>> squared_distances(3 * one, 2 * one, one, 12 * one)[1].item()
        0.25

    """
    gap = x.unsqueeze(1) - means  # rows x K x n_x
    if x_err.ndim == 2 and covariances.ndim == 2:
        total = covariances + x_err.square().unsqueeze(1)
        squared = gap.square() / total
        return -0.5 * (squared.sum(-1) + total.log().sum(-1)), squared
    noise = (x_err.square().diag_embed() if x_err.ndim == 2 else x_err).unsqueeze(1)
    root = torch.linalg.cholesky(noise + (covariances.diag_embed() if covariances.ndim == 2 else covariances))
    if len(root) == 1:
        whitened = torch.linalg.solve_triangular(root[0], gap.permute(1, 2, 0), upper=False).permute(2, 0, 1)
    else:
        whitened = torch.linalg.solve_triangular(root, gap.unsqueeze(-1), upper=False).squeeze(-1)
    squared = whitened.square().sum(-1, keepdim=True)
    return -0.5 * squared.squeeze(-1) - root.diagonal(dim1=-2, dim2=-1).log().sum(-1), squared


def _times(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Products of `... x (1 or rows) x K x n x n` and `... x rows x K x n`."""
    if matrices.shape[-4] == 1:
        return torch.einsum("...kij,...rkj->...rki", matrices.squeeze(-4), vectors)
    return torch.einsum("...rkij,...rkj->...rki", matrices, vectors)
