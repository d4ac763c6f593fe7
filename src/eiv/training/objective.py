"""The bound that training climbs: eq. (mcloss) of the paper."""

from __future__ import annotations

from torch import Tensor

from eiv.engine.quadrature import Quadrature
from eiv.engine.stable import log_mean_exp
from eiv.likelihoods import Likelihood

__all__ = ["bound", "loss"]


def bound(
    likelihood: Likelihood, f: Tensor, y: Tensor, y_err: Tensor | None = None, quadrature: Quadrature | None = None
) -> Tensor:
    r"""The first term of eq. (mcloss) with its sign turned: what the data say for each network.

    .. math:: \frac{1}{M} \sum_{m=1}^M \log\Big(\frac1L \sum_{l=1}^L p(y_m | \theta_m, \zeta_{m,l}, \sigma_y^2)\Big)

    It rises with L towards the logarithm of the marginal likelihood, eq. (eiv_marginal_likelihood). With L = 1 and
    zeta = x it is the log-likelihood of the model without errors in x.

    Args:
        likelihood: p(y | f).
        f: `S x B x L x n_y`.
        y: `S x B x n_y`.
        y_err: the same shape, or None.
        quadrature: how the sum over zetas is formed, where it is not their mean.

    Returns:
        `S`, one value per network.

    Examples:
        >>> import torch
        >>> from eiv.likelihoods import NormalLikelihood
        >>> bound(NormalLikelihood(torch.ones(2, 1)), torch.zeros(2, 3, 5, 1), torch.zeros(2, 3, 1))
        tensor([-0.9189, -0.9189])

    """
    if quadrature is None:
        return log_mean_exp(likelihood.log_density(f, y, y_err), dim=-1).mean(-1)
    terms = likelihood.log_density(quadrature.points(f), y, y_err) + quadrature.log_weights
    return log_mean_exp(terms, dim=-1).mean(-1)


def loss(negative_bound: Tensor, kl: Tensor, n_rows: int | Tensor) -> Tensor:
    r"""Equation (mcloss): what one optimisation step of Algorithm 1 lowers.

    .. math:: \mathcal{L}^{M.C.}(\phi) = -\mathrm{bound} + \frac1N D_{KL}(q_\phi(\theta) \| \pi(\theta))

    Args:
        negative_bound: `S`, minus the `bound` of a minibatch.
        kl: `S`, the divergence of each network's weight posterior from the prior.
        n_rows: N, the rows of the training data (not of the minibatch); of weighted rows the sum of their weights, `S`.

    Returns:
        `S`, one value per network.

    Examples:
        >>> import torch
        >>> loss(torch.tensor([0.5]), kl=torch.tensor([3.0]), n_rows=3)
        tensor([1.5000])

    """
    return kl / n_rows + negative_bound
