"""Quantiles of a mixture of normal distributions on a line."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["mixture_quantile"]

_STEPS = 40  # at most; seven do for most mixtures


def mixture_quantile(score: Tensor, weights: Tensor, means: Tensor, stds: Tensor) -> Tensor:
    r"""The quantile of a mixture at the level of a standard normal number: the smooth way to draw from it.

    .. math:: \sum_{c=1}^C w_c \Phi\Big(\frac{z - m_c}{s_c}\Big) = \Phi(e)

    For standard normal e, z has the mixture's distribution, rises with e and is smooth in e and in the mixture. Solved
    by Newton's method within a bracket, in the lower tail (the upper one is mirrored), so that neither tail is lost to
    rounding.

    Args:
        score: e, any shape.
        weights: w, that shape (broadcast) and C; zero for a component that is not there.
        means: m, the same.
        stds: s, the same; a mixture whose components are one and the same point is that point.

    Returns:
        z, the shape of `score`.

    Examples:
        >>> pair = torch.tensor([-1.0, 1.0])
        >>> mixture_quantile(torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5]), pair, torch.full((2,), 0.5))
        tensor([0.0000, 1.2376])

    """
    sign = torch.where(score > 0, -1.0, 1.0).to(score)
    lower, means = -score.abs(), sign.unsqueeze(-1) * means
    level = torch.special.ndtr(lower)
    quantiles = means + stds * lower.unsqueeze(-1)  # the mixture's quantile lies between those of its components
    low, high = quantiles.amin(-1), quantiles.amax(-1)
    inverse = 1 / stds.clamp_min(torch.finfo(score.dtype).tiny ** 0.5)
    density_weights = weights * inverse * (2 * torch.pi) ** -0.5
    z = (weights * quantiles).sum(-1).clamp(low, high)
    last, widest = high - low, stds.amax(-1)
    tolerance = 4 * torch.finfo(score.dtype).eps
    for _ in range(_STEPS):
        standard = (z.unsqueeze(-1) - means) * inverse
        found = (weights * torch.special.ndtr(standard)).sum(-1)
        density = (density_weights * torch.exp(-0.5 * standard.square())).sum(-1)
        below = found < level
        low, high = torch.where(below, z, low), torch.where(below, high, z)
        # Newton's step for log F, which is closer to a straight line than F in the tail. Halve the bracket instead
        # where that leads out of it, or steps do not shrink.
        move = -(found / level).log() * found / density
        good = (z + move >= low) & (z + move <= high) & (2 * move.abs() <= last)
        move = torch.where(good, move, low + (high - low) * 0.5 - z)
        z, last = z + move, move.abs()
        if bool((last <= tolerance * (z.abs() + widest)).all()):
            break
    return sign * z
