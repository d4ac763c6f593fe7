"""Draws whose moments are exactly what they should be, so that all rows do not share one random error."""

from __future__ import annotations

import torch
from torch import Tensor

from eiv.inputs.zeta import ZetaMixture, ZetaPosterior
from eiv.prediction.decomposition import Moments

__all__ = ["by_share", "evenly", "matched_draws", "matched_nodes", "matched_noise", "matched_zetas"]

_MOST_STRETCH = 1.25  # of draws of a mixture, along any direction
_RIDGE = 1e-10  # of a correlation, for directions in which zeta does not vary
FREEDOM = 2  # covariances are matched in full from this many degrees of freedom per number on


def matched_noise(noise: Tensor, correction: int = 1) -> Tensor:
    r"""Standard normal numbers whose mean is exactly zero and whose covariance within blocks is exactly one.

    .. math:: \frac{1}{G L} \sum_{g, l} e_{gl} = 0, \qquad
              \frac{1}{G (L - c)} \sum_{g, l} (e_{gl} - \bar e_g)(e_{gl} - \bar e_g)^T = I

    The least change that does it: the deviations from the means of the blocks are replaced by their polar factor, and
    the mean over all blocks is taken off. With fewer degrees of freedom, G (L - c) < 2 n, each number is scaled for
    itself.

    Args:
        noise: `G x L x n`, L being 2 at least.
        correction: c, 1 for draws, 0 for nodes of a rule with weights 1 / L.

    Returns:
        The same shape.

    Examples:
        >>> matched = matched_noise(torch.randn(4, 5, 2, dtype=torch.float64))
        >>> (matched.var(dim=1).mean(0) - 1).abs().max() < 1e-12, matched.mean((0, 1)).abs().max() < 1e-12
        (tensor(True), tensor(True))

    """
    values = noise.double()
    means = values.mean(1, keepdim=True)
    gaps, freedom = values - means, noise.shape[0] * (noise.shape[1] - correction)
    if freedom >= FREEDOM * noise.shape[2]:
        left, _, right = torch.linalg.svd(gaps.flatten(0, 1), full_matrices=False)
        gaps = freedom**0.5 * (left @ right).view_as(gaps)
    else:
        total = gaps.square().sum((0, 1))
        gaps = gaps * torch.where(total > 0, freedom / total, 1.0).sqrt()  # a single node does not scatter
    return (means - means.mean(0) + gaps).to(noise.dtype)


def matched_zetas(inputs: ZetaPosterior, noise: Tensor) -> Tensor:
    r"""Draws of zeta of each row with exactly the mean and, within blocks, the covariance of its posterior.

    .. math:: \zeta_{gl} = m + A (z_{gl} - \bar z), \qquad A S A^T = C, \qquad
              S = \frac{1}{G (L - 1)} \sum_{g, l} (z_{gl} - \bar z_g)(z_{gl} - \bar z_g)^T

    For f that is linear in zeta neither the mean nor the aleatoric component then has a random error. Draws z of a
    normal posterior come out so by themselves, from `matched_noise`; those of a mixture are moved, each row for itself;
    with fewer than two degrees of freedom per feature, only the variances are matched. Draws of a mixture that would
    have to be stretched by more than a quarter, and those of a posterior of the user's own, are left as they are.

    Args:
        inputs: the posterior of zeta given x, `rows x n_x`.
        noise: base noise that serves all rows, `G x L x n_base`, its first n_x numbers from `matched_noise`.

    Returns:
        `rows x G x L x n_x`.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> normal = ZetaNormal(torch.zeros(7, 1), torch.full((1, 1), 0.1))
        >>> zeta = matched_zetas(normal, matched_noise(torch.randn(4, 5, 1)))
        >>> zeta.shape, zeta.var(dim=2).mean(1)[0]
        (torch.Size([7, 4, 5, 1]), tensor([0.0100]))

    """
    drawn = inputs.draw(noise.flatten(0, 1).expand(len(inputs.mean), -1, -1))
    zeta: Tensor = drawn.unflatten(1, noise.shape[:2])
    values = zeta.double()
    gaps = (values - values.mean(2, keepdim=True)).flatten(1, 2)
    freedom = noise.shape[0] * (noise.shape[1] - 1)
    return _moved(inputs, drawn, values.mean((1, 2)), gaps.mT @ gaps / freedom, freedom).view_as(zeta)


