"""Logarithms of sums and of probabilities that neither overflow nor underflow."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["log_mean_exp", "log_normal_mass"]

_FAR = 20.0  # standard deviations, from where on two terms of the asymptotic series do


def log_mean_exp(values: Tensor, dim: int) -> Tensor:
    r"""The logarithm of the mean of numbers whose logarithms are given.

    .. math:: \log \frac{1}{L} \sum_{l=1}^{L} e^{v_l}

    Args:
        values: `... x L x ...`, logarithms; minus infinity stands for a zero.
        dim: the axis L, which the mean is taken over.

    Returns:
        `values` without the axis `dim`.

    Examples:
        >>> log_mean_exp(torch.tensor([1000.0, 1000.0]), dim=0)
        tensor(1000.)

    """
    return torch.logsumexp(values, dim) - math.log(values.shape[dim])


def log_normal_mass(low: Tensor, high: Tensor) -> Tensor:
    r"""The logarithm of the probability that a standard normal number lies between two others.

    .. math:: \log (\Phi(b) - \Phi(a))

    Args:
        low: a, any shape.
        high: b, the same shape, each above its a.

    Returns:
        The same shape; right in both tails, where the probability itself would be zero.

    Examples:
        >>> log_normal_mass(torch.tensor(-1.0), torch.tensor(1.0)).exp()
        tensor(0.6827)

    """
    upper = low + high > 0  # differences of small numbers, not of numbers close to one
    left, right = torch.where(upper, -high, low), torch.where(upper, -low, high)
    mass = (0.5 * (torch.erfc(-(0.5**0.5) * right) - torch.erfc(-(0.5**0.5) * left))).log()
    smaller, larger = _log_tail(left), _log_tail(right)
    return torch.where(right < -_FAR, larger + (-torch.expm1(smaller - larger)).log(), mass)


def _log_tail(score: Tensor) -> Tensor:
    """The logarithm of Phi far below zero."""
    square = score.clamp_max(-_FAR).square()
    return -0.5 * (square + square.log() + math.log(2 * math.pi)) + (-1 / square).log1p()
