"""Means and variances over a pool of networks, each with its share."""

from __future__ import annotations

from torch import Tensor

__all__ = ["pooled", "pooled_variance"]


def pooled(values: Tensor, pool: Tensor | None = None) -> Tensor:
    r"""The mean over networks, weighted by their shares.

    .. math:: \bar v = \sum_s p_s v_s

    Args:
        values: v, `S x ...`.
        pool: p, `S`, the shares; they add up to one. None where all are equal.

    Returns:
        The shape `...`.

    Examples:
        >>> import torch
        >>> pooled(torch.tensor([1.0, 11.0]), torch.tensor([0.9, 0.1]))
        tensor(2.)

    """
    return values.mean(0) if pool is None else (beside(pool, values) * values).sum(0)


def pooled_variance(values: Tensor, pool: Tensor | None = None) -> Tensor:
    r"""The variance over networks, weighted by their shares.

    .. math:: \sum_s p_s (v_s - \bar v)^2

    Args and shapes are those of `pooled`.

    Examples:
        >>> import torch
        >>> pooled_variance(torch.tensor([1.0, 11.0]), torch.tensor([0.9, 0.1]))
        tensor(9.)

    """
    return values.var(0, correction=0) if pool is None else pooled((values - pooled(values, pool)).square(), pool)


def beside(numbers: Tensor, values: Tensor) -> Tensor:
    """One number per network, `S`, reshaped to multiply values `S x ...`."""
    return numbers.to(values).view(-1, *[1] * (values.ndim - 1))