def matched_nodes(inputs: ZetaPosterior, noise: Tensor) -> tuple[Tensor, Tensor]:
    r"""Nodes for the integral over zeta of each row, with exactly the mean and the covariance of its posterior.

    .. math:: E h(\zeta) \approx \sum_q w_q h(\zeta_q), \qquad \sum_q w_q \zeta_q = m, \qquad
              \sum_q w_q (\zeta_q - m)(\zeta_q - m)^T = C

    Moved as draws are by `matched_zetas`. Weights are those of `ZetaPosterior.at_nodes`.

    Args:
        inputs: the posterior of zeta given x, `rows x n_x`.
        noise: nodes that serve all rows, `Q x n_base`, their first n_x numbers from `matched_noise`.

    Returns:
        Zetas, `rows x Q x n_x`, and weights, `rows x Q`.

    Examples:
        >>> from eiv.inputs import ZetaNormal
        >>> normal = ZetaNormal(torch.zeros(7, 1), torch.full((1, 1), 0.1))
        >>> zeta, weights = matched_nodes(normal, torch.tensor([[-1.0], [1.0]]))
        >>> zeta[0].flatten(), weights[0]
        (tensor([-0.1000,  0.1000]), tensor([0.5000, 0.5000]))

    """
    zeta, weights = inputs.at_nodes(noise.expand(len(inputs.mean), -1, -1))
    values, shares = zeta.double(), weights.double().unsqueeze(-1)
    centre = (shares * values).sum(1)
    gaps = values - centre.unsqueeze(1)
    return _moved(inputs, zeta, centre, (shares * gaps).mT @ gaps, len(noise)), weights


def evenly(weights: Tensor) -> Tensor:
    r"""Which nodes stand in the place of nodes of equal weight: each as often as its weight asks for.

    .. math:: q_i = \min \left\{q : \sum_{r \le q} w_r \ge \frac{i - 1/2}{Q}\right\}, \qquad i = 1, \dots, Q

    Args:
        weights: w, `Q x rows`, which add up to one.

    Returns:
        Their places, the same shape; 0 to Q - 1 where all weights are equal.

    Examples:
        >>> evenly(torch.tensor([[0.25, 0.7], [0.25, 0.1], [0.25, 0.1], [0.25, 0.1]])).T
        tensor([[0, 1, 2, 3],
                [0, 0, 0, 2]])

    """
    n_nodes = len(weights)
    levels = (torch.arange(n_nodes, dtype=weights.dtype, device=weights.device) + 0.5) / n_nodes
    reached = weights.cumsum(0).T.contiguous()
    return torch.searchsorted(reached, levels.expand_as(reached).contiguous()).clamp_max(n_nodes - 1).T


def by_share(pool: Tensor, orders: Tensor) -> Tensor:
    r"""Which draws of S networks, n each, make up as many draws of a pool: each network has its share of them.

    Draws of a network whose share is above 1 / S stand there several times, of one below it some are left out. A random
    order of a network's draws decides which: those that follow each other have zetas or thetas in common.

    Args:
        pool: `S`, the shares, which add up to one.
        orders: `S x n`, a permutation of 0 ... n - 1 for each network.

    Returns:
        `S n`, positions among the draws of all networks, one network behind another.

    Examples:
        >>> by_share(torch.tensor([0.75, 0.25]), torch.tensor([[0, 1], [1, 0]]))
        tensor([0, 0, 1, 3])

    """
    n_networks, n_each = orders.shape
    draws = orders + n_each * torch.arange(n_networks, device=orders.device).unsqueeze(1)
    weights = (pool.double() / n_each).repeat_interleave(n_each)
    return draws.flatten()[evenly(weights.unsqueeze(1)).squeeze(1)]


