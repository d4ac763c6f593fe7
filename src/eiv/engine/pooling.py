"""Means and variances over networks with their shares, and over rows with their weights."""

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


def row_sum(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """The sum over rows, `S x rows x ...`, each times its weight, `S x rows`: `S x ...`."""
    if weights is None:
        return values.sum(1)
    return (weights.to(values).view(*weights.shape, *[1] * (values.ndim - 2)) * values).sum(1)


def row_mean(values: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""The mean over rows, each of which counts as often as its weight says.

    .. math:: \frac{\sum_i w_i v_i}{\sum_i w_i}

    Args:
        values: v, `S x rows x ...`.
        weights: w, `S x rows`; None where all are equal.

    Returns:
        `S x ...`.

    Examples:
        >>> import torch
        >>> row_mean(torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0, 1.0]]))
        tensor([2.])

    """
    if weights is None:
        return values.mean(1)
    return row_sum(values, weights) / beside(weights.sum(1), values[:, 0])


def row_std(values: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""The standard deviation over rows, that of a sample.

    .. math:: \sqrt{\frac{\sum_i w_i (v_i - \bar v)^2}{\sum_i w_i - 1}}

    Args and shapes are those of `row_mean`.

    Examples:
        >>> import torch
        >>> row_std(torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0, 1.0]]))
        tensor([1.7321])

    """
    if weights is None:
        return values.std(1)
    squares = (values - row_mean(values, weights).unsqueeze(1)).square()
    return (row_sum(squares, weights) / beside(weights.sum(1) - 1, values[:, 0])).sqrt()


def beside(numbers: Tensor, values: Tensor) -> Tensor:
    """One number per network, `S`, reshaped to multiply values `S x ...`."""
    return numbers.to(values).view(-1, *[1] * (values.ndim - 1))
