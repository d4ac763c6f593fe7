"""Quantiles of a mixture of normal distributions on a line."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["mixture_quantile"]

_STEPS = 60  # at most; nine do for most mixtures
_TOLERANCE = 1e-11  # of the last step; Newton's method squares the error that is left


def mixture_quantile(score: Tensor, weights: Tensor, means: Tensor, stds: Tensor) -> Tensor:
    r"""The quantile of a mixture at the level of a standard normal number: the smooth way to draw from it.

    .. math:: \sum_{c=1}^C w_c \Phi\Big(\frac{z - m_c}{s_c}\Big) = \Phi(e)

    For standard normal e, z has the mixture's distribution, rises with e and is smooth in e and in the mixture. Solved
    by Newton's method within a bracket, in the lower tail (the upper one is mirrored), so that neither tail is lost to
    rounding, and to the end in float64: a z that is rounded to float32 then still rises with e.

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
    problem = _Problem(-score.abs(), weights, sign.unsqueeze(-1) * means, stds)
    exact = problem.to(torch.float64)
    rough = problem.to(torch.float32).solved(None, 1e-6)  # most of the way in half the time
    return sign * exact.solved(rough.double(), _TOLERANCE).to(score.dtype)


class _Problem(NamedTuple):
    """The level log Phi(e) in the lower tail, and the mixture: `...` and `... x C`."""

    lower: Tensor
    weights: Tensor
    means: Tensor
    stds: Tensor

    def to(self, dtype: torch.dtype) -> _Problem:
        """The same in other numbers."""
        return _Problem(*(part.to(dtype) for part in self))

    def solved(self, start: Tensor | None, tolerance: float) -> Tensor:
        """Where the distribution function reaches the level, from `start` or the mean of the components' quantiles."""
        lower, weights, means, stds = self
        level = _distribution(lower)
        quantiles = means + stds * lower.unsqueeze(-1)  # the mixture's quantile lies between those of its components
        low, high = quantiles.amin(-1), quantiles.amax(-1)
        inverse = 1 / stds.clamp_min(torch.finfo(lower.dtype).tiny ** 0.5)
        density_weights = weights * inverse * (2 * torch.pi) ** -0.5
        z = ((weights * quantiles).sum(-1) if start is None else start).clamp(low, high)
        last, widest = high - low, stds.amax(-1)
        for _ in range(_STEPS):
            standard = (z.unsqueeze(-1) - means) * inverse
            found = (weights * _distribution(standard)).sum(-1)
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
        return z


def _distribution(score: Tensor) -> Tensor:
    """Phi by the complementary error function; `torch.special.ndtr` loses the lower tail in float32."""
    return 0.5 * torch.erfc(-(0.5**0.5) * score)