def matched_draws(draws: Tensor, moments: Moments) -> Tensor:
    r"""Draws of f, each row moved and scaled so that its mean and variance are those of `moments`.

    .. math:: f_i \mapsto m + \frac{u}{s} (f_i - \bar f)

    Quantiles of the draws and intervals from the moments then say the same. Correlations between rows stay.

    Args:
        draws: `n x rows x n_y`.
        moments: of f, `rows x n_y`.

    Returns:
        The same shape; a row whose draws do not vary is moved only.

    Examples:
        >>> one = torch.ones(1, 1)
        >>> moments = Moments(0 * one, epistemic=one, aleatoric=0 * one)
        >>> matched_draws(torch.tensor([[[1.0]], [[3.0]]]), moments).flatten()
        tensor([-1.,  1.])

    """
    mean, std = draws.mean(0), draws.std(0, correction=0)
    wanted = (moments.epistemic.clamp_min(0) + moments.aleatoric.clamp_min(0)).sqrt()
    return moments.mean + torch.where(std > 0, wanted / std, 1.0) * (draws - mean)


def _moved(inputs: ZetaPosterior, zeta: Tensor, centre: Tensor, sample: Tensor, freedom: int) -> Tensor:
    """Zetas of a mixture, `rows x L x n_x`, moved from the mean and covariance that they have to those of `inputs`."""
    noisy = list(inputs.noisy)
    if not isinstance(inputs, ZetaMixture) or inputs.means.shape[-2] == 1 or not inputs.matchable or not noisy:
        return zeta
    sample, wanted = (matrix[..., noisy, :][..., noisy].double() for matrix in (sample, inputs.covariance))
    if freedom < FREEDOM * zeta.shape[-1]:  # not of the noisy features, which may be others for other rows
        sample, wanted = (matrix.diagonal(dim1=-2, dim2=-1).diag_embed() for matrix in (sample, wanted))
    change, mild = _change(sample, wanted)
    mild |= inputs.lines == "all"  # quantiles meet every component that matters
    values = zeta[..., noisy].double()
    matched = inputs.mean[:, None, noisy].double() + (values - centre[:, None, noisy]) @ change.mT
    zeta[..., noisy] = torch.where(mild[:, None, None], matched, values).to(zeta.dtype)
    return zeta


def _change(sample: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The matrices A with A S A^T = C, `rows x n x n`, and whether they move draws but a little, `rows`.

    By Cholesky factors in units of C's standard deviations. A component that none of the draws has met makes S much
    smaller than C; to stretch the draws of the others over the gap between them would put zetas where the posterior has
    none.
    """
    std = wanted.diagonal(dim1=-2, dim2=-1).sqrt()
    std = torch.where(std > 0, std, 1.0)
    unit = std.unsqueeze(-1) * std.unsqueeze(-2)
    ridge = _RIDGE * torch.eye(wanted.shape[-1], dtype=wanted.dtype, device=wanted.device)
    (of_sample, bad_sample), (of_wanted, bad_wanted) = (
        torch.linalg.cholesky_ex(matrix / unit + ridge) for matrix in (sample, wanted)
    )
    of_wanted = of_wanted.expand_as(of_sample)
    relative = torch.linalg.solve_triangular(of_sample, of_wanted, upper=False)  # its singular values are those of A
    sizes = torch.linalg.svdvals(relative.nan_to_num())
    mild = (sizes.amax(-1) <= _MOST_STRETCH) & (sizes.amin(-1) >= 1 / _MOST_STRETCH)
    change = torch.linalg.solve_triangular(of_sample, of_wanted, upper=False, left=False)
    change = change * (std.unsqueeze(-1) / std.unsqueeze(-2))
    return change.nan_to_num(), mild & (bad_sample == 0) & (bad_wanted == 0)
