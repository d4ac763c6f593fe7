"""Logarithms of sums of exponentials that neither overflow nor underflow."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["log_mean_exp"]


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
