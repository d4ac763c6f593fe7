"""The bound that training climbs: eq. (mcloss) of the paper."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eiv import kernels
from eiv.quadrature import Quadrature
from eiv.stable import log_mean_exp

__all__ = [
    "add_loss_gradient",
    "bound",
    "choose_zetas",
    "chosen_gradient",
    "log_likelihood",
    "loss",
    "noise_constant",
]


def log_likelihood(f: Tensor, y: Tensor, y_noise: Tensor) -> Tensor:
    r"""The density of the measured output under each draw.

    .. math:: \log p(y | \theta, \zeta_l, \sigma_y^2) = \log \mathcal{N}(y | f_\theta(\zeta_l), \sigma_y^2)

    Args:
        f: `S x B x L x n_y`, the network's output for each row's zetas.
        y: `S x B x n_y`, the measured outputs.
        y_noise: `S x n_y`, sigma_y of each network and output; `S x B x n_y` where rows differ.

    Returns:
        `S x B x L`, summed over the outputs.

    Examples:
        >>> import torch
        >>> log_likelihood(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1), torch.ones(1, 1))
        tensor([[[-0.9189]]])

    """
    sigma = _of_draws(y_noise)
    residuals = (y.unsqueeze(2) - f) / sigma
    return -0.5 * residuals.square().sum(-1) - (sigma.log() + 0.5 * math.log(2 * math.pi)).sum(-1)


def bound(f: Tensor, y: Tensor, y_noise: Tensor, quadrature: Quadrature | None = None) -> Tensor:
    r"""The first term of eq. (mcloss) with its sign turned: what the data say for each network.

    .. math:: \frac{1}{M} \sum_{m=1}^M \log\Big(\frac1L \sum_{l=1}^L p(y_m | \theta_m, \zeta_{m,l}, \sigma_y^2)\Big)

    It rises with L towards the logarithm of the marginal likelihood, eq. (eiv_marginal_likelihood). With L = 1 and
    zeta = x it is the log-likelihood of the model without errors in x.

    Args:
        f: `S x B x L x n_y`.
        y: `S x B x n_y`.
        y_noise: `S x n_y`.
        quadrature: how the sum over zetas is formed, where it is not their mean.

    Returns:
        `S`, one value a network.

    Examples:
        >>> import torch
        >>> f, y, y_noise = torch.zeros(2, 3, 5, 1), torch.zeros(2, 3, 1), torch.ones(2, 1)
        >>> bound(f, y, y_noise)
        tensor([-0.9189, -0.9189])

    """
    if quadrature is None:
        return log_mean_exp(log_likelihood(f, y, y_noise), dim=-1).mean(-1)
    terms = log_likelihood(quadrature.points(f), y, y_noise) + quadrature.log_weights
    return log_mean_exp(terms, dim=-1).mean(-1)


def loss(
    f: Tensor, y: Tensor, y_noise: Tensor, kl: Tensor, n_rows: int, quadrature: Quadrature | None = None
) -> Tensor:
    r"""Equation (mcloss): what one optimisation step of Algorithm 1 lowers.

    .. math:: \mathcal{L}^{M.C.}(\phi) = -\mathrm{bound} + \frac1N D_{KL}(q_\phi(\theta) \| \pi(\theta))

    Args:
        f: `S x B x L x n_y`.
        y: `S x B x n_y`.
        y_noise: `S x n_y`.
        kl: `S`, the divergence of each network's weight posterior from the prior.
        n_rows: N, the rows of the training data (not of the minibatch).
        quadrature: as for `bound`.

    Returns:
        `S`, one value a network.

    Examples:
        >>> import torch
        >>> f, y, y_noise = torch.zeros(1, 3, 5, 1), torch.zeros(1, 3, 1), torch.ones(1, 1)
        >>> loss(f, y, y_noise, kl=torch.tensor([3.0]), n_rows=3)
        tensor([1.9189])

    """
    return kl / n_rows - bound(f, y, y_noise, quadrature)


def add_loss_gradient(
    f: Tensor, y: Tensor, inverse_noise: Tensor, total: Tensor, weight: float, quadrature: Quadrature | None = None
) -> Tensor:
    r"""The data's part of eq. (mcloss), up to `noise_constant`, and its gradient with respect to f, without autograd.

    .. math::
        \frac{\partial \mathcal{L}_s}{\partial f_{ml}} = \frac{1}{M} w_{ml} \frac{f_{ml} - y_m}{\sigma_y^2}, \qquad
        w_{ml} = \frac{p(y_m | \theta_m, \zeta_{ml})}{\sum_{l'} p(y_m | \theta_m, \zeta_{ml'})}

    Args:
        f: `S x B x L x n_y`; it may be overwritten.
        y: `S x B x n_y`.
        inverse_noise: `S x n_y`, 1 / sigma_y; `S x B x n_y` where rows differ.
        total: `S`; the negative bound of each network less `noise_constant`, times `weight`, is added to it.
        weight: the share of this minibatch.
        quadrature: as for `bound`; its weights multiply p in w.

    Returns:
        The gradient of the negative bound, `S x B x L x n_y`.

    Examples:
        >>> import torch
        >>> f, y, inverse_noise, total = torch.ones(1, 2, 5, 1), torch.zeros(1, 2, 1), torch.ones(1, 1), torch.zeros(1)
        >>> add_loss_gradient(f, y, inverse_noise, total, weight=1.0)[0, 0, 0], total
        (tensor([0.1000]), tensor([0.5000]))

    """
    few = f[0, ..., 0].numel() <= kernels.MOST_LOSS_VALUES
    plain = quadrature is None and inverse_noise.ndim == 2
    if plain and f.dtype == torch.float32 and kernels.available(f.device) and few:
        return kernels.add_loss_gradient(f, y, inverse_noise, total, weight)
    if quadrature is not None:
        f = quadrature.points(f)
    _, n_rows, n_zeta, _ = f.shape
    inverse = _of_draws(inverse_noise)
    residuals = f.sub_(y.unsqueeze(2)).mul_(inverse)
    squares = residuals.square()
    if n_zeta == 1:
        total.add_(squares.sum((1, 2, 3)), alpha=0.5 * weight / n_rows)
        return residuals.mul_(inverse).div_(n_rows)
    terms = squares.sum(-1).mul_(-0.5)  # S x B x L
    if quadrature is not None:
        terms += quadrature.log_weights
    total.sub_(log_mean_exp(terms, dim=-1).sum(-1), alpha=weight / n_rows)
    gradient = residuals.mul_(inverse).mul_(terms.softmax(-1).div_(n_rows).unsqueeze(-1))
    return gradient if quadrature is None else quadrature.to_zetas(gradient)


def choose_zetas(f: Tensor, y: Tensor, inverse_noise: Tensor, total: Tensor, weight: float, levels: Tensor) -> Tensor:
    r"""Choose, of the zetas of a row, those that explain its y: draws from the posterior given x and y.

    .. math:: P(l) = w_l = \frac{p(y | \theta, \zeta_l)}{\sum_{l'} p(y | \theta, \zeta_{l'})}, \qquad
              \nabla \log \frac1L \sum_l p(y | \theta, \zeta_l) = \sum_l w_l \nabla \log p(y | \theta, \zeta_l)

    The gradient of the bound is a mean over that distribution, so a few zetas drawn from it stand for all L.

    Args:
        f: `S x B x L x n_y`, the network's output for the candidates.
        y: `S x B x n_y`.
        inverse_noise: `S x n_y`, 1 / sigma_y; `S x B x n_y` where rows differ.
        total: `S`; the negative bound with all candidates, less `noise_constant`, times `weight`, is added to it.
        weight: the share of this minibatch.
        levels: `S x B x n_kept`, uniform between 0 and 1; evenly spaced ones with a common random shift choose best.

    Returns:
        The positions of those chosen, `S x B x n_kept`.

    Examples:
        >>> import torch
        >>> f = torch.tensor([-1.0, 0.0, 1.0]).reshape(1, 1, 3, 1)
        >>> levels = torch.tensor([[[0.2, 0.7]]])
        >>> choose_zetas(f, torch.ones(1, 1, 1), torch.full((1, 1), 10.0), torch.zeros(1), 1.0, levels)
        tensor([[[2, 2]]])

    """
    terms = (f - y.unsqueeze(2)).mul_(_of_draws(inverse_noise)).square().sum(-1).mul_(-0.5)
    total.sub_(log_mean_exp(terms, dim=-1).sum(-1), alpha=weight / y.shape[1])
    return torch.searchsorted(terms.softmax(-1).cumsum(-1), levels.contiguous()).clamp_max(f.shape[2] - 1)


def chosen_gradient(f: Tensor, y: Tensor, inverse_noise: Tensor) -> Tensor:
    r"""The gradient of the negative bound with respect to f at zetas that `choose_zetas` has chosen.

    .. math:: \frac{1}{M L} \frac{f_{ml} - y_m}{\sigma_y^2}

    Args:
        f: `S x B x L x n_y`; it is overwritten.
        y: `S x B x n_y`.
        inverse_noise: `S x n_y`, 1 / sigma_y; `S x B x n_y` where rows differ.

    Returns:
        `S x B x L x n_y`.

    Examples:
        >>> import torch
        >>> chosen_gradient(torch.ones(1, 1, 2, 1), torch.zeros(1, 1, 1), torch.ones(1, 1)).flatten()
        tensor([0.5000, 0.5000])

    """
    return f.sub_(y.unsqueeze(2)).mul_(_of_draws(inverse_noise).square()).div_(f.shape[1] * f.shape[2])


def noise_constant(y_noise: Tensor) -> Tensor:
    r"""The part of the negative bound that sigma_y alone decides.

    .. math:: \sum_{j=1}^{n_y} \log \sigma_{y,j} + \frac{n_y}{2} \log 2 \pi

    Args:
        y_noise: `S x n_y`; of `S x rows x n_y` the mean over the rows is taken.

    Returns:
        `S`.

    Examples:
        >>> import torch
        >>> noise_constant(torch.ones(1, 1))
        tensor([0.9189])

    """
    constant = (y_noise.log() + 0.5 * math.log(2 * math.pi)).sum(-1)
    return constant if y_noise.ndim == 2 else constant.mean(1)


def _of_draws(noise: Tensor) -> Tensor:
    """`S x n_y` or `S x B x n_y` as it goes with `S x B x L x n_y`."""
    return noise[:, None, None, :] if noise.ndim == 2 else noise.unsqueeze(2)
